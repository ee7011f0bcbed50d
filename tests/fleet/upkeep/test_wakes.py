"""Waking pods: one touch where it helps, and none where nobody waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bayplan.fleet.telemetry.model import PolicyKey, TelemetrySettings
from bayplan.fleet.telemetry.verdict import Flip
from bayplan.fleet.upkeep.nodes import GENERATION, NodeFacts
from bayplan.fleet.upkeep.wakes import Wakes, WakeSettings

MakeCluster = Callable[..., Any]
BUSY = {"dontschedule": {"rules": [{"metricname": "load", "operator": "GreaterThan", "target": 80}]}}


def busy(make_cluster: MakeCluster, *nodes: str, **policies: Any) -> Any:
    cluster = make_cluster(period_s=10.0)
    for name, spec in (policies or {"busy": BUSY}).items():
        cluster.policy(name, **spec)
    for name in nodes:
        cluster.node(name)
    cluster.measure("load", dict.fromkeys(nodes, 95))
    cluster.now += 100
    cluster.wake()
    return cluster


def touched(cluster: Any) -> list[str]:
    return [patch.node for patch in cluster.wake()]


def test_a_node_that_became_allowed_is_touched_once_at_once_and_once_when_all_extenders_must_know(
    make_cluster: MakeCluster,
) -> None:
    cluster = busy(make_cluster, "a", "b")
    cluster.pod("p", policy="busy")
    cluster.measure("load", {"a": 95, "b": 10})
    found = []
    for _ in range(40):
        found.append(touched(cluster))
        cluster.now += 1
        cluster.measure("load", {"a": 95, "b": 10})
    assert [(second, names) for second, names in enumerate(found) if names] == [(0, ["b"]), (15, ["b"])]
    assert cluster.annotations("b") == {GENERATION: "1970-01-01T00:18:35Z #2 default/busy"}
    assert cluster.upkeep.next_at() > cluster.now


def test_it_ends_when_the_pod_has_a_node(make_cluster: MakeCluster) -> None:
    cluster = busy(make_cluster, "a")
    cluster.pod("p", policy="busy")
    cluster.measure("load", {"a": 10})
    assert touched(cluster) == ["a"]
    cluster.pod("p", "a", policy="busy")
    cluster.now += 20
    assert touched(cluster) == []


def test_where_nobody_waits_nothing_is_written(make_cluster: MakeCluster) -> None:
    cluster = busy(make_cluster, "a")
    cluster.pod("runs", "a", policy="busy")
    cluster.pod("waits-for-something-else")
    cluster.pod("waits-for-another-policy", policy="other")
    cluster.pod("gated", policy="busy", schedulingGates=[{"name": "x"}])
    cluster.pod("going", policy="busy", deleted=True)
    for degrees in (10, 95, 10):
        cluster.measure("load", {"a": degrees})
        assert touched(cluster) == []
        cluster.now += 30


def test_a_flip_to_refused_wakes_nobody_and_takes_back_what_was_to_come(make_cluster: MakeCluster) -> None:
    cluster = busy(make_cluster, "a")
    cluster.pod("p", policy="busy")
    cluster.measure("load", {"a": 10})
    cluster.measure("load", {"a": 95})
    assert touched(cluster) == []
    cluster.now += 15
    assert touched(cluster) == []


def test_flips_within_the_interval_are_one_patch(make_cluster: MakeCluster) -> None:
    cluster = busy(make_cluster, "a", "b", "c", one=BUSY, two=BUSY, three=BUSY)
    for policy in ("one", "two"):
        cluster.pod(f"of-{policy}", policy=policy)
    cluster.measure("load", {"a": 10, "b": 95, "c": 95})
    assert touched(cluster) == ["a"]
    assert cluster.annotations("a")[GENERATION].endswith("#1 default/one default/two")
    cluster.measure("load", {"a": 10, "b": 10, "c": 95})
    assert touched(cluster) == []
    cluster.now += 1
    assert touched(cluster) == ["a"]


def test_policies_that_share_no_node_have_one_each(make_cluster: MakeCluster) -> None:
    other = {"dontschedule": {"rules": [{"metricname": "heat", "operator": "GreaterThan", "target": 80}]}}
    cluster = busy(make_cluster, "a", "b", busy=BUSY, hot=other)
    cluster.measure("heat", {"a": 95, "b": 95})
    cluster.pod("p", policy="busy")
    cluster.pod("q", policy="hot")
    cluster.measure("load", {"a": 10, "b": 95})
    cluster.measure("heat", {"a": 95, "b": 10})
    assert sorted(touched(cluster)) == ["a", "b"]


def test_nodes_that_take_no_pods_or_do_not_exist_are_not_touched(make_cluster: MakeCluster) -> None:
    cluster = busy(make_cluster, "b")
    cluster.node("a", unschedulable=True)
    cluster.pod("p", policy="busy")
    cluster.measure("load", {"a": 95, "b": 95, "0": 95})
    cluster.measure("load", {"a": 10, "b": 10, "0": 10})
    assert touched(cluster) == ["b"]


def test_a_value_that_comes_back_wakes(make_cluster: MakeCluster) -> None:
    cluster = busy(make_cluster, "a")
    cluster.measure("load", {})
    cluster.now += 100
    touched(cluster)
    cluster.pod("p", policy="busy")
    cluster.measure("load", {"a": 10})
    assert touched(cluster) == ["a"]


def test_a_value_that_grows_too_old_for_its_rule_refuses_and_a_fresh_one_wakes(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(TelemetrySettings(max_age_s=60.0))
    cluster.policy("busy", **BUSY)
    cluster.node("a")
    cluster.measure("load", {"a": 10})
    cluster.pod("p", policy="busy")
    touched(cluster)
    cluster.now += 61
    assert touched(cluster) == []
    cluster.measure("load", {"a": 10})
    assert touched(cluster) == ["a"]


def test_a_policy_that_was_missing_wakes_its_pods_when_it_is_there(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    cluster.node("a")
    cluster.pod("p", policy="late")
    cluster.policy("late", scheduleonmetric={"rules": [{"metricname": "m", "operator": "LessThan"}]})
    assert touched(cluster) == ["a"]


def test_a_touch_that_could_not_be_written_is_planned_again_unless_it_flipped_back(make_cluster: MakeCluster) -> None:
    cluster = busy(make_cluster, "a", "b")
    cluster.pod("p", policy="busy")
    cluster.measure("load", {"a": 10, "b": 10})
    cluster.now += 20
    assert [patch.node for patch in cluster.upkeep.wake_patches(cluster.now)] == ["a"]
    cluster.upkeep.wakes.again()
    cluster.measure("load", {"a": 95, "b": 10})
    assert touched(cluster) == []
    cluster.now += 1
    assert touched(cluster) == ["b"]
    cluster.upkeep.wakes.again()
    cluster.measure("load", {"a": 95, "b": 95})
    cluster.now += 1
    assert touched(cluster) == []


NODES = ("a", "b", "c")
flips = st.builds(
    lambda policy, allowed, refused: Flip(
        policy=PolicyKey("default", policy), allowed=frozenset(allowed - refused), refused=frozenset(refused)
    ),
    st.sampled_from(["p", "q"]),
    st.sets(st.sampled_from(NODES)),
    st.sets(st.sampled_from(NODES)),
)


@given(
    steps=st.lists(
        st.tuples(st.floats(0, 3), st.lists(flips, max_size=2), st.sets(st.sampled_from(["p", "q"]))), max_size=40
    )
)
def test_what_must_hold_whatever_flips(steps: list[tuple[float, list[Flip], set[str]]]) -> None:
    """Touches are apart, at allowed nodes, for pods that wait; and a flip that lasts is never forgotten."""
    wakes = Wakes(WakeSettings(interval_s=2.0, again_after_s=5.0), period_s=1.0)
    nodes = {name: NodeFacts(name=name, uid=name, labels={}, marks=None, is_open=name != "c") for name in NODES}
    allowed: dict[str, set[str]] = {"p": set(), "q": set()}
    opened_at: dict[str, float] = {}
    touched_at = -10.0
    now = 0.0
    for pause, flipped, waiting in steps:
        now += pause
        wakes.flipped(flipped, now)
        for flip in flipped:
            allowed[flip.policy.name] = (allowed[flip.policy.name] | flip.allowed) - flip.refused
            if flip.opens:
                opened_at[flip.policy.name] = now
        found = [patch.node for patch in wakes.plan(lambda key, w=waiting: key.name in w, nodes, now)]  # type: ignore[misc]
        if found:
            assert now - touched_at >= 2.0
            assert set(found) <= set().union(*(allowed[name] for name in waiting)) - {"c"}
            assert len(found) <= len(waiting)
            touched_at = now
        opened = {flip.policy.name for flip in flipped if flip.opens} & waiting
        if now - touched_at >= 2.0:
            assert not any(allowed[name] - {"c"} for name in opened), "what nothing keeps waiting is done at once"
    last = [name for name, at in opened_at.items() if allowed[name] - {"c"} and now - at < 5.0]
    for name in last:
        again = wakes.plan(lambda key, n=name: key.name == n, nodes, now + 7.0)  # type: ignore[misc]
        assert {patch.node for patch in again} <= allowed[name], "who began to wait since then is woken too"
        assert again or len(last) > 1
