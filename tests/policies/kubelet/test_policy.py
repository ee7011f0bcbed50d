"""Given a machine and a kubelet's configuration, these pods get this answer."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.machine import Machine
from bayplan.resources.decision import Decision, Refusal
from bayplan.workload.model import Pod, PodResources, Request

GIB = 2**30
Build = Any
"""The class of that name in conftest.py."""


@pytest.fixture
def two(build: Build) -> Machine:
    """Two sockets of one node each with four cores of two threads: CPUs 0-7 and 8-15; 16 GiB a node."""
    machine: Machine = build.machine([2] * 4, [2] * 4)
    return machine


def refused(decision: Decision) -> Refusal:
    assert decision.refusal is not None
    return decision.refusal


def cpus(decision: Decision, container: str = "main") -> str:
    assert decision.admitted, decision.refusal
    return next(str(g.exclusive or g.shared) for g in decision.grants if g.container == container)


# What is granted.


def test_a_guaranteed_pod_gets_whole_cores_of_its_own_and_the_rest_is_shared(build: Build, two: Machine) -> None:
    hub = build.hub(two)
    first = hub.admit(build.guaranteed("a", 4))
    assert cpus(first) == "2-5"
    assert first.grants[0].pool == ""
    other = hub.admit(build.burstable("b"))
    assert cpus(other) == "0-1,6-15"
    assert other.grants[0].pool == "shared"
    assert not other.grants[0].exclusive
    hub.release("a")
    assert str(hub.ledger.grants("b")[0].shared) == "0-15"


@pytest.mark.parametrize("amount", [0.5, 1.5])
def test_parts_of_a_cpu_are_shared(amount: float, build: Build, two: Machine) -> None:
    hub = build.hub(two)
    assert cpus(hub.admit(build.guaranteed("a", amount))) == "0-15"


def test_pod_level_resources_make_no_cpu_exclusive(build: Build, two: Machine) -> None:
    whole = PodResources(cpu_milli=2000, cpu_limit_milli=2000, memory_bytes=GIB, memory_limit_bytes=GIB)
    pod = Pod(uid="a", name="a", containers=(Request(name="main"),), resources=whole)
    assert cpus(build.hub(two).admit(pod)) == "0-15"


def test_policy_none_shares_everything(build: Build, two: Machine) -> None:
    assert cpus(build.hub(two, cpu_policy="none").admit(build.guaranteed("a", 4))) == "0-15"


def test_cpus_memory_and_devices_come_from_one_node(build: Build, two: Machine) -> None:
    hub = build.hub(two, topology="single-numa-node", memory=True, nics=[0, 1, 1])
    decision = hub.admit(build.guaranteed("a", 4, 2 * GIB, nics=2))
    (grant,) = decision.grants
    assert str(grant.exclusive) == "8-11"
    assert [(b.type, str(b.nodes), b.bytes) for b in grant.memory] == [("memory", "1", 2 * GIB)]
    assert str(grant.memory_nodes) == "1"
    assert grant.devices[0].ids == ("nic1", "nic2")
    assert str(grant.affinity) == "1"
    assert grant.preferred
    assert [choice.question for choice in decision.trace] == [
        "which NUMA nodes suit all resources together?",
        "which CPUs?",
        "which memory?",
        "which example.com/nic?",
    ]
    assert decision.trace[0].options == (
        "device: node 1 alone",
        "cpu: each of nodes 0-1 alone",
        "memory: each of nodes 0-1 alone",
    )


def test_best_effort_takes_what_is_there_across_nodes(build: Build, two: Machine) -> None:
    hub = build.hub(two, topology="best-effort")
    assert cpus(hub.admit(build.guaranteed("a", 6))) == "2-7"
    decision = hub.admit(build.guaranteed("b", 9))
    assert cpus(decision) == "1,8-15"
    assert not build.hub(two, topology="restricted").admit(build.guaranteed("b", 16)).admitted


def test_scope_pod_aligns_all_containers_together(build: Build, two: Machine) -> None:
    containers = [build.container("one", cpus=5), build.container("two", cpus=5)]
    apart = build.hub(two, topology="single-numa-node").admit(build.pod("a", *containers))
    assert [str(g.affinity) for g in apart.grants] == ["0", "1"]
    together = build.hub(two, topology="single-numa-node", scope="pod").admit(build.pod("a", *containers))
    assert refused(together).reason == "TopologyAffinityError"


def test_an_init_container_leaves_its_cpus_and_memory_to_the_pod(build: Build, two: Machine) -> None:
    hub = build.hub(two, memory=True, topology="best-effort")
    init = build.container("init", cpus=4, memory=3 * GIB, init=True)
    decision = hub.admit(build.pod("a", init, build.container("main", cpus=2, memory=GIB)))
    assert cpus(decision, "init") == "2-5"
    assert cpus(decision, "main") == "2-3"
    assert sum(b.bytes for g in decision.grants for b in g.memory) == 3 * GIB
    assert hub.free()["memory"] == 32 * GIB - 3 * GIB
    hub.started("a", "main")
    assert hub.free()["memory"] == 32 * GIB - GIB
    hub.release("a")
    assert hub.free()["memory"] == 32 * GIB


# What is refused, in the kubelet's words.


def test_topology_affinity_error(build: Build, two: Machine) -> None:
    refusal = refused(build.hub(two, topology="single-numa-node").admit(build.guaranteed("a", 10)))
    assert refusal.reason == "TopologyAffinityError"
    assert refusal.message == "Resources cannot be allocated with Topology locality"
    assert refusal.rule == "topology-manager/single-numa-node"
    assert refusal.container == "main"


def test_smt_alignment_error(build: Build, two: Machine) -> None:
    hub = build.hub(two, options=["full-pcpus-only"])
    odd = refused(hub.admit(build.guaranteed("a", 3)))
    assert odd.reason == "SMTAlignmentError"
    assert odd.message == "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
    assert odd.rule == "cpu-manager/full-pcpus-only"
    many = refused(hub.admit(build.guaranteed("b", 16)))
    assert many.message == (
        "SMT Alignment Error: not enough free physical CPUs: "
        "available physical CPUs = 14, requested CPUs = 16, CPUs per core = 2"
    )
    assert (many.resource, many.asked, many.free) == ("cpu", 16_000, 14_000)


@pytest.mark.parametrize(
    ("cpu", "memory", "nics", "message", "rule", "numbers"),
    [
        (
            16,
            GIB,
            0,
            "not enough cpus available to satisfy request: requested=16, available=15",
            "cpu-manager/allocate",
            ("cpu", 16_000, 15_000),
        ),
        (
            1,
            40 * GIB,
            0,
            "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available",
            "memory-manager/allocate",
            ("memory", 40 * GIB, 31 * GIB),
        ),
        (
            1,
            GIB,
            2,
            "requested number of devices unavailable for example.com/nic. Requested: 2, Available: 1",
            "device-manager/allocate",
            ("example.com/nic", 2, 1),
        ),
    ],
)
def test_unexpected_admission_error(
    cpu: int,
    memory: int,
    nics: int,
    message: str,
    rule: str,
    numbers: tuple[str, int, int],
    build: Build,
    two: Machine,
) -> None:
    hub = build.hub(two, memory=True, nics=[0], limited=False)
    refusal = refused(hub.admit(build.guaranteed("a", cpu, memory, nics)))
    assert refusal.reason == "UnexpectedAdmissionError"
    assert refusal.message == f"Allocate failed due to {message}, which is unexpected"
    assert refusal.rule == rule
    assert (refusal.resource, refusal.asked, refusal.free) == numbers


def test_what_all_pods_request_together_has_to_fit(build: Build, two: Machine) -> None:
    hub = build.hub(two, cpu_policy="none", max_pods=2)
    memory = 33_285_996_544  # 32 GiB less 1 GiB that is reserved, of which 100 MiB are for eviction

    def ask(name: str, milli: int, size: int) -> Refusal:
        return refused(hub.admit(build.burstable(name, milli, size)))

    short = ask("a", 20_000, GIB)
    assert short.reason == "OutOfcpu"
    assert short.message == "Node didn't have enough resource: cpu, requested: 20000, used: 0, capacity: 15000"
    assert (short.resource, short.asked, short.free, short.rule) == ("cpu", 20_000, 15_000, "kubelet/resources")
    assert hub.admit(build.burstable("b", 8000, GIB)).admitted
    assert ask("c", 8000, GIB).message.endswith("cpu, requested: 8000, used: 8000, capacity: 15000")
    short = ask("d", 1000, 64 * GIB)
    assert short.reason == "OutOfmemory"
    assert short.message.endswith(f"memory, requested: {64 * GIB}, used: {GIB}, capacity: {memory}")
    assert hub.admit(build.burstable("e", 7000, GIB)).admitted
    short = ask("f", 1, 1)
    assert short.reason == "OutOfpods"
    assert short.message == "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"
    hub.release("b")
    assert hub.admit(build.burstable("f", 8000, GIB)).admitted


def test_the_managers_refusal_comes_before_the_sums(build: Build, two: Machine) -> None:
    assert refused(build.hub(two).admit(build.guaranteed("a", 20))).reason == "UnexpectedAdmissionError"


def test_a_refusal_in_the_last_container_gives_back_what_the_first_had(build: Build, two: Machine) -> None:
    hub = build.hub(two, limited=False)
    before = hub.ledger.contents
    pod = build.pod("a", build.container("one", cpus=8), build.container("two", cpus=8))
    assert refused(hub.admit(pod)).container == "two"
    assert hub.ledger.contents is before


def test_the_last_shared_cpu_is_not_given_away(build: Build, two: Machine) -> None:
    hub = build.hub(two, options=["strict-cpu-reservation"], limited=False)
    assert cpus(hub.admit(build.burstable("a"))) == "1-15"
    refusal = refused(hub.admit(build.guaranteed("b", 15)))
    assert refusal.reason == "SharedPoolEmpty"
    assert refusal.rule == "cpu-manager/shared-pool"
    assert "default/a, container main" in refusal.message
    hub.release("a")
    assert cpus(hub.admit(build.guaranteed("b", 15))) == "1-15"
    assert refused(hub.admit(build.burstable("a"))).reason == "SharedPoolEmpty"


# A pod changes size.


def test_what_is_pinned_cannot_change_size(build: Build, two: Machine) -> None:
    hub = build.hub(two)
    hub.admit(build.guaranteed("a", 2))
    refusal = refused(hub.resize(build.guaranteed("a", 4)))
    assert refusal.reason == "Infeasible"
    assert refusal.message == 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
    hub = build.hub(two, cpu_policy="none", memory=True)
    hub.admit(build.guaranteed("a", 2))
    refusal = refused(hub.resize(build.guaranteed("a", 4)))
    assert refusal.message == 'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"'


def test_a_resize_beyond_the_node_is_infeasible_and_one_beyond_its_room_is_deferred(build: Build, two: Machine) -> None:
    hub = build.hub(two, cpu_policy="none")
    hub.admit(build.burstable("a", 1000))
    hub.admit(build.burstable("b", 10_000))
    never = refused(hub.resize(build.burstable("a", 16_000)))
    assert never.reason == "Infeasible"
    assert never.message == "Node didn't have enough capacity: cpu, requested: 16000, capacity: 15000"
    later = refused(hub.resize(build.burstable("a", 6000)))
    assert later.reason == "Deferred"
    assert later.message == "Node didn't have enough resource: cpu, requested: 6000, used: 10000, capacity: 15000"
    assert hub.resize(build.burstable("a", 5000)).admitted
    assert hub.ledger.pods["a"].containers[0].cpu_milli == 5000
    hub.release("b")
    assert hub.resize(build.burstable("a", 15_000)).admitted


@pytest.mark.parametrize("what", ["qos", "containers", "devices"])
def test_a_resize_changes_cpu_and_memory_of_the_containers_that_are_there_only(
    what: str, build: Build, two: Machine
) -> None:
    hub = build.hub(two, cpu_policy="none", nics=[0])
    hub.admit(build.guaranteed("a", 2))
    changed = {
        "qos": build.burstable("a", 2000),
        "containers": build.pod("a", build.container(), build.container("more")),
        "devices": build.guaranteed("a", 2, nics=1),
    }[what]
    before = hub.ledger.contents
    refusal = refused(hub.resize(changed))
    assert refusal.reason == "Invalid"
    assert ("QOS" if what == "qos" else "only cpu and memory") in refusal.message
    assert hub.ledger.contents is before
