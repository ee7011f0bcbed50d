"""Prices move toward what there is room for, and stay between their floor and the face value."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import CardNode, CardRequest, Spot
from bayplan.fleet.cards.state import CardFleet, Floats
from bayplan.fleet.cards.values.constants import Constants
from bayplan.fleet.cards.values.kinds import PricedKinds
from bayplan.fleet.cards.values.node_values import NodeValues
from bayplan.fleet.cards.values.prices import Prices

CPU_PRICES: Floats = np.array([0.0, 0.01, 0.1])
RARE, ANY = PodKind(1000, 1000, 1, ("rare",)), PodKind(1000, 1000, 1, ())
KINDS = st.builds(
    PodKind, st.sampled_from((0, 4000)), st.integers(1, 1000), st.just(1), st.sampled_from(((), ("usual",), ("rare",)))
) | st.builds(PodKind, st.just(8000), st.just(1000), st.sampled_from((2, 4)), st.just(()))


class Market:
    """Prices on a fleet of one card of the rare model and nine usual ones."""

    def __init__(self, counts: Mapping[PodKind, float], constants: Constants, known: Mapping[PodKind, float]) -> None:
        shapes = (("rare", 1), ("usual", 4), ("usual", 4), ("usual", 1))
        self.fleet = CardFleet(
            [
                CardNode(name=f"n{i}", cpu_milli=32000, memory_bytes=0, cards=cards, model=model)
                for i, (model, cards) in enumerate(shapes)
            ]
        )
        self.prices = Prices(PricedKinds(counts, self.fleet.models), self.fleet, CPU_PRICES, constants, known)
        self.nodes = NodeValues(self.fleet, CPU_PRICES)
        self.renew()

    def renew(self) -> None:
        self.nodes.renew(self.prices.table_of_node, self.prices.tables.values, everything=True)

    def step(self) -> dict[PodKind, float]:
        idle = (self.fleet.capacity_milli - self.fleet.allocated_milli) / 1000
        self.prices.step(self.nodes, idle)
        self.renew()
        return self.prices.by_kind()


def test_a_step_lowers_what_there_is_much_room_for_and_raises_what_is_short_of_room() -> None:
    market = Market({RARE: 5, ANY: 5}, Constants(), {RARE: 0.5, ANY: 0.5})
    after = market.step()
    assert after[RARE] > 0.5 > after[ANY]


def test_prices_come_to_rest_at_the_floor_and_at_the_face_value() -> None:
    market = Market({RARE: 5, ANY: 1}, Constants(rate=0.2), {})
    for _ in range(60):
        after = market.step()
    assert after == {RARE: 1.0, ANY: pytest.approx(0.1)}


@given(
    st.dictionaries(KINDS, st.integers(1, 30), max_size=6),
    st.floats(0.01, 2),
    st.integers(0, 9),
    st.integers(1, 8),
)
@settings(max_examples=60)
def test_no_price_leaves_its_bounds(counts: dict[PodKind, float], rate: float, taken: int, steps: int) -> None:
    market = Market(counts, Constants(rate=rate), {})
    spots = [(node, card) for node, cards in enumerate((1, 4, 4, 1)) for card in range(cards)]
    for node, card in spots[:taken]:
        market.fleet.take(Spot(node, (card,)), CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=900))
    market.renew()
    for _ in range(steps):
        for kind, price in market.step().items():
            face = kind.total_milli / 1000
            assert Constants().floor * face <= price <= face


@given(st.lists(KINDS, min_size=1, max_size=6, unique=True), st.floats(0.001, 0.01))
@settings(max_examples=40)
def test_one_step_moves_no_price_further_than_the_rate_allows(kinds: list[PodKind], rate: float) -> None:
    half = {kind: 0.5 * kind.total_milli / 1000 for kind in kinds}
    market = Market(dict.fromkeys(kinds, 1.0), Constants(rate=rate), half)
    for kind, price in market.step().items():
        assert abs(np.log(price / half[kind])) <= rate * (1 + 1e-9)


def test_prices_move_faster_as_the_fleet_fills_up_to_a_limit() -> None:
    moved = []
    for idle in (10.0, 5.0, 1e-9):
        market = Market({RARE: 5, ANY: 5}, Constants(most_haste=1.5, haste=0.3), {RARE: 0.5, ANY: 0.5})
        # Nothing is idle, so that both are short of room and go up by all of the rate.
        for node, cards in enumerate((1, 4, 4, 1)):
            whole = CardRequest(cpu_milli=0, memory_bytes=0, cards=cards, milli=1000)
            market.fleet.take(Spot(node, tuple(range(cards))), whole)
        market.renew()
        market.prices.step(market.nodes, idle)
        moved.append(float(np.log(market.prices.by_kind()[RARE] / 0.5)))
    assert moved[0] < moved[1]
    assert moved[2] <= 1.5 * Constants().rate * (1 + 1e-9)


def test_kinds_of_equally_many_cards_are_counted_together() -> None:
    """Only the better of two brings supply, yet the other is not taken to be short of room."""
    better, other = PodKind(0, 1000, 2, ("usual",)), PodKind(9000, 1000, 2, ("usual",))
    market = Market({better: 1, other: 1}, Constants(group_weight=0.0), {better: 1.2, other: 1.1})
    after = market.step()
    assert after[better] / 1.2 == pytest.approx(after[other] / 1.1)


def test_a_new_kind_starts_as_far_below_its_face_value_as_those_that_name_the_same_models() -> None:
    new, alone = PodKind(0, 400, 1, ("rare",)), PodKind(0, 300, 1, ("usual",))
    market = Market({RARE: 3, ANY: 2, new: 1, alone: 1}, Constants(), {RARE: 0.7, ANY: 0.2})
    assert market.prices.by_kind() == pytest.approx({RARE: 0.7, ANY: 0.2, new: 0.28, alone: 0.3})
    assert market.prices.knows(new)
    assert not market.prices.knows(PodKind(1, 400, 1, ()))


@pytest.mark.parametrize("counts", [{}, {PodKind(1000, 0, 0, ()): 4}])
def test_without_kinds_that_ask_for_cards_there_is_nothing_to_move(counts: dict[PodKind, float]) -> None:
    market = Market(counts, Constants(), {})
    assert market.step() == {}
    assert market.prices.horizon(10.0) == 0
    assert market.nodes.value.tolist() == [0.0] * 4


def test_the_horizon_is_what_fills_the_idle_cards() -> None:
    half = PodKind(0, 500, 1, ())
    market = Market({half: 1, PodKind(1000, 0, 0, ()): 1}, Constants(reserve=0.1), {})
    assert market.prices.horizon(8.0) == pytest.approx(1.1 * 8 / 0.25)
