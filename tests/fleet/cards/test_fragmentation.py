"""Fragmentation: the exact amounts, the floating-point ones and the causes, against the definition in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.fleet.cards import fragmentation as module
from bayplan.fleet.cards.fragmentation import CAUSES, Fragmentation
from bayplan.fleet.cards.mix import PodKind, Typical, typical
from bayplan.fleet.cards.model import CardNode, CardRequest, Spot
from bayplan.fleet.cards.state import CardFleet

CPUS = [0, 1000, 3000, 8000]
MILLI = [100, 190, 500, 810, 1000]
kinds = st.one_of(
    st.builds(PodKind, st.sampled_from(CPUS), st.just(0), st.just(0), st.just(())),
    st.builds(
        PodKind, st.sampled_from(CPUS), st.sampled_from(MILLI), st.just(1), st.sampled_from([(), ("A",), ("A", "B")])
    ),
    st.builds(PodKind, st.sampled_from(CPUS), st.just(1000), st.integers(2, 9), st.sampled_from([(), ("B",)])),
)
mixes = st.dictionaries(kinds, st.integers(1, 9), max_size=10).map(typical)
parts = st.lists(st.one_of(st.just(0), st.sampled_from(MILLI), st.integers(0, 1000)), max_size=5)
nodes = st.tuples(st.sampled_from("ABC"), st.sampled_from([*CPUS, 999, 2999, 9000]), parts)


def fleet_in(states: list[tuple[str, int, list[int]]]) -> CardFleet:
    """Nodes with so much CPU free, and these parts of their cards."""
    fleet = CardFleet(
        [
            CardNode(name=f"n{i}", cpu_milli=cpu, memory_bytes=0, cards=len(left), model=model)
            for i, (model, cpu, left) in enumerate(states)
        ]
    )
    for node, (_, _, left) in enumerate(states):
        for card, milli in enumerate(left):
            if milli < 1000:
                fleet.take(Spot(node, (card,)), CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=1000 - milli))
    return fleet


def causes(model: str, cpu: int, left: list[int], mix: tuple[Typical, ...]) -> dict[str, Fraction]:
    """The definition, with shares that add up to 1 exactly."""
    whole = sum((Fraction(share) for _, share in mix), Fraction(0))
    booked = dict.fromkeys(CAUSES, Fraction(0))
    for kind, share in mix:
        large = [milli for milli in left if milli >= kind.milli]
        if not kind.cards:
            cause = "no-card-asked-fits" if cpu >= kind.cpu_milli else "no-card-asked-lacks-cpu"
        elif kind.models and model not in kind.models:
            cause = "no-access"
        elif len(large) < kind.cards:
            cause = "lacks-cards" if cpu >= kind.cpu_milli else "lacks-both"
        else:
            cause = "satisfied" if cpu >= kind.cpu_milli else "lacks-cpu"
        part = Fraction(share) / whole
        if cause == "satisfied":
            booked["satisfied"] += part * sum(large)
            booked["lacks-cards"] += part * (sum(left) - sum(large))
        else:
            booked[cause] += part * sum(left)
    return booked


def wasted(booked: dict[str, Fraction]) -> float:
    return float(sum(booked.values()) - booked["satisfied"])


@given(st.lists(nodes, max_size=5), mixes)
def test_amounts_and_causes_follow_the_definition(
    states: list[tuple[str, int, list[int]]], mix: tuple[Typical, ...]
) -> None:
    fleet = fleet_in(states)
    fragmentation = Fragmentation(fleet, mix)
    some = np.arange(len(states))[::-1]
    amounts, summed, by_cause = fragmentation.amounts(some), fragmentation.summed(some), fragmentation.by_cause(some)
    assert by_cause.shape == (len(states), len(CAUSES))
    for row, node in enumerate(some.tolist()):
        model, cpu, left = states[node]
        expected = causes(model, cpu, left, mix)
        assert by_cause[row].tolist() == pytest.approx([float(expected[cause]) for cause in CAUSES], abs=1e-9)
        assert amounts[row] == pytest.approx(wasted(expected), abs=1e-6)
        assert summed[row] == pytest.approx(wasted(expected), abs=1e-9)
        if mix:
            assert by_cause[row].sum() == pytest.approx(sum(left), abs=1e-9)


@given(nodes, mixes, kinds)
def test_what_would_be_is_what_is_once_the_pod_is_there(
    state: tuple[str, int, list[int]], mix: tuple[Typical, ...], kind: PodKind
) -> None:
    fleet = fleet_in([state])
    fragmentation = Fragmentation(fleet, mix)
    pod = CardRequest(cpu_milli=kind.cpu_milli, memory_bytes=0, cards=kind.cards, milli=kind.milli)
    if not fleet.feasible(pod)[0]:
        return
    node = np.array([0])
    would_be = fragmentation.exact_after(kind, node)[0]
    untouched = fragmentation.lets_all_be(kind, node)[0]
    before = fragmentation.by_cause(node)[0].tolist()
    room = [card for card, left in enumerate(state[2]) if left >= (kind.milli or 1)]
    choices = [(card,) for card in room] if kind.is_shared else [tuple(room[: kind.cards])]
    for cards in choices:
        summed = fragmentation.summed_after(kind, node, np.array([cards[0] if cards else 0]))
        fleet.take(Spot(0, cards), pod)
        assert fragmentation.exact(node)[0] == would_be[cards[0] if kind.is_shared else 0]
        assert fragmentation.summed(node)[0] == summed[0]
        if untouched:
            assert fragmentation.by_cause(node)[0].tolist() == before
        fleet.give_back(Spot(0, cards), pod)


def test_many_nodes_are_measured_a_few_at_a_time_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    mix = typical({PodKind(1000, milli, 1, ()): milli for milli in (100, 190, 500, 1000)})
    fleet = fleet_in([("A", 8000, [milli, 1000 - milli, 1000]) for milli in range(0, 1000, 30)])
    every = np.arange(len(fleet))
    at_once = Fragmentation(fleet, mix).by_cause(every)
    monkeypatch.setattr(module, "MOST_CELLS", 50)
    assert Fragmentation(fleet, mix).by_cause(every).tolist() == at_once.tolist()


def test_a_fleet_whose_cards_every_kind_can_use_is_not_fragmented_at_all() -> None:
    mix = typical({PodKind(1000, 1000, 1, ()): 1, PodKind(1000, 100, 1, ()): 3, PodKind(2000, 1000, 2, ()): 3})
    fleet = fleet_in([("A", 8000, [1000] * 3)])
    assert Fragmentation(fleet, mix).exact(np.array([0])).tolist() == [0]
