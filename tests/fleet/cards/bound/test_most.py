"""The most that can be given out: against cases worked out by hand, and against every placement there is."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.fleet.cards.bound.small import best, fleets, node, pod, requests, spots, workloads

from bayplan.fleet.cards.bound import problem as problems
from bayplan.fleet.cards.bound.most import bound
from bayplan.fleet.cards.generator import Generator
from bayplan.fleet.cards.model import WHOLE, CardNode, CardRequest
from bayplan.fleet.cards.state import CardFleet

ROUNDING = 1e-3
EXAMPLES = 25


def most(nodes: list[CardNode], pods: list[CardRequest], *, all_cpu_only: bool = False) -> float:
    found = bound(nodes, Counter(pods), all_cpu_only=all_cpu_only)
    assert found is not None
    return found.milli


def test_two_parts_of_600_are_no_use_to_one_card() -> None:
    assert most([node("n", 1, 8)], [pod(600)] * 3) == pytest.approx(600)


def test_parts_that_complete_each_other_fill_cards() -> None:
    assert most([node("n", 2, 8)], [pod(600)] * 3 + [pod(400)]) == pytest.approx(1600)


def test_without_a_pod_for_it_what_is_left_of_a_card_is_lost() -> None:
    # Of 810 milli each 190 are left: ten cards hold one of the six 190s each, so six of ten cards are full.
    pods = [pod(810)] * 10 + [pod(190)] * 6
    assert most([node("n", 10, 64)], pods) == pytest.approx(10 * 810 + 6 * 190)


def test_cpus_bound_what_cards_could_take() -> None:
    # Pods may be cut in parts here: 4 CPUs serve one and a third pod of 3.
    assert most([node("n", 2, 4)], [pod(WHOLE, cpus=3)] * 2) == pytest.approx(4000 / 3, abs=ROUNDING)


def test_memory_bounds_as_well() -> None:
    assert most([node("n", 4, 64, gib=6)], [pod(WHOLE, gib=4)] * 4) == pytest.approx(1500)


def test_a_pod_larger_than_any_node_counts_nothing() -> None:
    assert most([node("n", 4, 4), node("m", 4, 4)], [pod(WHOLE, cpus=5, cards=4)]) == 0


def test_models_bound_who_can_be_served_where() -> None:
    nodes = [node("a", 2, 8, model="A"), node("b", 2, 8, model="B")]
    assert most(nodes, [pod(WHOLE, models=("A",))] * 4) == pytest.approx(2000)
    assert most(nodes, [pod(WHOLE, models=("A", "B"))] * 4) == pytest.approx(4000)
    assert most(nodes, [pod(WHOLE, models=("C",))] * 4) == 0


def test_pods_without_cards_take_cpus_where_they_may_not_be_refused() -> None:
    nodes, pods = [node("n", 2, 8)], [pod(WHOLE, cpus=4)] * 2 + [pod(0, cpus=4)]
    assert most(nodes, pods) == pytest.approx(2000)
    assert most(nodes, pods, all_cpu_only=True) == pytest.approx(1000)


def test_pods_without_cards_that_have_not_all_room_have_no_bound() -> None:
    assert bound([node("n", 2, 8)], {pod(0, cpus=4): 3}, all_cpu_only=True) is None
    assert bound([node("n", 2, 8)], {pod(0, cpus=9): 1}, all_cpu_only=True) is None


def test_nothing_to_serve_and_nothing_to_serve_it_with() -> None:
    nothing = bound([], {pod(WHOLE): 3})
    assert nothing is not None
    assert (nothing.milli, nothing.percent) == (0, 0)
    assert most([node("n", 2, 8)], []) == 0
    assert most([node("n", 2, 8)], [pod(0)]) == 0
    assert most([node("n", 0, 8)], [pod(500)]) == 0


def test_what_is_served_is_told_by_request() -> None:
    found = bound([node("n", 1, 8)], {pod(600): 1, pod(700): 1, pod(400): 1})
    assert found is not None
    assert found.served == pytest.approx({pod(600): 1, pod(700): 0, pod(400): 1})
    assert found.percent == pytest.approx(100)


@settings(max_examples=EXAMPLES)
@given(fleets, workloads)
def test_no_placement_gives_out_more(nodes: list[CardNode], pods: list[CardRequest]) -> None:
    found = bound(nodes, Counter(pods))
    assert found is not None
    assert found.milli >= best(nodes, pods)[0] - ROUNDING
    assert found.milli == pytest.approx(found.reached, abs=ROUNDING)


@settings(max_examples=EXAMPLES)
@given(fleets, workloads, requests)
def test_more_pods_lower_no_bound(nodes: list[CardNode], pods: list[CardRequest], more: CardRequest) -> None:
    assert most(nodes, [*pods, more]) >= most(nodes, pods) - ROUNDING


@settings(max_examples=EXAMPLES)
@given(fleets, workloads, st.integers(0, 2))
def test_a_further_node_lowers_no_bound(nodes: list[CardNode], pods: list[CardRequest], cards: int) -> None:
    assert most([*nodes, node("more", cards, 4)], pods) >= most(nodes, pods) - ROUNDING


@settings(max_examples=EXAMPLES)
@given(fleets, workloads)
def test_pods_that_may_not_be_refused_raise_no_bound(nodes: list[CardNode], pods: list[CardRequest]) -> None:
    forced = bound(nodes, Counter(pods), all_cpu_only=True)
    assert forced is None or forced.milli <= most(nodes, pods) + ROUNDING


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**32))
def test_whatever_lots_are_drawn_less_is_given_out(seed: int) -> None:
    draws = Generator(seed)
    nodes = [node(f"n{i}", 1 + draws.below(8), 4 + draws.below(60), model="AB"[draws.below(2)]) for i in range(12)]
    asked = [pod(1 + draws.below(1000), draws.below(12), draws.below(16)) for _ in range(40)]
    fleet, demand = CardFleet(nodes), Counter(asked)
    for request in asked:
        places = list(spots(fleet, request))
        if places:
            fleet.take(places[draws.below(len(places))], request)
    found = bound(nodes, demand)
    assert found is not None
    assert found.milli >= fleet.allocated_milli - ROUNDING
    assert found.milli == pytest.approx(found.reached, abs=ROUNDING)


def test_any_number_of_part_sizes_is_bounded() -> None:
    demand = {pod(milli, 1, 0): 3 for milli in range(201, 1000)}
    found = bound([node(f"n{i}", 8, 96) for i in range(50)], demand)
    assert found is not None
    assert found.reached == pytest.approx(found.milli, rel=1e-6)
    assert found.percent == pytest.approx(100)


def test_coarser_requests_leave_the_bound_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node(f"n{i}", 2, 7, gib=5) for i in range(3)]
    pods = [
        CardRequest(cpu_milli=900 + 77 * i, memory_bytes=(1 << 30) + 999 * i, cards=1, milli=700) for i in range(20)
    ]
    exact = most(nodes, pods)
    monkeypatch.setattr(problems, "MOST_PAIRS", 6)
    assert len(problems.problem(nodes, Counter(pods)).kinds) <= 6
    assert most(nodes, pods) >= exact - ROUNDING


def test_classes_put_together_leave_the_bound_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node(f"n{i}", 1 + i % 2, 2 + i, model="AB"[i % 2]) for i in range(9)]
    pods = [pod(WHOLE, cpus=6)] * 6 + [pod(400, cpus=3)] * 9
    exact = most(nodes, pods)
    monkeypatch.setattr(problems, "MOST_CLASSES", 3)
    pooled = problems.problem(nodes, Counter(pods))
    assert pooled.capacity.shape == (3, 2)
    assert np.array_equal(pooled.capacity.sum(axis=1)[[0, 2]], [sum(n.cpu_milli for n in nodes), 13])
    assert most(nodes, pods) >= exact - ROUNDING
