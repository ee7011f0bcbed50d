"""Cases in which `exact` once answered otherwise than the managers of kubelet 1.36.2, each as small as it gets.

The expected answers are those managers' own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from bayplan.idset import NodeSet
from bayplan.policies.kubelet.admission import Kubelet, Outcome, Seen
from bayplan.policies.kubelet.configuration import ReservedMemory
from bayplan.policies.kubelet.distributed import take_distributed
from bayplan.policies.kubelet.hints import Listed
from bayplan.policies.kubelet.memory_tables import SeenNode
from bayplan.policies.kubelet.settings import Settings, StartError
from bayplan.policies.kubelet.state import KubeletPanicError
from bayplan.policies.kubelet.topology import CpuTopology, SeenCpu
from bayplan.policies.kubelet.walk import merge_by_walking
from bayplan.resources.devices import DeviceUnit
from bayplan.workload.model import Pod, Request

GIB = 2**30
GPU = "ex.com/gpu"
ON_NODE_0 = DeviceUnit(id="a", nodes=NodeSet([0]))
ON_NODE_1 = DeviceUnit(id="b", nodes=NodeSet([1]))


def two_nodes(*nodes: SeenNode) -> Seen:
    """Two NUMA nodes of four CPUs."""
    cpus = CpuTopology(SeenCpu(cpu, cpu // 4, cpu // 4, cpu % 4) for cpu in range(8))
    return Seen(cpus, nodes or (SeenNode(id=0, memory_bytes=4 * GIB), SeenNode(id=1, memory_bytes=4 * GIB)), ())


def request(name: str, memory: int = 0, *, init: bool = False, gpus: int | None = None, huge: int = 0) -> Request:
    return Request(
        name=name,
        cpu_milli=1000,
        cpu_limit_milli=1000,
        memory_bytes=memory,
        memory_limit_bytes=memory,
        hugepages={2**21: huge} if huge else {},
        devices={} if gpus is None else {GPU: gpus},
        init=init,
    )


def pod(uid: str, *containers: Request) -> Pod:
    init = tuple(c for c in containers if c.init)
    return Pod(uid=uid, name=uid, init=init, containers=tuple(c for c in containers if not c.init), resources=None)


def with_gpus(units: Iterable[DeviceUnit], *, topology: str = "none") -> Settings:
    return Settings(topology_policy=topology, devices={GPU: tuple(units)})


def with_memory(reserved: int, *, topology: str = "none", scope: str = "container") -> Settings:
    kept = (ReservedMemory(node=0, limits={"memory": reserved}),)
    return Settings(memory_policy="Static", reserved_memory=kept, topology_policy=topology, scope=scope)


def restarted(before: Settings, after: Settings, asked: Pod) -> Outcome:
    """What becomes of a pod that was admitted when the kubelet starts again with other settings."""
    one, other = (Kubelet(two_nodes(), settings, exact=True) for settings in (before, after))
    admitted = one.admit(one.start(), asked)
    assert admitted.refusal is None
    return other.admit(other.start(admitted.state), asked)


class TestDistribution:
    """`distribute-cpus-across-numa` where sockets cross NUMA nodes, so that a node is listed twice."""

    MACHINE = CpuTopology([SeenCpu(0, 1, 0, 0), SeenCpu(1, 0, 1, 0), SeenCpu(2, 1, 1, 0), SeenCpu(3, 0, 2, 0)])

    @pytest.mark.parametrize("exact", [True, False])
    def test_a_node_that_is_listed_twice_has_its_cpus_once(self, exact: bool) -> None:
        assert take_distributed(self.MACHINE, 0b1111, 4, 1, exact=exact) == 0b1111


class TestDevicesAfterRestart:
    ASKED = pod("p", request("c", gpus=1))

    def test_a_plugin_that_does_not_come_back_leaves_no_healthy_devices(self) -> None:
        outcome = restarted(with_gpus([ON_NODE_0]), Settings(), self.ASKED)
        assert outcome.refusal is not None
        assert "no healthy devices present; cannot allocate unhealthy devices ex.com/gpu" in outcome.refusal.message

    def test_a_device_that_fell_ill_ends_its_pod(self) -> None:
        ill = DeviceUnit(id="a", nodes=NodeSet([0]), healthy=False)
        outcome = restarted(with_gpus([ON_NODE_0, ON_NODE_1]), with_gpus([ill, ON_NODE_1]), self.ASKED)
        assert outcome.refusal is not None
        assert "previously allocated devices are no longer healthy" in outcome.refusal.message

    def test_a_device_that_is_gone_ends_the_kubelet_when_it_makes_hints(self) -> None:
        before = with_gpus([ON_NODE_0, ON_NODE_1], topology="best-effort")
        with pytest.raises(KubeletPanicError, match="nil pointer"):
            restarted(before, with_gpus([ON_NODE_1], topology="best-effort"), self.ASKED)

    def test_asking_for_no_devices_needs_healthy_ones(self) -> None:
        ill = DeviceUnit(id="a", nodes=NodeSet([0]), healthy=False)
        kubelet = Kubelet(two_nodes(), with_gpus([ill]), exact=True)
        refusal = kubelet.admit(kubelet.start(), pod("p", request("c", gpus=0))).refusal
        assert refusal is not None
        assert refusal.reason == "UnexpectedAdmissionError"


class TestPoliciesAtRestart:
    @pytest.mark.parametrize(
        ("after", "stage", "words"),
        [
            (Settings(cpu_policy="static", reserved_cpu_milli=1000), "cpu-start", '"static" differs from'),
            (with_memory(GIB), "memory-start", '"Static" differs from state checkpoint policy "None"'),
        ],
    )
    def test_a_state_of_another_policy_is_refused(self, after: Settings, stage: str, words: str) -> None:
        with pytest.raises(StartError, match=words) as caught:
            restarted(Settings(), after, pod("p", request("c")))
        assert caught.value.stage == stage


class TestAllCpusGivenOut:
    """With `strict-cpu-reservation` nothing may be left to share; a kubelet does not start again after that."""

    def full(self, *, exact: bool) -> Kubelet:
        options = {"strict-cpu-reservation": "true"}
        settings = Settings(cpu_policy="static", cpu_options=options, reserved_cpu_milli=7000)
        return Kubelet(two_nodes(), settings, exact=exact)

    def test_the_kubelet_refuses_its_own_state(self) -> None:
        kubelet = self.full(exact=True)
        state = kubelet.admit(kubelet.start(), pod("p", request("c", GIB))).state
        with pytest.raises(StartError, match="default cpuset cannot be empty"):
            kubelet.start(state)

    def test_bayplan_goes_on(self) -> None:
        kubelet = self.full(exact=False)
        state = kubelet.admit(kubelet.start(), pod("p", request("c", GIB))).state
        assert state.shared == 0
        assert kubelet.start(state).assigned == state.assigned


class TestMemory:
    def test_less_memory_than_is_reserved_counts_as_nearly_endless(self) -> None:
        seen = two_nodes(SeenNode(id=0, memory_bytes=GIB), SeenNode(id=1, memory_bytes=4 * GIB))
        kubelet = Kubelet(seen, with_memory(2 * GIB, topology="restricted"), exact=True)
        outcome = kubelet.admit(kubelet.start(), pod("p", request("c", 100 * GIB)))
        assert outcome.refusal is None
        assert outcome.state.free["memory"] == (2**64 - 101 * GIB, 4 * GIB)

    def test_but_not_in_bayplans_own_use(self) -> None:
        seen = two_nodes(SeenNode(id=0, memory_bytes=GIB), SeenNode(id=1, memory_bytes=4 * GIB))
        kubelet = Kubelet(seen, with_memory(2 * GIB, topology="restricted"), exact=False)
        start = kubelet.start()
        assert start.free["memory"] == (0, 4 * GIB)
        assert kubelet.admit(start, pod("p", request("c", 100 * GIB))).refusal is not None

    HUGE_ON_1 = (
        SeenNode(id=0, memory_bytes=4 * GIB),
        SeenNode(id=1, memory_bytes=4 * GIB, hugepages={2**21: 512}),
    )

    def test_a_node_without_the_type_does_not_matter_where_it_is_not_looked_at(self) -> None:
        kubelet = Kubelet(two_nodes(*self.HUGE_ON_1), with_memory(GIB, topology="best-effort", scope="pod"), exact=True)
        first = kubelet.admit(kubelet.start(), pod("a", request("c", GIB // 2)))
        # Huge pages of init containers only do not count for the pod's hints, and node 0 is too full to be chosen.
        outcome = kubelet.admit(
            first.state, pod("b", request("i", GIB, init=True, huge=2**21), request("c", 14 * GIB // 5))
        )
        assert outcome.refusal is None
        assert outcome.state.hint_of("b", "i").nodes == 0b10

    def test_a_group_with_a_node_without_the_type_ends_the_next_start(self) -> None:
        kubelet = Kubelet(two_nodes(*self.HUGE_ON_1), with_memory(GIB), exact=True)
        outcome = kubelet.admit(kubelet.start(), pod("p", request("c", 5 * GIB)))
        assert outcome.refusal is None
        with pytest.raises(KubeletPanicError, match="nil pointer"):
            kubelet.start(outcome.state)


class TestHintAfterStop:
    """The Topology manager knows a container to be gone only if it saw it start."""

    def affinity_after(self, *, start: bool, restart: bool) -> int | None:
        kubelet = Kubelet(two_nodes(), Settings(topology_policy="best-effort"), exact=True)
        asked = pod("p", request("c"))
        state = kubelet.admit(kubelet.start(), asked).state
        if start:
            state = kubelet.start_container(state, "p", "c")
        if restart:
            state = kubelet.admit(kubelet.start(state), asked).state
        return kubelet.stop_container(state, "p", "c").hint_of("p", "c").nodes

    def test_it_is_forgotten_after_a_start(self) -> None:
        assert self.affinity_after(start=True, restart=False) is None

    def test_it_stays_without_one(self) -> None:
        assert self.affinity_after(start=False, restart=False) == 0b11

    def test_it_stays_when_the_start_was_before_the_kubelets_own(self) -> None:
        assert self.affinity_after(start=True, restart=True) == 0b11


class TestWalk:
    def test_it_ends_where_the_kubelet_does_however_many_combinations_are_left(self) -> None:
        ids: Sequence[int] = [0, 1, 2, 3, 4, 5, 6, 7, 9, 11]
        rows = dict.fromkeys(ids, [10] * len(ids))
        everything = Listed([(mask, False) for mask in range(1, 2**12) if not mask & 0b0101_0000_0000])
        with pytest.raises(KubeletPanicError, match=r"index out of range \[11\] with length 10"):
            merge_by_walking([everything, everything], 0b1010_1111_1111, rows)
