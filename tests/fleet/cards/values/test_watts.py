"""What a kW counts: dear cards are left for later, as long as later pods could fill them and the fleet has room."""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import WHOLE, CardNode, CardRequest, Spot
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import CardFleet
from bayplan.fleet.cards.values.constants import Constants
from bayplan.fleet.cards.values.kinds import PricedKinds
from bayplan.fleet.cards.values.policy import ValuesPolicy
from bayplan.fleet.cards.values.watts import Watts

CONSTANTS = Constants(card_watts=0.2, cpu_watts=0.1, quiet_until=0.85)
CARD = CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=WHOLE)
KINDS = {PodKind(4000, WHOLE, 1, ()): 1}


def fleet_of(*shapes: tuple[str, int, int]) -> CardFleet:
    """By node: model, cards, vCPUs."""
    return CardFleet(
        [
            CardNode(name=f"n{i}", cpu_milli=cpu * 1000, memory_bytes=0, cards=cards, model=model)
            for i, (model, cards, cpu) in enumerate(shapes)
        ]
    )


def gpus(watts: Watts, request: CardRequest, nodes: list[int], left: int = WHOLE) -> list[float]:
    found: list[float] = watts.gpus(request, np.array(nodes), np.full(len(nodes), left)).tolist()
    return found


def test_of_nodes_worth_the_same_the_one_that_draws_less_is_taken() -> None:
    """G3 draws 350 W more in use, G2 120, T4 60."""
    fleet = fleet_of(("G3", 1, 32), ("G2", 1, 32), ("T4", 1, 32), ("T4", 1, 32))
    asked = CardRequest(cpu_milli=4000, memory_bytes=0, cards=1, milli=WHOLE)
    with_power = ValuesPolicy(PolicySetup(fleet=fleet, counts=KINDS, option="power"))
    without = ValuesPolicy(PolicySetup(fleet=fleet, counts=KINDS))
    assert with_power.place(asked) == Spot(2, (0,))
    assert without.place(asked) == Spot(0, (0,))


def test_a_cpu_socket_in_use_is_filled_up_before_another() -> None:
    fleet = fleet_of(("T4", 1, 32), ("T4", 1, 32))
    fleet.take(Spot(1), CardRequest(cpu_milli=4000, memory_bytes=0))
    policy = ValuesPolicy(PolicySetup(fleet=fleet, counts={PodKind(1000, 0, 0, ()): 1}, option="power"))
    assert policy.place(CardRequest(cpu_milli=4000, memory_bytes=0)) == Spot(1)


def test_cards_count_what_they_draw_beyond_the_usual_and_only_when_they_were_idle() -> None:
    fleet = fleet_of(("G3", 1, 32), ("G2", 4, 32), ("T4", 1, 32))
    watts = Watts(fleet, CONSTANTS)
    assert gpus(watts, CARD, [0, 1, 2]) == pytest.approx([0.2 * 0.23, 0, 0.2 * -0.06])
    assert gpus(watts, CARD, [0, 1, 2], left=500) == [0, 0, 0]
    four = CardRequest(cpu_milli=0, memory_bytes=0, cards=4, milli=WHOLE)
    assert gpus(watts, four, [0]) == pytest.approx([4 * 0.2 * 0.23])


@pytest.mark.parametrize(("taken", "part"), [(0, 1), (76, 1), (80, 10 * (1 - 0.80 / 0.85)), (85, 0), (99, 0)])
def test_watts_fade_as_the_fleet_fills_and_are_nothing_beyond(taken: int, part: float) -> None:
    fleet = fleet_of(("G3", 1, 32), ("T4", 99, 32))
    watts = Watts(fleet, CONSTANTS)
    for card in range(taken):
        fleet.take(Spot(1, (card,)), CARD)
    assert gpus(watts, CARD, [0]) == pytest.approx([part * 0.2 * 0.29])
    assert gpus(watts, CardRequest(cpu_milli=9000, memory_bytes=0), [0]) == pytest.approx([part * 0.1 * 0.105])


def test_dear_cards_without_cpu_are_not_left_for_later_than_the_pods_that_fit_them() -> None:
    """Two dear cards with 1 vCPU each can only take pods of little CPU: whether enough of them are to come decides."""
    fleet = fleet_of(("T4", 4, 64), ("T4", 4, 64), ("G3", 2, 2))
    kinds = PricedKinds({PodKind(1000, WHOLE, 1, ()): 1, PodKind(8000, WHOLE, 1, ()): 1}, fleet.models)
    watts = Watts(fleet, CONSTANTS)
    later = []
    for horizon in (10.0, 3.4, 1.0):
        watts.renew(kinds, horizon)
        later.append(gpus(watts, CARD, [2])[0] / (0.2 * 0.29))
    # To come for 2 cards: 5, 1.7 and 0.5 pods of 1 vCPU; what is left for later goes from 0.9 to 0.8 of the cards.
    assert later == pytest.approx([1, 0.5, 0])


def test_cpu_counts_only_while_there_is_enough_for_what_comes() -> None:
    fleet = fleet_of(("T4", 1, 100))
    kinds = PricedKinds({PodKind(10000, WHOLE, 1, ()): 1}, fleet.models)
    watts = Watts(fleet, CONSTANTS)
    asked = CardRequest(cpu_milli=1000, memory_bytes=0)
    counts = []
    for horizon in (1.0, 8.0, 9.0, 9.5):
        watts.renew(kinds, horizon)
        counts.append(gpus(watts, asked, [0])[0])
    socket = 0.1 * 0.105
    assert counts == pytest.approx([socket, socket, socket / 2, 0], abs=1e-12)


def test_a_fleet_without_cards_has_no_usual_card() -> None:
    fleet = fleet_of(("", 0, 32), ("", 0, 64))
    watts = Watts(fleet, CONSTANTS)
    watts.renew(PricedKinds({}, fleet.models), 0.0)
    assert gpus(watts, CardRequest(cpu_milli=1000, memory_bytes=0), [0, 1]) == pytest.approx([0.1 * 0.105] * 2)
