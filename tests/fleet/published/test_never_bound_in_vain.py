"""Whatever comes, ends and is published when: a pod that was decided for a node is admitted by its kubelet.

Save for one that was waiting to be taken on while another ended: where those before it are put is then open anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.files.plugins import load_policy, load_resources
from bayplan.fleet.published.checks import ZoneChecks
from bayplan.fleet.published.doubts import ZoneSettings
from bayplan.fleet.published.layout import HeldPod, Management, NodeLayout, write_layout
from bayplan.fleet.published.pod_objects import pod_of
from bayplan.hub.hub import Hub
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import Machine, MemoryNode
from bayplan.machine.model import Core
from bayplan.policies.kubelet.configuration import read_inline
from bayplan.policies.policy import NodeSetup
from bayplan.protocols.kubernetes import PodObject
from bayplan.resources.devices import DeviceUnit

GPU = "nvidia.com/gpu"
NOW = 1_800_000_000.0
MACHINE = Machine(
    name="two-zones",
    online=CpuSet(range(20)),
    cores=tuple(Core(id=c, core_id=c, cpus=CpuSet([c]), package=0) for c in range(20)),
    packages=(),
    nodes=(
        MemoryNode(id=0, cpus=CpuSet(range(8)), memory_bytes=2**36),
        MemoryNode(id=1, cpus=CpuSet(range(8, 20)), memory_bytes=2**36),
    ),
)
DEVICES = {
    GPU: tuple(DeviceUnit(id=f"gpu-{i}", nodes=NodeSet([0 if i < 3 else 1])) for i in range(8)),
}
PLUGINS = load_resources().found


class Cluster:
    """One node with a real hub, kubelet-like delays, and the scheduler side that only sees what it is told."""

    def __init__(self, policy: str, scope: str) -> None:
        self.given: dict[str, Any] = {
            "cpuManagerPolicy": "static",
            "topologyManagerPolicy": policy,
            "topologyManagerScope": scope,
            "reservedSystemCPUs": "0",
        }
        self.configuration = read_inline(self.given, source="", place="").configuration
        setup = NodeSetup(configuration=self.configuration, devices=DEVICES, exact=True)
        self.hub = Hub(MACHINE, load_policy("kubelet")(MACHINE, setup), PLUGINS)
        self.checks = ZoneChecks(ZoneSettings(), load_policy, PLUGINS)
        self.waiting: list[PodObject] = []
        self.running: list[PodObject] = []
        self.excused: set[str | None] = set()
        self.made = self.refused = 0
        self.publish()

    def decide(self, cpu: int, gpu: int) -> None:
        """A pod is scheduled and bound, if the checks let it."""
        self.made += 1
        limits = {"cpu": str(cpu), "memory": "1Gi", **({GPU: str(gpu)} if gpu else {})}
        pod = msgspec.convert(
            {
                "metadata": {"name": f"p{self.made}", "uid": f"u{self.made}"},
                "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
            },
            PodObject,
        )
        if self.checks.assume(pod_of(pod), "n", NOW, 60) is not None:
            self.refused += 1
            return
        bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="n"))
        if self.made % 2:
            self.checks.set_pod(bound)
        self.waiting.append(bound)

    def admit(self) -> None:
        """The kubelet takes on the next pod that was bound to it."""
        if self.waiting:
            pod = self.waiting.pop(0)
            decision = self.hub.admit(pod_of(pod))
            if decision.refusal is None:
                self.running.append(pod)
                self.checks.set_pod(pod)
                return
            assert pod.metadata.uid in self.excused, f"bound in vain: {pod.full_name}: {decision.refusal}"
            self._tell(pod, "Failed")

    def end(self, which: int) -> None:
        """A pod ends, and the API says so."""
        if self.running:
            pod = self.running.pop(which % len(self.running))
            self.hub.release(pod_of(pod).uid)
            self.excused |= {waiting.metadata.uid for waiting in self.waiting}
            self._tell(pod, "Succeeded")

    def _tell(self, pod: PodObject, phase: str) -> None:
        status = msgspec.convert({"phase": phase}, type(pod.status))
        self.checks.set_pod(msgspec.structs.replace(pod, status=status))

    def publish(self) -> None:
        """The agent tells what is held now."""
        held = tuple(HeldPod(pod=e.pod, grants=e.grants) for e in self.hub.ledger.entries())
        management = Management(configuration=self.configuration, devices=DEVICES)
        layout = NodeLayout(name="n", machine=MACHINE, management=management, heartbeat=NOW, pods=held)
        assert self.checks.set_layout("n", msgspec.json.encode(write_layout(layout, self.given))) == ""


ACTS: st.SearchStrategy[Callable[[Cluster], None]] = st.one_of(
    st.builds(
        lambda cpu, gpu: lambda cluster: cluster.decide(cpu, gpu),
        st.integers(1, 9),
        st.integers(0, 4),
    ),
    st.just(Cluster.admit),
    st.builds(lambda which: lambda cluster: cluster.end(which), st.integers(0, 7)),
    st.just(Cluster.publish),
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["single-numa-node", "restricted", "best-effort"]),
    st.sampled_from(["pod", "container"]),
    st.lists(ACTS, min_size=5, max_size=40),
)
def test_what_is_decided_is_admitted(policy: str, scope: str, acts: list[Callable[[Cluster], None]]) -> None:
    cluster = Cluster(policy, scope)
    for act in acts:
        act(cluster)
    while cluster.waiting:
        cluster.admit()
    cluster.publish()
    cluster.checks.settle(1_000)
    (state,) = cluster.checks.states_of("n")
    assert state.contents.pods.keys() == cluster.hub.ledger.pods.keys(), "in the end both know the same"


def test_a_quiet_cluster_fills_its_zones_to_the_last_gpu() -> None:
    cluster = Cluster("single-numa-node", "pod")
    for _ in range(10):
        cluster.decide(1, 1)
        cluster.admit()
        cluster.publish()
    assert len(cluster.running) == 8
    assert cluster.refused == 2
