"""Evictions: who, in which order, how fast, and who never."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.fleet.telemetry.model import PolicyKey
from bayplan.fleet.upkeep.evictions import Evictions, EvictionSettings, Violation
from bayplan.fleet.upkeep.pods import PodFacts, PodIndex

MakeCluster = Callable[..., Any]
HOT = {"rules": [{"metricname": "temperature", "operator": "GreaterThan", "target": 80}]}
AWAY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "hot", "operator": "NotIn", "values": ["violating"]}]},
            ]
        }
    }
}
FAST = EvictionSettings(all_policies=True, violation_s=0, per_minute=100, per_node_per_minute=100, cool_down_s=0)


def hot_cluster(make_cluster: MakeCluster, evictions: EvictionSettings = FAST, *, node: str = "a") -> Any:
    cluster = make_cluster(evictions=evictions)
    cluster.policy("hot", deschedule=HOT, dontschedule=HOT)
    cluster.node(node)
    cluster.measure("temperature", {node: 95})
    return cluster


def names(cluster: Any) -> list[str]:
    return [each.pod.name for each in cluster.upkeep.to_evict(cluster.now)]


def test_a_pod_of_the_policy_is_evicted_from_a_violating_node_and_told_why(make_cluster: MakeCluster) -> None:
    cluster = hot_cluster(make_cluster)
    cluster.pod("p", "a", policy="hot")
    cluster.pod("elsewhere", "b", policy="hot")
    cluster.pod("other-policy", "a", policy="other")
    cluster.pod("no-policy", "a")
    (eviction,) = cluster.upkeep.to_evict(cluster.now)
    assert eviction.pod.uid == "pod-p"
    assert eviction.reason == (
        "node a violates policy default/hot, deschedule: temperature GreaterThan 80: 95, measured 1970-01-01T00:16:40Z"
    )
    told = cluster.upkeep.evicted(eviction, "evicted", "", cluster.now)
    assert (told.kind, told.name, told.reason, told.is_warning) == ("Pod", "p", "Evicted", False)
    assert told.note.startswith("evicted: node a violates policy default/hot")


def test_nobody_is_evicted_unless_asked_for(make_cluster: MakeCluster) -> None:
    cluster = hot_cluster(make_cluster, EvictionSettings(violation_s=0))
    cluster.pod("p", "a", policy="hot")
    assert names(cluster) == []


@pytest.mark.parametrize(("policies", "evicted"), [(("default/hot",), ["p"]), (("other/hot", "hot"), [])])
def test_it_can_be_asked_for_by_policy(
    policies: tuple[str, ...], evicted: list[str], make_cluster: MakeCluster
) -> None:
    cluster = hot_cluster(make_cluster, EvictionSettings(policies=policies, violation_s=0))
    cluster.pod("p", "a", policy="hot")
    assert names(cluster) == evicted


EXEMPT: list[tuple[dict[str, Any], str]] = [
    ({"owner_kind": "DaemonSet"}, "DaemonSet"),
    ({"owner_kind": "Node"}, "belongs to its node"),
    ({"owner": ""}, "no controller"),
    ({"annotations": {"kubernetes.io/config.mirror": "x"}}, "static pod"),
    ({"annotations": {"bayplan.dev/evict": "false"}}, "annotation"),
    ({"priority": 2_000_000_000}, "critical"),
    ({"priorityClassName": "system-node-critical"}, "critical"),
    ({"deleted": True}, "going already"),
    ({"volumes": [{"emptyDir": {}}]}, "data on its node"),
    ({"volumes": [{"hostPath": {"path": "/x"}}]}, "data on its node"),
]


@pytest.mark.parametrize(("pod", "why"), EXEMPT)
def test_some_are_never_evicted(pod: dict[str, Any], why: str, make_cluster: MakeCluster) -> None:
    cluster = hot_cluster(make_cluster)
    cluster.pod("p", "a", policy="hot", **pod)
    assert names(cluster) == []
    facts = cluster.upkeep.pods.get("pod-p")
    violation = Violation(policy=PolicyKey("default", "hot"), node="a", reason="", keeps_out=True)
    assert why in cluster.upkeep.evictions.why_not(facts, violation, cluster.now)


def test_data_on_the_node_is_given_up_where_that_is_said(make_cluster: MakeCluster) -> None:
    cluster = hot_cluster(make_cluster, EvictionSettings(all_policies=True, violation_s=0, local_data=True))
    cluster.pod("p", "a", policy="hot", volumes=[{"emptyDir": {}}])
    assert names(cluster) == ["p"]


def test_a_pod_that_would_come_back_to_the_same_node_stays(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(evictions=FAST)
    cluster.policy("hot", deschedule=HOT)
    cluster.node("a")
    cluster.measure("temperature", {"a": 95})
    cluster.pod("returns", "a", policy="hot")
    cluster.pod("keeps-away", "a", policy="hot", affinity=AWAY)
    assert names(cluster) == ["keeps-away"]


@pytest.mark.parametrize(
    ("terms", "avoids"),
    [
        ([[("hot", "NotIn", ["violating"])]], True),
        ([[("hot", "DoesNotExist", [])]], True),
        ([[("hot", "In", ["fine"])]], True),
        ([[("hot", "NotIn", ["violating"])], [("zone", "In", ["x"])]], False),
        ([[("hot", "NotIn", ["violating"]), ("zone", "In", ["x"])], [("hot", "DoesNotExist", [])]], True),
        ([[("hot", "Exists", [])]], False),
        ([[("cold", "NotIn", ["violating"])]], False),
        ([], False),
    ],
)
def test_which_affinity_keeps_a_pod_away(terms: list[Any], avoids: bool, cluster: Any) -> None:
    expressions = [{"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in term]} for term in terms]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": expressions}}
    cluster.pod("p", "a", affinity={"nodeAffinity": required})
    assert ("hot" in cluster.upkeep.pods.get("pod-p").avoids) == avoids


def test_a_node_must_have_violated_for_a_while_without_a_break(make_cluster: MakeCluster) -> None:
    cluster = hot_cluster(make_cluster, EvictionSettings(all_policies=True, violation_s=60))
    cluster.pod("p", "a", policy="hot")
    found = []
    for second, degrees in ((0, 95), (40, 95), (50, 70), (70, 95), (120, 95), (130, 95)):
        cluster.now = 1_000.0 + second
        cluster.measure("temperature", {"a": degrees})
        found.append(names(cluster))
    assert found == [[], [], [], [], [], ["p"]]


def test_a_value_that_grows_old_evicts_nobody(make_cluster: MakeCluster) -> None:
    cluster = hot_cluster(make_cluster, EvictionSettings(all_policies=True, violation_s=400))
    cluster.pod("p", "a", policy="hot")
    assert names(cluster) == []
    cluster.now += 400
    assert names(cluster) == []


def test_the_least_important_go_first_then_the_youngest(make_cluster: MakeCluster) -> None:
    cluster = hot_cluster(make_cluster)
    cluster.pod("old", "a", policy="hot", created="2026-01-01T00:00:00Z")
    cluster.pod("young", "a", policy="hot", created="2026-06-01T00:00:00Z")
    cluster.pod("unimportant", "a", policy="hot", priority=-5, created="2025-01-01T00:00:00Z")
    cluster.pod("important", "a", policy="hot", priority=100, created="2026-09-01T00:00:00Z")
    assert names(cluster) == ["unimportant", "young", "old", "important"]


def test_no_more_than_so_many_a_minute(make_cluster: MakeCluster) -> None:
    settings = EvictionSettings(all_policies=True, violation_s=0, per_minute=3, per_node_per_minute=2)
    cluster = make_cluster(evictions=settings)
    cluster.policy("hot", deschedule=HOT, dontschedule=HOT)
    cluster.measure("temperature", dict.fromkeys("ab", 95))
    for number in range(4):
        for node in "ab":
            cluster.pod(f"{node}{number}", node, policy="hot")
    first = cluster.upkeep.to_evict(cluster.now)
    assert Counter(each.pod.node for each in first) == {"a": 2, "b": 1}
    for each in first:
        cluster.upkeep.evicted(each, "evicted", "", cluster.now)
        cluster.remove_pod(each.pod.name)
    cluster.now += 59
    assert names(cluster) == []
    cluster.now += 1
    assert len(names(cluster)) == 3


def test_one_of_an_owner_at_a_time_with_time_between(make_cluster: MakeCluster) -> None:
    cluster = hot_cluster(
        make_cluster, EvictionSettings(all_policies=True, violation_s=0, per_node_per_minute=9, cool_down_s=120)
    )
    for name in ("p", "q"):
        cluster.pod(name, "a", policy="hot", owner="same")
    (eviction,) = cluster.upkeep.to_evict(cluster.now)
    assert names(cluster) == []
    cluster.upkeep.evicted(eviction, "evicted", "", cluster.now)
    cluster.remove_pod(eviction.pod.name)
    cluster.now += 119
    cluster.measure("temperature", {"a": 95})
    assert names(cluster) == []
    cluster.now += 1
    assert len(names(cluster)) == 1


def test_a_disruption_budget_is_asked_again_later_and_later(make_cluster: MakeCluster) -> None:
    cluster = hot_cluster(make_cluster, EvictionSettings(all_policies=True, violation_s=0, per_minute=1))
    cluster.pod("p", "a", policy="hot")
    asked = []
    for second in range(0, 300, 10):
        cluster.now = 1_000.0 + second
        cluster.measure("temperature", {"a": 95})
        for eviction in cluster.upkeep.to_evict(cluster.now):
            asked.append(second)
            told = cluster.upkeep.evicted(eviction, "budget", "needs 1 healthy pod", cluster.now)
            assert "a disruption budget refuses: needs 1 healthy pod" in told.note
    assert asked == [0, 30, 90, 210]
    assert cluster.upkeep.evictions.counts == {"evicted": 0, "gone": 0, "budget": 4, "failed": 0}


def test_an_eviction_that_nobody_answered_counts_as_one(make_cluster: MakeCluster) -> None:
    cluster = hot_cluster(make_cluster, EvictionSettings(all_policies=True, violation_s=0, per_minute=1))
    cluster.pod("p", "a", policy="hot")
    cluster.pod("q", "a", policy="hot")
    assert len(names(cluster)) == 1
    cluster.now += 119
    assert names(cluster) == []
    cluster.now += 1
    assert names(cluster) == []
    cluster.now += 60
    assert len(names(cluster)) == 1


def test_pods_on_cards_that_are_given_up(make_cluster: MakeCluster, cards: Any) -> None:
    cluster = make_cluster(evictions=EvictionSettings(cards=True, violation_s=30))
    cluster.pod("p", "a")
    cluster.pod("q", "a")
    cards.pods = {"pod-p": "card0 of node a is given up", "pod-unknown": "so is card1"}
    assert names(cluster) == []
    cluster.now += 30
    (eviction,) = cluster.upkeep.to_evict(cluster.now)
    assert (eviction.pod.name, eviction.reason) == ("p", "card0 of node a is given up")


def pod_facts(number: int, node: str, owner: str, *, exempt: bool) -> PodFacts:
    return PodFacts(
        uid=str(number),
        namespace="default",
        name=f"p{number}",
        node=node,
        labels={},
        priority=number % 3,
        created_at=float(number),
        owner=owner,
        exempt="exempt" if exempt else "",
        has_local_data=False,
        avoids=frozenset(),
        gated=False,
    )


class Pods(PodIndex):
    """An index of facts."""

    def __init__(self, facts: list[PodFacts]) -> None:
        super().__init__()
        self._pods = {each.uid: each for each in facts}
        for each in facts:
            self._by_node.setdefault(each.node, {})[each.uid] = each


@given(
    owners=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.booleans()), max_size=25),
    steps=st.lists(
        st.tuples(
            st.floats(0, 40), st.sets(st.sampled_from("abc")), st.sampled_from(["evicted", "budget", "gone", "failed"])
        ),
        max_size=40,
    ),
    per_minute=st.integers(1, 5),
    per_node=st.integers(1, 3),
)
def test_what_must_hold_at_any_time(
    owners: list[tuple[str, str, bool]], steps: list[tuple[float, set[str], Any]], per_minute: int, per_node: int
) -> None:
    settings = EvictionSettings(
        all_policies=True, per_minute=per_minute, per_node_per_minute=per_node, violation_s=20, cool_down_s=45
    )
    evictions, policy = Evictions(settings), PolicyKey("default", "p")
    pods = Pods([pod_facts(i, node, owner, exempt=exempt) for i, (node, owner, exempt) in enumerate(owners)])
    now = 0.0
    evicted: list[tuple[float, PodFacts]] = []
    since: dict[str, float] = {}
    for pause, violating, result in steps:
        now += pause
        since = {node: since.get(node, now) for node in violating}
        violations = [Violation(policy=policy, node=n, reason="", keeps_out=True) for n in sorted(violating)]
        chosen = evictions.plan(violations, {}, pods, lambda pod: (policy,), now)
        assert len({each.pod.owner for each in chosen}) == len(chosen)
        for each in chosen:
            assert not each.pod.exempt
            assert now - since[each.pod.node] >= 20
            if result == "evicted":
                earlier = [at for at, pod in evicted if pod.owner == each.pod.owner]
                assert not earlier or now - earlier[-1] >= 45
                evicted.append((now, each.pod))
            evictions.result(each.pod.uid, result, now)
        for at, pod in evicted:
            window = [other for when, other in evicted if at <= when < at + 60]
            assert len(window) <= per_minute
            assert sum(other.node == pod.node for other in window) <= per_node
