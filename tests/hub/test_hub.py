"""The hub takes nothing on trust: what a policy proposes has to be there, once, or nothing happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from bayplan.errors import BayplanError
from bayplan.files.presets import load_preset
from bayplan.hub.hub import Hub, UnknownPodError
from bayplan.hub.ledger import Contents, LedgerError
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import Machine
from bayplan.policies.kubelet import KubeletPolicy
from bayplan.policies.kubelet.configuration import KubeletConfiguration, ReservedMemory
from bayplan.policies.policy import NodeSetup, Policy, Proposal, View
from bayplan.resources.cpu import CpuResource
from bayplan.resources.decision import Decision, DeviceGrant, Grant, MemoryBlock, Notice, Refusal
from bayplan.resources.devices import DeviceResource, DeviceUnit
from bayplan.resources.memory import MemoryResource
from bayplan.resources.plugin import ConflictError, ResourcePlugin
from bayplan.workload.model import Pod, Request

GIB = 2**30
MACHINE = load_preset("dgx-h100")
GPU = "nvidia.com/gpu"
NODE_BYTES = MACHINE.nodes[0].memory_bytes


def all_plugins() -> list[ResourcePlugin]:
    return [CpuResource(), MemoryResource(), DeviceResource()]


class Scripted:
    """A policy that answers whatever it is told to, right or wrong; it knows no pool but the one it starts with."""

    name = "scripted"
    reserved = CpuSet()
    devices: Mapping[str, tuple[DeviceUnit, ...]] = {}
    exact = False
    notices: tuple[Notice, ...] = ()
    settings: Mapping[str, str] = {}
    tolerated = False

    def __init__(self, machine: Machine, setup: NodeSetup) -> None:
        self.pool = CpuSet([0, 1])
        self.next: tuple[Grant, ...] | Refusal | None = ()
        self.next_pools: Mapping[str, CpuSet] | None = None
        self.others: Mapping[str, tuple[Grant, ...]] = {}

    def begin(self) -> Proposal:
        return Proposal(pools={"shared": self.pool}, memo=0)

    def admit(self, view: View, pod: Pod) -> Proposal:
        pools = self.next_pools if self.next_pools is not None else view.pools
        if self.next is None:
            return Proposal(pools=pools, memo=view.memo)
        if isinstance(self.next, Refusal):
            refused = Decision(pod=pod.uid, refusal=self.next)
            return Proposal(decision=refused, grants=self.others, pools=pools, memo=view.memo + 1)
        decision = Decision(pod=pod.uid, grants=self.next)
        grants = {pod.uid: self.next, **self.others}
        return Proposal(decision=decision, grants=grants, pools=pools, memo=view.memo + 1, tolerated=self.tolerated)

    def resize(self, view: View, pod: Pod) -> Proposal:
        return self.admit(view, pod)

    def started(self, view: View, pod: Pod, container: str) -> Proposal:
        return Proposal(pools=view.pools, memo=view.memo)

    def release(self, view: View, uid: str) -> Proposal:
        return Proposal(grants={uid: ()}, pools=view.pools, memo=view.memo)

    def remedies(self, view: View, pod: Pod, refusal: Refusal) -> tuple[str, ...]:
        return ("ask again",)

    def restore(self, pods: Mapping[str, Pod], grants: Mapping[str, tuple[Grant, ...]]) -> Proposal:
        return Proposal(pools={"shared": self.pool}, memo=0)


def scripted() -> tuple[Hub, Scripted]:
    policy = Scripted(MACHINE, NodeSetup())
    checked: Policy = policy
    return Hub(MACHINE, checked, all_plugins()), policy


def pod(uid: str, *names: str) -> Pod:
    return Pod(uid=uid, name=uid, containers=tuple(Request(name=name) for name in names or ("main",)))


def block(size: int, *nodes: int, kind: str = "memory") -> MemoryBlock:
    return MemoryBlock(type=kind, nodes=NodeSet(nodes), bytes=size)


def with_one_pod() -> tuple[Hub, Scripted]:
    """A hub on which pod `a` holds CPUs 4-7, half of node 0 and the first GPU."""
    hub, policy = scripted()
    policy.next = (
        Grant(
            pod="a",
            container="main",
            exclusive=CpuSet.parse("4-7"),
            memory=(block(NODE_BYTES // 2, 0),),
            devices=(DeviceGrant(resource=GPU, ids=("gpu0",)),),
        ),
    )
    assert hub.admit(pod("a")).admitted
    hub.check()
    return hub, policy


FAULTY: dict[str, tuple[Grant, str]] = {
    "a CPU of another pod": (Grant(pod="b", container="main", exclusive=CpuSet.parse("7-8")), "CPUs 7 are exclusive"),
    "a CPU that is not there": (Grant(pod="b", container="main", exclusive=CpuSet([500])), "CPUs 500 are not online"),
    "a CPU of the shared pool": (Grant(pod="b", container="main", exclusive=CpuSet([1])), "CPUs 1 are exclusive"),
    "more memory than is left": (
        Grant(pod="b", container="main", memory=(block(NODE_BYTES // 2 + GIB, 0),)),
        "promised from nodes 0",
    ),
    "more memory than two nodes have": (
        Grant(pod="b", container="main", memory=(block(2 * NODE_BYTES, 0, 1),)),
        "promised from nodes 0-1",
    ),
    "less than no memory": (Grant(pod="b", container="main", memory=(block(-1, 0),)), "-1 bytes promised"),
    "memory of a node that is not there": (
        Grant(pod="b", container="main", memory=(block(1, 9),)),
        "promised from nodes 9",
    ),
    "pages that are not there": (
        Grant(pod="b", container="main", memory=(block(2**21, 0, kind="hugepages-2Mi"),)),
        "hugepages-2Mi",
    ),
    "a device of another pod": (
        Grant(pod="b", container="main", devices=(DeviceGrant(resource=GPU, ids=("gpu1", "gpu0")),)),
        "gpu0 is held by a/main",
    ),
    "the same device twice": (
        Grant(pod="b", container="main", devices=(DeviceGrant(resource=GPU, ids=("gpu1", "gpu1")),)),
        "gpu1 is held by b/main",
    ),
    "a pool that does not exist": (Grant(pod="b", container="main", pool="gold"), "pool gold"),
    "another pod's name": (Grant(pod="a", container="main"), "names another pod"),
    "a container that the pod does not have": (Grant(pod="b", container="side"), "not those of the pod's containers"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_faulty_proposal_is_refused_and_changes_nothing(fault: str) -> None:
    hub, policy = with_one_pod()
    before = hub.ledger.contents
    grant, problem = FAULTY[fault]
    policy.next = (grant,)
    decision = hub.admit(pod("b"))
    assert not decision.admitted
    assert decision.refusal is not None
    assert decision.refusal.reason == "ResourceConflict"
    assert problem in decision.refusal.message
    assert hub.ledger.contents is before
    hub.check()


@pytest.mark.parametrize("fault", FAULTY)
def test_a_fault_in_the_second_container_takes_the_first_back(fault: str) -> None:
    hub, policy = with_one_pod()
    before, free = hub.ledger.contents, hub.free()
    first = Grant(pod="b", container="first", exclusive=CpuSet([20]), memory=(block(GIB, 1),))
    policy.next = (first, FAULTY[fault][0])
    assert not hub.admit(pod("b", "first", "main")).admitted
    assert hub.ledger.contents is before
    assert hub.free() == free


def test_two_containers_of_one_pod_do_not_share_an_exclusive_cpu_or_device() -> None:
    hub, policy = scripted()
    for first in (
        Grant(pod="a", container="one", exclusive=CpuSet([8])),
        Grant(pod="a", container="one", devices=(DeviceGrant(resource=GPU, ids=("gpu0",)),)),
    ):
        policy.next = (first, msgspec.structs.replace(first, container="two"))
        assert not hub.admit(pod("a", "one", "two")).admitted
    assert not hub.ledger.pods


def test_an_init_container_leaves_its_cpus_to_later_containers_but_takes_none_of_a_sidecars() -> None:
    hub, policy = scripted()
    wanted = Pod(
        uid="a",
        name="a",
        init=(Request(name="one", init=True), Request(name="two", init=True)),
        containers=(Request(name="main"),),
    )
    one, two, main = (Grant(pod="a", container=name, exclusive=CpuSet([8, 9])) for name in ("one", "two", "main"))
    ends = [msgspec.structs.replace(grant, ends=True) for grant in (one, two)]
    policy.next = (one, ends[1], msgspec.structs.replace(main, exclusive=CpuSet([10])))
    assert not hub.admit(wanted).admitted, "the sidecar `one` still runs when `two` does"
    policy.next = (*ends, main)
    assert hub.admit(wanted).admitted
    hub.check()


@pytest.mark.parametrize(
    ("pools", "problem"),
    [
        ({"shared": CpuSet([1, 5])}, "CPUs 5 are exclusive"),
        ({"shared": CpuSet([1, 900])}, "CPUs 900 are not online"),
    ],
)
def test_pools_that_cannot_be_are_refused(pools: dict[str, CpuSet], problem: str) -> None:
    hub, policy = with_one_pod()
    before = hub.ledger.contents
    policy.next, policy.next_pools = (Grant(pod="b", container="main", pool="shared"),), pools
    decision = hub.admit(pod("b"))
    assert decision.refusal is not None
    assert problem in decision.refusal.message
    assert hub.ledger.contents is before


def test_a_refusal_cannot_take_from_others() -> None:
    hub, policy = with_one_pod()
    before = hub.ledger.contents
    policy.next = Refusal(reason="No", message="no", rule="scripted")
    policy.others = {"a": ()}
    policy.next_pools = {"shared": CpuSet([3])}
    assert not hub.admit(pod("b")).admitted
    assert hub.ledger.contents is before


def test_no_answer_is_a_refusal() -> None:
    hub, policy = with_one_pod()
    policy.next = None
    decision = hub.admit(pod("b"))
    assert decision.refusal is not None
    assert "gave no answer" in decision.refusal.message


def test_a_resize_that_conflicts_leaves_the_pod_as_it_was() -> None:
    hub, policy = with_one_pod()
    policy.next = (Grant(pod="b", container="main", exclusive=CpuSet([20])),)
    assert hub.admit(pod("b")).admitted
    before = hub.ledger.contents
    policy.next = (Grant(pod="b", container="main", exclusive=CpuSet([4, 20])),)
    assert not hub.resize(pod("b")).admitted
    assert hub.ledger.contents is before
    policy.next = (Grant(pod="b", container="main", exclusive=CpuSet([20, 21])),)
    assert hub.resize(pod("b")).admitted
    hub.check()


def test_memory_on_overlapping_groups_fits_only_if_it_can_be_laid_out() -> None:
    machine = load_preset("xeon-8480-2s-snc4")
    memory = MemoryResource()
    size = machine.nodes[0].memory_bytes
    held = memory.empty(machine)
    for i, nodes in enumerate([(0, 1), (1, 2), (2, 3)]):
        held = memory.take(machine, held, Grant(pod=f"p{i}", container="c", memory=(block(size, *nodes),)))
    single = Grant(pod="s", container="c", memory=(block(size, 1),))
    full = memory.take(machine, held, single)
    # Nodes 0-3 are full now though every group by itself could hold more.
    for mask in (0b0001, 0b1000, 0b1001, 0b0100, 0b1111):
        more = MemoryBlock(type="memory", nodes=NodeSet.of_mask(mask), bytes=1)
        with pytest.raises(ConflictError, match="memory"):
            memory.take(machine, full, Grant(pod="t", container="c", memory=(more,)))
    assert memory.give_back(machine, full, single) == held


def test_a_group_that_is_full_is_full_however_much_its_neighbours_have() -> None:
    machine = load_preset("xeon-8480-2s-snc4")
    memory = MemoryResource()
    size = machine.nodes[0].memory_bytes
    held = memory.empty(machine)
    for i, part in enumerate([block(size, 0), block(size, 0, 1), block(1, 1, 2), block(1, 2, 3)]):
        held = memory.take(machine, held, Grant(pod=f"p{i}", container="c", memory=(part,)))
    with pytest.raises(ConflictError, match="memory"):
        memory.take(machine, held, Grant(pod="t", container="c", memory=(block(1, 1),)))
    memory.take(machine, held, Grant(pod="t", container="c", memory=(block(2 * size - 2, 2, 3),)))
    with pytest.raises(ConflictError, match="memory"):
        memory.take(machine, held, Grant(pod="t", container="c", memory=(block(2 * size - 1, 2, 3),)))


def test_what_was_tolerated_and_not_taken_is_not_given_back() -> None:
    hub, policy = with_one_pod()
    policy.tolerated = True
    again = Grant(pod="b", container="main", exclusive=CpuSet([4]), memory=(block(NODE_BYTES, 0),))
    policy.next = (again,)
    assert hub.admit(pod("b")).admitted
    with pytest.raises(LedgerError):
        hub.check()
    free = hub.free()
    hub.release("b")
    assert hub.free() == free
    hub.check()


@pytest.mark.parametrize("kept", [["cpu"], ["memory"], ["devices"], ["cpu", "devices"], []])
def test_the_rest_works_without_a_plugin(kept: Sequence[str]) -> None:
    configuration = KubeletConfiguration(
        cpu_manager_policy="static",
        topology_manager_policy="restricted",
        reserved_system_cpus=CpuSet([0]),
        memory_manager_policy="Static",
        reserved_memory=(ReservedMemory(node=0, limits={"memory": GIB}),),
        system_reserved={"memory": GIB - 100 * 2**20},
    )
    policy = KubeletPolicy(MACHINE, NodeSetup(configuration=configuration))
    hub = Hub(MACHINE, policy, [plugin for plugin in all_plugins() if plugin.name in kept])
    main = Request(
        name="main",
        cpu_milli=4000,
        cpu_limit_milli=4000,
        memory_bytes=GIB,
        memory_limit_bytes=GIB,
        devices={GPU: 1},
    )
    wanted = Pod(uid="a", name="a", containers=(main,))
    decision = hub.admit(wanted)
    assert decision.admitted
    hub.check()
    (effect,) = hub.effects(decision)
    assert (effect.cpus is not None) == ("cpu" in kept)
    assert (effect.memory_nodes is not None) == ("memory" in kept)
    assert bool(effect.devices) == ("devices" in kept)
    assert set(hub.free()) <= {"cpu", "memory", GPU, "nvidia.com/hostdev"}
    other = Hub(MACHINE, policy, hub.plugins)
    other.restore(hub.ledger.entries())
    assert other.ledger.contents.holdings == hub.ledger.contents.holdings
    hub.release("a")
    assert not hub.ledger.pods


def test_restore_of_what_contradicts_itself_leaves_an_empty_ledger() -> None:
    hub, _ = with_one_pod()
    (entry,) = hub.ledger.entries()
    other = pod("b")
    twice = msgspec.structs.replace(
        entry, pod=other, grants=tuple(msgspec.structs.replace(g, pod="b") for g in entry.grants)
    )
    fresh, _ = scripted()
    with pytest.raises(ConflictError, match=r"held by|exclusive"):
        fresh.restore([entry, twice])
    assert not fresh.ledger.pods
    fresh.restore([entry])
    assert fresh.ledger.contents == msgspec.structs.replace(hub.ledger.contents, memo=0)
    with pytest.raises(BayplanError, match="not empty"):
        fresh.restore([])


def test_pods_that_are_not_there_are_named() -> None:
    hub, _ = scripted()
    for ask in (lambda: hub.release("x"), lambda: hub.started("x", "c"), lambda: hub.resize(pod("x"))):
        with pytest.raises(UnknownPodError, match="'x'"):
            ask()


def test_a_pod_is_admitted_once() -> None:
    hub, policy = with_one_pod()
    before = hub.ledger.contents
    policy.next = (Grant(pod="a", container="main"),)
    decision = hub.admit(pod("a"))
    assert decision.refusal is not None
    assert decision.refusal.reason == "AlreadyExists"
    assert hub.ledger.contents is before


def test_check_finds_a_ledger_that_was_tampered_with() -> None:
    hub, _ = with_one_pod()
    good: Contents = hub.ledger.contents
    for wrong in (
        msgspec.structs.replace(good, pools={"shared": CpuSet([0, 4])}),
        msgspec.structs.replace(good, pools={"shared": CpuSet([700])}),
        msgspec.structs.replace(good, grants={}),
        msgspec.structs.replace(good, holdings={**good.holdings, "memory": MemoryResource().empty(MACHINE)}),
    ):
        hub.ledger.contents = wrong
        with pytest.raises(LedgerError):
            hub.check()
    hub.ledger.contents = good
    hub.check()
