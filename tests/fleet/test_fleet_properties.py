"""What holds of every fleet, whatever the nodes and pods: found by many small random clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.fleet.columns import ColumnTable
from bayplan.fleet.filters import objections, wishes_of
from bayplan.fleet.fleet import Fleet
from bayplan.fleet.node import FleetNode
from bayplan.fleet.node_fields import Taint
from bayplan.fleet.pod_needs import pod_needs
from bayplan.fleet.scores import score
from bayplan.fleet.survey import PlainTable
from bayplan.workload.affinity import EFFECTS
from bayplan.workload.model import Pod, Preference, Request, Selector, Toleration

NodeMaker = Callable[..., FleetNode]
Draft = dict[str, Any]

KEYS, VALUES = ("zone", "disk", "cores"), ("a", "b", "8", "16")
AMOUNTS = st.sampled_from([0, 1, 3, 500, 1000, 2000, 2**31, 2**56 + 1, 2**62, 2**63 - 1])
RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu")
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
taints = st.lists(
    st.builds(Taint, key=st.sampled_from(KEYS), value=st.sampled_from(("", "a")), effect=st.sampled_from(EFFECTS)),
    max_size=2,
    unique_by=lambda taint: (taint.key, taint.effect),
).map(tuple)
tolerations = st.lists(
    st.builds(
        Toleration,
        key=st.sampled_from(("", *KEYS, "node.kubernetes.io/unschedulable")),
        operator=st.sampled_from(("Equal", "Exists")),
        value=st.sampled_from(("", "a")),
        effect=st.sampled_from(("", *EFFECTS)),
    ),
    max_size=2,
).map(tuple)
on_labels = st.builds(
    Selector,
    key=st.sampled_from(KEYS),
    operator=st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
    values=st.lists(st.sampled_from(VALUES), min_size=1, max_size=2).map(tuple),
)
on_names = st.builds(
    Selector,
    key=st.just("metadata.name"),
    operator=st.sampled_from(("In", "NotIn")),
    values=st.sampled_from(("n0", "n1", "n9")).map(lambda name: (name,)),
    field=st.just(True),
)
terms = st.lists(on_labels | on_names, max_size=2).map(tuple)
preferences = st.builds(Preference, weight=st.integers(1, 100), requirements=terms)
node_drafts: st.SearchStrategy[Draft] = st.fixed_dictionaries(
    {
        "labels": labels,
        "taints": taints,
        "unschedulable": st.booleans(),
        "allocatable": st.dictionaries(st.sampled_from(RESOURCES), AMOUNTS),
        "exact_kubelet": st.booleans(),
    }
)
requests = st.builds(
    Request,
    name=st.just("c"),
    cpu_milli=AMOUNTS,
    memory_bytes=AMOUNTS,
    hugepages=st.just({}) | st.just({2**21: 2**21}),
    devices=st.just({}) | st.just({"example.com/gpu": 1}) | st.just({"example.com/none": 1}),
    ephemeral_bytes=st.sampled_from([0, 1, 2000]),
)
pods = st.builds(
    Pod,
    uid=st.just(""),
    name=st.just("p"),
    labels=st.sampled_from([{}, {}, {"alone": ""}, {"refuse": ""}, {"hang": ""}]),
    containers=st.lists(requests, min_size=1, max_size=2).map(tuple),
    node_selector=st.just({}) | labels,
    node_terms=st.none() | st.lists(terms, max_size=2).map(tuple),
    node_preferences=st.lists(preferences, max_size=2).map(tuple),
    tolerations=tolerations,
    node_name=st.sampled_from(["", "", "", "n0", "n9"]),
    every_node=st.sampled_from([False, False, False, True]),
)


def numbered(found: list[Pod]) -> list[Pod]:
    return [msgspec.structs.replace(pod, uid=f"u{i}", name=f"p{i}") for i, pod in enumerate(found)]


workloads = st.lists(pods, min_size=1, max_size=10).map(numbered)
clusters = st.lists(node_drafts, min_size=1, max_size=5)
relaxed = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def nodes_of(make_node: NodeMaker, drafts: list[Draft], policy: Any = None) -> list[FleetNode]:
    return [make_node(f"n{i}", policy, **draft) for i, draft in enumerate(drafts)]


@relaxed
@given(drafts=clusters, workload=workloads, pack=st.booleans())
def test_plain_python_and_numpy_agree(
    make_node: NodeMaker, simple_policy: Any, drafts: list[Draft], workload: list[Pod], pack: bool
) -> None:
    plans = [
        Fleet(nodes_of(make_node, drafts, simple_policy()), pack=pack, plain=plain).place_all(workload)
        for plain in (True, False)
    ]
    assert plans[0] == plans[1]


@relaxed
@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=6),
    held=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 900), st.integers(0, 900)), max_size=6),
    pod=st.builds(
        Pod,
        uid=st.just("new"),
        name=st.just("p"),
        containers=st.tuples(
            st.builds(Request, name=st.just("c"), cpu_milli=st.integers(0, 900), memory_bytes=st.integers(0, 900))
        ),
        node_preferences=st.lists(preferences, max_size=3).map(tuple),
        tolerations=tolerations,
    ),
    drafts=st.lists(st.tuples(labels, taints, st.booleans()), min_size=6, max_size=6),
    pack=st.booleans(),
)
def test_plain_python_and_numpy_give_every_node_the_same_score(
    make_node: NodeMaker,
    sizes: list[tuple[int, int]],
    held: list[tuple[int, int, int]],
    pod: Pod,
    drafts: list[tuple[dict[str, str], tuple[Taint, ...], bool]],
    pack: bool,
) -> None:
    nodes = []
    for i, ((cpu, memory), (on_node, marks, cordoned)) in enumerate(zip(sizes, drafts, strict=False)):
        allocatable = {"cpu": 1000 * cpu, "memory": 700 * memory}
        nodes.append(make_node(f"n{i}", labels=on_node, taints=marks, unschedulable=cordoned, allocatable=allocatable))
    columns = ColumnTable(nodes, range(len(nodes)), pack=pack)
    for number, (index, cpu, memory) in enumerate(held):
        request = Request(name="c", cpu_milli=cpu, memory_bytes=memory)
        nodes[index % len(nodes)].add(f"u{number}", pod_needs(Pod(uid="", name="o", containers=(request,))))
        columns.changed(index % len(nodes), index % len(nodes))
    plain = PlainTable(nodes, range(len(nodes)), pack=pack)
    one = plain.survey(b"", wishes_of(pod), pod_needs(pod))
    other = columns.survey(b"", wishes_of(pod), pod_needs(pod))
    assert {i: score for i, score in enumerate(other._scores.tolist()) if score >= 0} == one._scores
    assert one.kinds() == other.kinds()
    assert one.best() == other.best()


@relaxed
@given(drafts=clusters, workload=workloads, pack=st.booleans())
def test_a_pod_lands_on_a_node_that_passes_all_filters_and_none_that_is_liked_more_would_have_it(
    make_node: NodeMaker, drafts: list[Draft], workload: list[Pod], pack: bool
) -> None:
    nodes = nodes_of(make_node, drafts)
    fleet = Fleet(nodes, pack=pack, plain=False)
    for pod in workload:
        if pod.node_name:
            continue
        wishes, needs = wishes_of(pod), pod_needs(pod)
        passed = [node for node in nodes if not objections(node, wishes, needs)]
        scores = dict(zip((n.name for n in passed), score(passed, wishes, needs, pack=pack), strict=True))
        willing = [node.name for node in passed if would_have(node, pod)]
        best = max(willing, key=lambda name: scores[name], default=None)
        assert fleet.place(pod).node == best


def would_have(node: FleetNode, pod: Pod) -> bool:
    """What the test's policy is known to do."""
    if "refuse" in pod.labels or "hang" in pod.labels:
        return False
    return "alone" not in pod.labels or all("alone" not in other.labels for other in node.hub.ledger.pods.values())


