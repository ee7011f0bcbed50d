"""Scores worked out by hand from kube-scheduler's formulas."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bayplan.fleet.filters import wishes_of
from bayplan.fleet.node import FleetNode
from bayplan.fleet.node_fields import Taint
from bayplan.fleet.pod_needs import pod_needs
from bayplan.fleet.scores import balance, fullness, score
from bayplan.workload.model import Pod, Preference, Selector, Toleration

GI = 2**30


def total(nodes: list[FleetNode], pod: Pod, *, pack: bool = False) -> list[int]:
    return score(nodes, wishes_of(pod), pod_needs(pod), pack=pack)


def test_an_even_pod_on_an_empty_node(make_node: Callable[..., FleetNode], make_pod: Callable[..., Pod]) -> None:
    # A quarter of 4 CPUs and of 8 GiB: 75 left, balance as even as before (75), no preferences, no taints (3 * 100).
    assert total([make_node()], make_pod(cpu=1000, memory=2 * GI)) == [75 + 75 + 0 + 300]
    assert total([make_node()], make_pod(cpu=1000, memory=2 * GI), pack=True) == [25 + 75 + 0 + 300]


def test_leaning_to_one_resource_costs_balance(
    make_node: Callable[..., FleetNode], make_pod: Callable[..., Pod]
) -> None:
    # 100 % of cpu and 0 % of memory: deviation 0.5, so 50 + (50 + 50 - 100) / 2.
    assert balance(make_node(), pod_needs(make_pod(cpu=4000))) == 50
    node = make_node()
    node.add("other", pod_needs(make_pod(memory=8 * GI)))
    assert balance(node, pod_needs(make_pod(cpu=4000))) == 100
    assert balance(node, pod_needs(make_pod())) == 0


def test_pods_that_ask_nothing_still_fill_a_node_in_scores(
    make_node: Callable[..., FleetNode], make_pod: Callable[..., Pod]
) -> None:
    node = make_node(allocatable={"cpu": 1000, "memory": 1000 * 2**20})
    # 100m of 1000m leaves 90, 200Mi of 1000Mi leaves 80.
    assert fullness(node, pod_needs(make_pod()), pack=False) == 85


@pytest.mark.parametrize(("allocatable", "expected"), [({"cpu": 1000}, 50), ({"memory": 8 * GI}, 87), ({}, 0)])
def test_a_resource_that_a_node_does_not_tell_is_left_out(
    make_node: Callable[..., FleetNode], make_pod: Callable[..., Pod], allocatable: dict[str, int], expected: int
) -> None:
    pod = make_pod(cpu=500, memory=GI)
    assert fullness(make_node(allocatable=allocatable), pod_needs(pod), pack=False) == expected


def test_preferences_are_stretched_to_a_hundred_and_weigh_double(
    make_node: Callable[..., FleetNode], make_pod: Callable[..., Pod]
) -> None:
    in_a = Selector(key="zone", operator="In", values=("a",))
    big = Selector(key="cores", operator="Gt", values=("8",))
    pod = make_pod(
        node_preferences=(Preference(weight=30, requirements=(in_a,)), Preference(weight=10, requirements=(big,)))
    )
    nodes = [make_node("x", labels={"zone": "a"}), make_node("y", labels={"cores": "16"}), make_node("z")]
    scores = total(nodes, pod)
    assert [s - scores[2] for s in scores] == [200, 2 * 33, 0]


def test_soft_taints_weigh_threefold_unless_tolerated(
    make_node: Callable[..., FleetNode], make_pod: Callable[..., Pod]
) -> None:
    soft = tuple(Taint(key=key, effect="PreferNoSchedule") for key in ("a", "b"))
    nodes = [make_node("x", taints=soft), make_node("y", taints=soft[:1]), make_node("z")]
    scores = total(nodes, make_pod())
    assert [s - scores[2] for s in scores] == [-300, -150, 0]
    scores = total(nodes, make_pod(tolerations=(Toleration(key="a", operator="Exists"),)))
    assert [s - scores[2] for s in scores] == [-300, 0, 0]
