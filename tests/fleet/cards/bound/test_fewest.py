"""How few nodes can serve a workload: by hand, and against what a fleet of so many nodes can give out."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fleet.cards.bound.small import best, fleets, node, pod, workloads

from bayplan.fleet.cards.bound.fewest import fewest, largest_multiple
from bayplan.fleet.cards.bound.most import bound
from bayplan.fleet.cards.model import WHOLE, CardNode, CardRequest

EIGHT = node("unit", 8, 96)
EXAMPLES = 25


def test_so_many_cards_are_needed_as_are_asked_for() -> None:
    assert fewest([], [EIGHT], {pod(WHOLE): 20}) == pytest.approx(2.5)


def test_what_stands_beside_is_used_first() -> None:
    assert fewest([node("base", 8, 96)], [EIGHT], {pod(WHOLE): 20}) == pytest.approx(1.5)
    assert fewest([node("base", 8, 96)] * 3, [EIGHT], {pod(WHOLE): 20}) == 0


def test_what_may_be_refused_is_not_needed() -> None:
    assert fewest([], [EIGHT], {pod(WHOLE): 20}, refused=4) == pytest.approx(2)
    assert fewest([], [EIGHT], {pod(WHOLE): 20}, refused=4000, by="cards") == pytest.approx(2)
    assert fewest([], [EIGHT], {pod(WHOLE): 20}, refused=20) == 0


def test_large_pods_are_refused_first_where_pods_are_counted_and_not_where_cards_are() -> None:
    demand = {pod(WHOLE, cards=8): 1, pod(WHOLE): 8}
    assert fewest([], [EIGHT], demand, refused=1) == pytest.approx(1)
    assert fewest([], [EIGHT], demand, refused=1000, by="cards") == pytest.approx(15 / 8)


def test_cpus_may_be_what_more_nodes_are_needed_for() -> None:
    assert fewest([], [EIGHT], {pod(WHOLE, cpus=24): 8}) == pytest.approx(2)


def test_a_pod_for_a_model_that_is_not_there_is_never_served() -> None:
    demand = {pod(WHOLE, models=("B",)): 3, pod(WHOLE): 8}
    assert fewest([], [EIGHT], demand) is None
    assert fewest([], [EIGHT], demand, refused=3) == pytest.approx(1)
    assert fewest([node("b", 3, 96, model="B")], [EIGHT], demand) == pytest.approx(1)
    assert fewest([node("b", 2, 96, model="B")], [EIGHT], demand) is None


def test_no_pods_need_no_nodes() -> None:
    assert fewest([], [EIGHT], {}) == 0


def test_a_fleet_holds_a_mix_as_often_as_its_scarcest_part_allows() -> None:
    nodes = [node("a", 8, 96), node("b", 4, 96, model="B")]
    assert largest_multiple(nodes, {pod(WHOLE): 3}) == pytest.approx(4)
    assert largest_multiple(nodes, {pod(WHOLE): 3, pod(WHOLE, models=("B",)): 2}) == pytest.approx(2)
    assert largest_multiple(nodes, {pod(WHOLE, models=("C",)): 1}) == 0
    assert largest_multiple(nodes, {}) == math.inf


def test_a_whole_fleet_is_scaled_as_exactly_as_one_node() -> None:
    fleet = [node(f"n{i}", 8, 96) for i in range(500)]
    assert fewest([], fleet, {pod(WHOLE): 3000}) == pytest.approx(0.75, rel=1e-6)


@settings(max_examples=EXAMPLES)
@given(fleets, workloads)
def test_a_fleet_that_serves_all_is_not_too_small(nodes: list[CardNode], pods: list[CardRequest]) -> None:
    served = best(nodes, pods)[1]
    times = fewest([], nodes, Counter(pods), refused=len(pods) - served)
    assert times is not None
    assert times <= 1 + 1e-6


@settings(max_examples=EXAMPLES)
@given(fleets, workloads, st.integers(0, 3))
def test_both_bounds_say_the_same(nodes: list[CardNode], pods: list[CardRequest], count: int) -> None:
    demand, unit = Counter(pods), node("unit", 2, 3)
    asked = sum(request.total_milli for request in pods)
    held = bound([*nodes, *(node(f"more{i}", 2, 3) for i in range(count))], demand)
    assert held is not None
    needed = fewest(nodes, [unit], demand, refused=asked - held.milli, by="cards")
    assert needed is not None
    assert needed <= count + 1e-3
    if held.milli + 1 < asked:
        more = fewest(nodes, [unit], demand, refused=asked - held.milli - 1, by="cards")
        assert more is None or more > count - 1e-3