@relaxed
@given(drafts=clusters, workload=workloads, data=st.data())
def test_sums_are_those_of_the_pods_that_are_there_and_never_exceed_what_is_offered(
    make_node: NodeMaker, drafts: list[Draft], workload: list[Pod], data: st.DataObject
) -> None:
    nodes = nodes_of(make_node, drafts)
    plain: bool = data.draw(st.booleans())
    fleet = Fleet(nodes, plain=plain)
    for pod in workload:
        fleet.place(pod)
        held = [uid for node in nodes for uid in node.hub.ledger.pods]
        leaving: str | None = data.draw(st.none() | st.sampled_from(held)) if held else None
        if leaving is not None:
            fleet.release(leaving)
        for node in nodes:
            check_sums(node)


def check_sums(node: FleetNode) -> None:
    sums: dict[str, int] = {"pods": len(node.hub.ledger.pods)}
    for pod in node.hub.ledger.pods.values():
        for name, amount in pod_needs(pod).amounts.items():
            sums[name] = sums.get(name, 0) + amount
    assert {name: amount for name, amount in node.requested.items() if amount or name == "pods"} == sums
    for name, amount in sums.items():
        assert amount <= node.allocatable.get(name, amount)


@relaxed
@given(drafts=clusters, workload=workloads, plain=st.booleans())
def test_every_node_is_counted_once_in_a_refusal(
    make_node: NodeMaker, drafts: list[Draft], workload: list[Pod], plain: bool
) -> None:
    for placement in Fleet(nodes_of(make_node, drafts), plain=plain).place_all(workload).placements:
        if placement.refusal is None:
            assert placement.node is not None
            assert placement.decision is not None
            assert placement.decision.admitted
            continue
        bound = placement.pod.node_name
        assert placement.node is None
        if not bound:
            assert sum(placement.refused_nodes.values()) == len(drafts)
            assert [entry.node for entry in placement.elsewhere] == [f"n{i}" for i in range(len(drafts))]
        elif placement.refusal.reason != "NodeNotFound":
            assert [entry.node for entry in placement.elsewhere] == [bound]
            assert sum(placement.refused_nodes.values()) == 1


