"""Which node a pod goes to, and what is said where it goes to none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bayplan.errors import InputError
from bayplan.fleet.fleet import LISTED_NODES, MOST_ADVISED, MOST_PLAIN_NODES, Fleet
from bayplan.fleet.node import FleetNode
from bayplan.fleet.node_fields import Taint
from bayplan.hub.hub import UnknownPodError
from bayplan.workload.model import Pod, Preference, Request, Selector, Toleration

GI = 2**30
MISALIGNED = "TopologyAffinityError: Resources cannot be allocated with Topology locality"
NodeMaker = Callable[..., FleetNode]
PodMaker = Callable[..., Pod]
SSD = Selector(key="disk", operator="In", values=("ssd",))


def named(*names: str) -> Selector:
    return Selector(key="metadata.name", operator="In", values=names, field=True)


@pytest.fixture(params=[True, False], ids=["plain", "numpy"])
def plain(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_pods_spread_out_and_ties_go_to_the_first_node(make_node: NodeMaker, make_pod: PodMaker, plain: bool) -> None:
    fleet = Fleet([make_node("b"), make_node("a")], plain=plain)
    placed = [fleet.place(make_pod(f"p{i}", cpu=1000, memory=GI)).node for i in range(4)]
    assert placed == ["b", "a", "b", "a"]


def test_packing_fills_one_node_first(make_node: NodeMaker, make_pod: PodMaker, plain: bool) -> None:
    fleet = Fleet([make_node("a"), make_node("b")], pack=True, plain=plain)
    placed = [fleet.place(make_pod(f"p{i}", cpu=1000, memory=GI)).node for i in range(5)]
    assert placed == ["a", "a", "a", "a", "b"]


def test_the_schedulers_own_words_sorted_as_text(make_node: NodeMaker, make_pod: PodMaker, plain: bool) -> None:
    nodes = [
        *(make_node(f"small-{i}", labels={"disk": "ssd"}, allocatable={"cpu": 1000, "memory": GI}) for i in range(2)),
        make_node("full", labels={"disk": "ssd"}, allocatable={"cpu": 9000, "memory": 9 * GI, "pods": 0}),
        make_node("wrong", labels={"disk": "hdd"}),
        make_node("tainted", labels={"disk": "ssd"}, taints=(Taint(key="t", value="v", effect="NoExecute"),)),
        make_node("cordoned", unschedulable=True, taints=(Taint(key="t", effect="NoSchedule"),)),
    ]
    pod = make_pod(cpu=2000, memory=2 * GI, devices={"example.com/gpu": 1}, node_selector={"disk": "ssd"})
    placement = Fleet(nodes, plain=plain).place(pod)
    assert placement.node is None
    assert placement.refusal is not None
    assert placement.refusal.reason == "Unschedulable"
    assert placement.refusal.message == (
        "0/6 nodes are available: 1 Too many pods, 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu, "
        "2 Insufficient memory, 3 Insufficient example.com/gpu."
    )
    assert placement.refused_nodes == {
        "Insufficient cpu, Insufficient memory, Insufficient example.com/gpu": 2,
        "Too many pods, Insufficient example.com/gpu": 1,
        "node(s) didn't match Pod's node affinity/selector": 1,
        "node(s) had untolerated taint(s)": 1,
        "node(s) were unschedulable": 1,
    }
    by_node = {entry.node: entry.refusal for entry in placement.elsewhere}
    assert [*by_node] == [node.name for node in nodes]
    small = by_node["small-0"]
    assert (small.rule, small.resource, small.asked, small.free) == ("scheduler/NodeResourcesFit", "cpu", 2000, 1000)
    assert small.remedies[:2] == (
        "ask for at most 1 of cpu, which is all that node small-0 offers to pods",
        "ask for at most 1Gi of memory, which is all that node small-0 offers to pods",
    )
    assert by_node["tainted"].remedies == ("tolerate the taint t=v:NoExecute",)
    assert by_node["cordoned"].remedies == ("uncordon node cordoned",)


def test_one_short_resource_everywhere_is_told_in_numbers(
    make_node: NodeMaker, make_pod: PodMaker, plain: bool
) -> None:
    fleet = Fleet([make_node("a"), make_node("b", allocatable={"cpu": 7000, "memory": GI, "pods": 5})], plain=plain)
    refusal = fleet.place(make_pod(cpu=8000)).refusal
    assert refusal is not None
    assert refusal.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert (refusal.resource, refusal.asked, refusal.free) == ("cpu", 8000, 7000)
    assert refusal.remedies == ("ask for at most 7 of cpu, or add a node with 8 of cpu free",)


def test_remedies_say_what_would_have_to_be_freed(make_node: NodeMaker, make_pod: PodMaker, plain: bool) -> None:
    fleet = Fleet([make_node("a")], plain=plain)
    fleet.place(make_pod("p", cpu=3500, memory=8 * GI))
    refusal = fleet.place(make_pod("q", cpu=1500, memory=GI)).refusal
    assert refusal is not None
    assert refusal.remedies == (
        "ask for at most 500m of cpu, or free 1 more of cpu on node a",
        "free 1Gi more of memory on node a",
    )


def test_a_cordoned_node_takes_pods_that_tolerate_it(make_node: NodeMaker, make_pod: PodMaker, plain: bool) -> None:
    bears = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule")
    fleet = Fleet([make_node("n", unschedulable=True)], plain=plain)
    assert fleet.place(make_pod(tolerations=(bears,))).node == "n"


def test_wishes_are_weighed_among_the_nodes_that_would_do(
    make_node: NodeMaker, make_pod: PodMaker, plain: bool
) -> None:
    soft = tuple(Taint(key=key, effect="PreferNoSchedule") for key in ("s", "t"))
    nodes = [
        make_node("bare"),
        make_node("wished", labels={"zone": "a"}, taints=soft[:1]),
        make_node("shunned", taints=soft),
        make_node("ideal", labels={"zone": "a", "disk": "ssd"}, unschedulable=True),
    ]
    zone = Selector(key="zone", operator="Exists")
    wishes = tuple(Preference(weight=50, requirements=(requirement,)) for requirement in (zone, SSD))
    # Among the first three, 2 * 100 for the wish less 3 * 50 for the taint; were the last counted, 2 * 50 less 3 * 50.
    assert Fleet(nodes, plain=plain).place(make_pod(node_preferences=wishes)).node == "wished"


def test_terms_are_alternatives(make_node: NodeMaker, make_pod: PodMaker, plain: bool) -> None:
    fleet = Fleet([make_node("a"), make_node("b", labels={"disk": "ssd"}), make_node("c")], plain=plain)
    assert fleet.place(make_pod("p", node_terms=((SSD, named("c")), (SSD,)))).node == "b"
    refusal = fleet.place(make_pod("q", node_terms=())).refusal
    assert refusal is not None
    assert refusal.message == "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."


def test_a_pod_that_names_its_nodes_is_held_against_those_alone(
    make_node: NodeMaker, make_pod: PodMaker, plain: bool
) -> None:
    fleet = Fleet([make_node(name, allocatable={"cpu": 100}) for name in ("a", "b", "c")], plain=plain)
    refusal = fleet.place(make_pod("p", cpu=200, node_terms=((named("b"),), (named("c", "x"), named("c"))))).refusal
    assert refusal is not None
    assert refusal.message == (
        "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity], 2 Insufficient cpu."
    )
    refusal = fleet.place(make_pod("q", node_terms=((named("b"), named("c")),))).refusal
    assert refusal is not None
    assert refusal.message == "0/3 nodes are available: pod affinity terms conflict."


def test_what_is_not_told_is_not_counted_and_what_is_not_there_is_not_there(
    make_node: NodeMaker, make_pod: PodMaker, plain: bool
) -> None:
    fleet = Fleet([make_node("n", allocatable={})], plain=plain)
    big = Request(name="c", cpu_milli=2**62, memory_bytes=2**63 - 1, ephemeral_bytes=1)
    assert fleet.place(make_pod("p", containers=(big,))).node == "n"
    huge = Request(name="c", cpu_milli=1, hugepages={2**21: 2**21})
    assert fleet.place(make_pod("q", containers=(huge,))).node == "n"
    fleet = Fleet([make_node("n", allocatable={"cpu": 1})], plain=plain)
    refusal = fleet.place(make_pod("r", containers=(huge,))).refusal
    assert refusal is not None
    assert refusal.message == "0/1 nodes are available: 1 Insufficient hugepages-2Mi."


def test_a_hub_that_refuses_is_passed_over_and_the_exact_kubelet_is_told_of(
    make_node: NodeMaker, make_pod: PodMaker, plain: bool
) -> None:
    first, second = make_node("a", exact_kubelet=True), make_node("b")
    fleet = Fleet([first, second], plain=plain)
    assert fleet.place(make_pod("x", labels={"alone": ""})).node == "a"
    second.allocatable["cpu"] = 4000
    fleet.place(make_pod("filler", cpu=3000, node_terms=((named("b"),),)))
    placement = fleet.place(make_pod("y", labels={"alone": ""}))
    assert placement.node == "b"
    assert placement.decision is not None
    assert [(w.name, w.message) for w in placement.decision.warnings] == [
        (
            "kubelet-refuses-scheduled",
            f"kube-scheduler would bind this pod to a, where the kubelet refuses it ({MISALIGNED}); "
            "the pod fails there, and is not tried elsewhere",
        )
    ]


def test_hub_refusals_stand_beside_those_of_the_scheduler(
    make_node: NodeMaker, make_pod: PodMaker, plain: bool
) -> None:
    nodes = [make_node("a", exact_kubelet=True), make_node("b"), make_node("c", allocatable={"cpu": 1, "memory": GI})]
    placement = Fleet(nodes, plain=plain).place(make_pod(cpu=100, labels={"refuse": ""}))
    assert placement.refusal is not None
    assert placement.refusal.message == f"0/3 nodes are available: 1 Insufficient cpu, 2 {MISALIGNED}."
    assert placement.refused_nodes == {"TopologyAffinityError": 2, "Insufficient cpu": 1}
    assert [entry.refusal.reason for entry in placement.elsewhere] == [
        "TopologyAffinityError",
        "TopologyAffinityError",
        "Unschedulable",
    ]
    assert placement.decision is not None
    assert placement.decision.refusal == placement.refusal
    assert [w.name for w in placement.decision.warnings] == ["kubelet-refuses-scheduled"]
    assert placement.decision.trace[0].taken == "nowhere"


def test_with_one_node_its_own_refusal_is_the_answer(make_node: NodeMaker, make_pod: PodMaker, plain: bool) -> None:
    placement = Fleet([make_node()], plain=plain).place(make_pod(labels={"refuse": ""}))
    assert placement.refusal is not None
    assert (placement.refusal.reason, placement.refusal.rule) == ("TopologyAffinityError", "simple/refuse")
    assert placement.refusal.remedies == ("ask for less than uid-p",)


def test_of_many_empty_nodes_of_one_kind_one_is_asked(
    make_node: NodeMaker, make_pod: PodMaker, simple_policy: Any, plain: bool
) -> None:
    policy = simple_policy()
    fleet = Fleet([make_node(f"n{i}", policy) for i in range(50)], plain=plain)
    placements = [fleet.place(make_pod(f"p{i}", labels={"refuse": ""})) for i in range(5)]
    assert policy.asked == 1
    assert all(p.refused_nodes == {"TopologyAffinityError": 50} for p in placements)
    assert [p.decision.pod for p in placements if p.decision] == [f"uid-p{i}" for i in range(5)]
    fleet.place(make_pod("changes-one", cpu=1))
    fleet.place(make_pod("again", labels={"refuse": ""}))
    assert policy.asked == 3


def test_advice_is_sought_once_for_pods_that_are_alike_and_not_without_end(
    make_node: NodeMaker, make_pod: PodMaker, simple_policy: Any, plain: bool
) -> None:
    policy = simple_policy()
    fleet = Fleet([make_node("a", policy), make_node("b", policy)], plain=plain)
    placements = [fleet.place(make_pod(f"p{i}", labels={"refuse": ""})) for i in range(5)]
    assert policy.advised == 1
    assert all(p.refusal and p.refusal.remedies == ("ask for less than uid-p0",) for p in placements)
    for i in range(2 * MOST_ADVISED):
        fleet.place(make_pod(f"q{i}", cpu=i + 1, labels={"refuse": ""}))
    assert policy.advised == MOST_ADVISED


def test_nodes_that_went_through_the_same_are_alike_until_one_loses_a_pod(
    make_node: NodeMaker, make_pod: PodMaker, simple_policy: Any, plain: bool
) -> None:
    policy = simple_policy()
    fleet = Fleet([make_node(f"n{i}", policy) for i in range(10)], plain=plain)
    for i in range(10):
        fleet.place(make_pod(f"p{i}", labels={"alone": ""}))
    policy.asked = 0
    assert fleet.place(make_pod("more", labels={"alone": ""})).node is None
    assert policy.asked == 1
    fleet.release("uid-p3")
    assert fleet.place(make_pod("fits", labels={"alone": ""})).node == "n3"


def test_what_one_pod_was_refused_for_is_not_held_against_another(
    make_node: NodeMaker, make_pod: PodMaker, plain: bool
) -> None:
    fleet = Fleet([make_node("a")], plain=plain)
    assert fleet.place(make_pod("p", cpu=1, labels={"refuse": ""})).node is None
    assert fleet.place(make_pod("q", cpu=1)).node == "a"


def test_a_refusal_with_a_warning_is_not_taken_for_the_next_time(
    make_node: NodeMaker, make_pod: PodMaker, simple_policy: Any, plain: bool
) -> None:
    policy = simple_policy()
    fleet = Fleet([make_node("a", policy), make_node("b", policy)], plain=plain)
    placement = fleet.place(make_pod("p", labels={"hang": ""}))
    assert policy.asked == 2
    assert placement.refused_nodes == {"TopologyAffinityError": 2}
    assert placement.decision is not None
    assert placement.decision.warnings[0].name == "kubelet-hangs"
    fleet.place(make_pod("q", labels={"hang": ""}))
    assert policy.asked == 4


def test_a_large_refusal_lists_the_first_nodes_and_one_of_each_further_kind(
    make_node: NodeMaker, make_pod: PodMaker
) -> None:
    nodes = [make_node(f"n{i:02}", allocatable={"cpu": 1}) for i in range(40)]
    nodes += [make_node(f"t{i}", taints=(Taint(key="t", effect="NoSchedule"),)) for i in range(3)]
    placement = Fleet(nodes).place(make_pod(cpu=2))
    assert [entry.node for entry in placement.elsewhere] == [*(f"n{i:02}" for i in range(LISTED_NODES)), "t0"]
    assert placement.refused_nodes == {"Insufficient cpu": 40, "node(s) had untolerated taint(s)": 3}


def test_bound_pods_skip_the_scheduler_and_meet_the_kubelet(make_node: NodeMaker, make_pod: PodMaker) -> None:
    node = make_node("n", unschedulable=True, taints=(Taint(key="t", effect="NoSchedule"),))
    fleet = Fleet([node, make_node("m", labels={"disk": "ssd"})])
    assert fleet.place(make_pod("p", cpu=3000, node_name="n")).node == "n"
    placement = fleet.place(make_pod("q", cpu=2000, node_name="n"))
    assert placement.refusal is not None
    assert placement.refusal.reason == "OutOfcpu"
    assert placement.refusal.message == (
        "Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"
    )
    assert node.requested == {"pods": 1, "cpu": 3000}
    assert [*node.hub.ledger.pods] == ["uid-p"]
    placement = fleet.place(make_pod("r", node_name="n", node_selector={"disk": "ssd"}))
    assert placement.refusal is not None
    assert placement.refusal.message == (
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    )
    assert placement.refused_nodes == {"NodeAffinity": 1}


def test_managers_speak_before_the_kubelets_general_check(make_node: NodeMaker, make_pod: PodMaker) -> None:
    placement = Fleet([make_node("n")]).place(make_pod(cpu=99_000, node_name="n", labels={"refuse": ""}))
    assert placement.refusal is not None
    assert placement.refusal.reason == "TopologyAffinityError"


def test_a_bound_pod_evicted_by_a_taint(make_node: NodeMaker, make_pod: PodMaker) -> None:
    fleet = Fleet([make_node("n", taints=(Taint(key="t", effect="NoExecute"),))])
    refusal = fleet.place(make_pod(node_name="n")).refusal
    assert refusal is not None
    assert refusal.message == ("Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate")


def test_a_kubelet_ignores_devices_that_it_does_not_have_and_that_is_said(
    make_node: NodeMaker, make_pod: PodMaker
) -> None:
    placement = Fleet([make_node("n")]).place(make_pod(node_name="n", devices={"example.com/gpu": 1}))
    assert placement.node == "n"
    assert placement.decision is not None
    assert [w.name for w in placement.decision.warnings] == ["device-ignored"]


def test_a_node_that_is_not_there(make_node: NodeMaker, make_pod: PodMaker) -> None:
    refusal = Fleet([make_node("n")]).place(make_pod(node_name="elsewhere")).refusal
    assert refusal is not None
    assert refusal.reason == "NodeNotFound"
    assert "elsewhere" in refusal.message


def test_a_node_by_itself_answers_as_its_kubelet(make_node: NodeMaker, make_pod: PodMaker) -> None:
    node = make_node("n", unschedulable=True, allocatable={"cpu": 4000, "example.com/gpu": 1})
    fleet = Fleet.single(node)
    assert fleet.place(make_pod("p", cpu=1000, node_selector={"disk": "ssd"})).node == "n"
    placement = fleet.place(make_pod("q", labels={"refuse": ""}))
    assert placement.refusal is not None
    assert placement.refusal.reason == "TopologyAffinityError"
    assert placement.decision is not None
    assert placement.decision.trace
    placement = fleet.place(make_pod("r", devices={"example.com/fpga": 2}))
    assert placement.refusal is not None
    assert (placement.refusal.reason, placement.refusal.message) == ("Unschedulable", "Insufficient example.com/fpga")
    placement = fleet.place(make_pod("s", devices={"example.com/gpu": 2}))
    assert placement.refusal is not None
    assert placement.refusal.reason == "OutOfexample.com/gpu"


def test_daemonsets_go_to_every_node_that_is_to_have_them(make_node: NodeMaker, make_pod: PodMaker) -> None:
    nodes = [
        make_node("a", labels={"disk": "ssd"}),
        make_node("b"),
        make_node("c", labels={"disk": "ssd"}, allocatable={"cpu": 1}),
        make_node("d", labels={"disk": "ssd"}, taints=(Taint(key="t", effect="NoSchedule"),)),
    ]
    done: list[int] = []
    daemon = make_pod("ds", cpu=100, every_node=True, node_selector={"disk": "ssd"})
    plan = Fleet(nodes).place_all([daemon, make_pod("p")], done.append)
    assert done == [1, 2]
    assert [(p.pod.name, p.node) for p in plan.placements] == [("ds-a", "a"), ("ds-c", None), ("p", "b")]
    assert plan.placements[1].refusal is not None
    assert plan.placements[1].refusal.message == (
        "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    assert plan.nodes[0].used == {"pods": 1, "cpu": 100}


def test_a_daemonset_that_no_node_is_to_have_is_told_of(make_node: NodeMaker, make_pod: PodMaker) -> None:
    daemon = make_pod("ds", every_node=True, node_selector={"disk": "ssd"}, owner="DaemonSet/ds")
    plan = Fleet([make_node("a")]).place_all([daemon])
    assert plan.placements == ()
    assert [w.name for w in plan.warnings] == ["daemonset-without-nodes"]
    assert plan.warnings[0].message.startswith("DaemonSet/ds: ")
    assert Fleet.single(make_node("a")).place_all([daemon]).placements[0].node == "a"


def test_the_plan_shows_each_node_as_it_stands(make_node: NodeMaker, make_pod: PodMaker) -> None:
    node = make_node("a", settings={"topologyManagerPolicy": "restricted"})
    plan = Fleet([node]).place_all([make_pod("p", cpu=500, memory=GI), make_pod("q", cpu=9000)])
    (planned,) = plan.nodes
    assert (planned.name, planned.policy, str(planned.shared)) == ("a", "simple", "0-7")
    assert planned.used == {"pods": 1, "cpu": 500, "memory": GI}
    assert planned.settings == {"topologyManagerPolicy": "restricted"}
    assert [p.pod.name for p in plan.refused] == ["q"]


def test_a_pod_is_placed_once_and_can_be_released(make_node: NodeMaker, make_pod: PodMaker, plain: bool) -> None:
    fleet = Fleet([make_node("a", allocatable={"cpu": 1000})], plain=plain)
    assert fleet.place(make_pod("p", cpu=1000)).node == "a"
    refusal = fleet.place(make_pod("p", cpu=1000)).refusal
    assert refusal is not None
    assert refusal.reason == "AlreadyExists"
    assert fleet.place(make_pod("q", cpu=1)).node is None
    fleet.release("uid-p")
    assert fleet.place(make_pod("q", cpu=1)).node == "a"
    with pytest.raises(UnknownPodError):
        fleet.release("uid-p")


def test_pods_that_a_hub_holds_already_count(make_node: NodeMaker, make_pod: PodMaker) -> None:
    node = make_node("a")
    node.hub.admit(make_pod("old", cpu=3500))
    counted = FleetNode("a", node.hub, allocatable={"cpu": 4000})
    fleet = Fleet([counted])
    assert counted.requested == {"pods": 1, "cpu": 3500}
    assert fleet.place(make_pod("new", cpu=1000)).node is None
    fleet.release("uid-old")
    assert fleet.place(make_pod("new", cpu=1000)).node == "a"


def test_no_nodes_and_nodes_of_one_name(make_node: NodeMaker, make_pod: PodMaker) -> None:
    refusal = Fleet([]).place(make_pod()).refusal
    assert refusal is not None
    assert refusal.message == "no nodes available to schedule pods"
    with pytest.raises(InputError, match="two nodes of one name"):
        Fleet([make_node("a"), make_node("a")])
    with pytest.raises(InputError, match="one node"):
        Fleet([make_node("a"), make_node("b")], scheduler=False)


def test_more_kinds_of_devices_than_bits_in_a_word(make_node: NodeMaker, make_pod: PodMaker, plain: bool) -> None:
    names = [f"example.com/d{i:03}" for i in range(100)]
    nodes = [make_node(f"n{i}", allocatable={name: int(i != k) for k, name in enumerate(names)}) for i in range(100)]
    placement = Fleet(nodes, plain=plain).place(make_pod(devices=dict.fromkeys(names, 1)))
    assert placement.refused_nodes == {f"Insufficient {name}": 1 for name in names}


def test_few_nodes_are_looked_at_without_numpy(make_node: NodeMaker) -> None:
    few = Fleet([make_node(f"n{i}") for i in range(MOST_PLAIN_NODES)])
    many = Fleet([make_node(f"n{i}") for i in range(MOST_PLAIN_NODES + 1)])
    assert type(few._table).__name__ == "PlainTable"
    assert type(many._table).__name__ == "ColumnTable"
