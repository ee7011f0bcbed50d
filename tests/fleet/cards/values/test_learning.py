"""The mix as it is learnt: what is known beforehand, what is forgotten, and how a policy comes to know new kinds."""

from __future__ import annotations

import pytest

from bayplan.fleet.cards.mix import PodKind, kind_of
from bayplan.fleet.cards.model import WHOLE, CardNode, CardRequest
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import CardFleet
from bayplan.fleet.cards.values.constants import Constants
from bayplan.fleet.cards.values.learning import LearntMix
from bayplan.fleet.cards.values.policy import ValuesPolicy

OLD, NEW, THIRD = (PodKind(1000, milli, 1, ()) for milli in (100, 200, 300))
CONSTANTS = Constants(first_steps=50, arrivals_per_step=5)


def request_of(kind: PodKind) -> CardRequest:
    return CardRequest(cpu_milli=kind.cpu_milli, memory_bytes=0, cards=kind.cards, milli=kind.milli, models=kind.models)


def fleet_of_eight() -> CardFleet:
    return CardFleet([CardNode(name=f"n{i}", cpu_milli=32000, memory_bytes=0, cards=4, model="a") for i in range(8)])


def play(policy: ValuesPolicy, fleet: CardFleet, kinds: list[PodKind]) -> None:
    for kind in kinds:
        policy.seen(request_of(kind))
        spot = policy.place(request_of(kind))
        if spot is not None:
            fleet.take(spot, request_of(kind))


def test_what_is_known_counts_as_it_is_while_it_is_less_than_can_be_remembered() -> None:
    mix = LearntMix({OLD: 3, NEW: 1}, half_life=1000)
    mix.add(NEW)
    counts = mix.counts()
    assert counts[OLD] == 3
    assert counts[NEW] == pytest.approx(2, rel=0.001)


def test_what_is_known_weighs_no_more_than_all_that_can_be_remembered() -> None:
    mix = LearntMix({OLD: 3e9, THIRD: 1e9}, half_life=1000)
    assert sum(mix.counts().values()) == pytest.approx(1000 / 0.693, rel=0.01)
    assert mix.counts()[OLD] / mix.counts()[THIRD] == pytest.approx(3)
    for _ in range(1000):
        mix.add(NEW)
    counts = mix.counts()
    # A half-life on, it is half of the mix.
    assert counts[NEW] / sum(counts.values()) == pytest.approx(0.5, rel=0.01)


def test_what_has_become_negligible_is_left_out() -> None:
    mix = LearntMix({OLD: 1}, half_life=10)
    for _ in range(300):
        mix.add(NEW)
    assert set(mix.counts()) == {NEW}


def test_parts_of_a_mix_stay_what_they_are_over_any_time() -> None:
    """Weights are brought back to size every now and then, which must not show."""
    mix = LearntMix({}, half_life=5)
    for _ in range(2000):
        mix.add(OLD)
        mix.add(NEW)
    counts = mix.counts()
    assert counts[NEW] / counts[OLD] == pytest.approx(1 + 0.6931471805599453 / 5)


def test_kinds_known_to_come_never_count_as_none() -> None:
    assert LearntMix({OLD: 0, NEW: 1}, half_life=10).counts() == {NEW: 1}


@pytest.mark.parametrize(
    ("known", "new", "least", "most"),
    [
        # It takes the place of two that bring 0.4 each.
        ((400, 400), 900, 0.79, 0.81),
        # It takes the place of two that bring as much as a card, but brings only 0.81 itself.
        ((500, 500), 810, 0.81, 0.81),
        # It takes what the others leave over, but no price is below the floor.
        ((700, 700), 300, 0.03, 0.031),
    ],
)
def test_a_new_kind_enters_at_what_it_costs_the_fleet(
    known: tuple[int, int], new: int, least: float, most: float
) -> None:
    fleet = fleet_of_eight()
    counts = {PodKind(1000 + i, milli, 1, ()): 5 for i, milli in enumerate(known)}
    policy = ValuesPolicy(PolicySetup(fleet=fleet, counts=counts, option="learning"), CONSTANTS)
    kind = PodKind(0, new, 1, ())
    play(policy, fleet, [kind, *list(counts) * 2])
    assert not policy._prices.knows(kind)
    play(policy, fleet, list(counts))
    step = CONSTANTS.rate * CONSTANTS.most_haste
    assert least * (1 - 1.01 * step) <= policy._prices.by_kind()[kind] <= most * (1 + 1.01 * step)


def test_a_mix_that_is_known_is_not_learnt_unless_that_is_wanted() -> None:
    for option, learns in (("", False), ("learning", True), ("power", False), ("learning,power", True)):
        fleet = fleet_of_eight()
        policy = ValuesPolicy(PolicySetup(fleet=fleet, counts={OLD: 50, THIRD: 50}, option=option), CONSTANTS)
        play(policy, fleet, [NEW] * 12)
        assert policy._prices.knows(NEW) == learns


def test_where_nothing_is_known_the_mix_is_learnt_from_what_comes() -> None:
    fleet = fleet_of_eight()
    constants = Constants(first_steps=20, arrivals_per_step=5, ignorance=100, restarts=(20, 40))
    policy = ValuesPolicy(PolicySetup(fleet=fleet, counts={}), constants)
    believed = PodKind(4000, WHOLE, 1, ("a",))
    assert list(policy._prices.by_kind()) == [believed]
    play(policy, fleet, [OLD, NEW, THIRD] * 20)
    assert set(policy._prices.by_kind()) == {OLD, NEW, THIRD, believed}
    share = dict(zip(policy._prices.kinds.kinds, policy._prices.kinds.share.tolist(), strict=True))
    # 60 came, of which the last step did not see those after it, and 100 are believed of one kind.
    assert share[OLD] == pytest.approx(18 / 155, abs=0.01)
    assert share[believed] == pytest.approx(100 / 155, abs=0.02)
    assert fleet.allocated_milli == 20 * 600


def test_pods_without_cards_are_learnt_but_have_no_price() -> None:
    fleet = fleet_of_eight()
    policy = ValuesPolicy(PolicySetup(fleet=fleet, counts={OLD: 1}, option="learning"), CONSTANTS)
    plain = PodKind(2000, 0, 0, ())
    play(policy, fleet, [plain] * 12)
    assert kind_of(request_of(plain)) == plain
    assert list(policy._prices.by_kind()) == [OLD]
    # The first ten came before the last step.
    assert policy._prices.kinds.share.tolist() == pytest.approx([1 / 11], rel=0.01)