@relaxed
@given(drafts=clusters, pod=pods, order=st.randoms(use_true_random=False), plain=st.booleans())
def test_the_order_of_nodes_matters_for_ties_only(
    make_node: NodeMaker, drafts: list[Draft], pod: Pod, order: Any, plain: bool
) -> None:
    nodes = nodes_of(make_node, drafts)
    wishes, needs = wishes_of(pod), pod_needs(pod)
    passed = [node for node in nodes if not objections(node, wishes, needs)]
    scores = dict(zip((n.name for n in passed), score(passed, wishes, needs, pack=False), strict=True))
    shuffled = nodes_of(make_node, drafts)
    order.shuffle(shuffled)
    one, other = Fleet(nodes, plain=plain).place(pod).node, Fleet(shuffled, plain=plain).place(pod).node
    assert (one is None) == (other is None)
    if not pod.node_name and one is not None and other is not None:
        assert scores[one] == scores[other]


@relaxed
@given(drafts=clusters, workload=workloads)
def test_nodes_known_to_be_alike_answer_as_if_each_were_asked(
    make_node: NodeMaker, simple_policy: Any, drafts: list[Draft], workload: list[Pod]
) -> None:
    shared = Fleet(nodes_of(make_node, drafts, simple_policy())).place_all(workload)
    apart = Fleet(nodes_of(make_node, drafts)).place_all(workload)
    assert [p.node for p in shared.placements] == [p.node for p in apart.placements]
    assert [p.refused_nodes for p in shared.placements] == [p.refused_nodes for p in apart.placements]


@pytest.mark.long
@settings(max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drafts=st.lists(node_drafts, min_size=1, max_size=12), workload=workloads, pack=st.booleans())
def test_plain_python_and_numpy_agree_at_length(
    make_node: NodeMaker, drafts: list[Draft], workload: list[Pod], pack: bool
) -> None:
    plans = [Fleet(nodes_of(make_node, drafts), pack=pack, plain=p).place_all(workload) for p in (True, False)]
    assert plans[0] == plans[1]
