"""Nodes with a policy that is simple enough to be read: shared CPUs for everyone, and a few reasons to refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from bayplan.fleet.node import FleetNode
from bayplan.hub.hub import Hub
from bayplan.idset import CpuSet
from bayplan.machine import Machine, MemoryNode
from bayplan.policies.policy import NodeSetup, Proposal, View
from bayplan.resources.cpu import CpuResource
from bayplan.resources.decision import Choice, Decision, Grant, Notice, Refusal
from bayplan.resources.devices import DeviceUnit
from bayplan.workload.model import Pod, Request

MISALIGNED = "Resources cannot be allocated with Topology locality"
ONLINE = CpuSet(range(8))
MACHINE = Machine(
    name="eight",
    online=ONLINE,
    cores=(),
    packages=(),
    nodes=(MemoryNode(id=0, cpus=ONLINE, memory_bytes=2**35),),
)


class SimplePolicy:
    """Refuses pods labelled `refuse`, the second of those labelled `alone`, and hangs, with a warning, on `hang`."""

    name = "simple"
    reserved = CpuSet([0])
    devices: Mapping[str, tuple[DeviceUnit, ...]] = {}
    exact = False
    notices: tuple[Notice, ...] = ()
    settings: Mapping[str, str] = {"kind": "simple"}

    def __init__(self, machine: Machine = MACHINE, setup: NodeSetup | None = None) -> None:
        self.asked = 0
        self.advised = 0

    def begin(self) -> Proposal:
        return Proposal(pools={"shared": ONLINE}, memo=None)

    def admit(self, view: View, pod: Pod) -> Proposal:
        self.asked += 1
        alone = "alone" in pod.labels and any("alone" in other.labels for other in view.pods.values())
        if "refuse" in pod.labels or alone or "hang" in pod.labels:
            refusal = Refusal(reason="TopologyAffinityError", message=MISALIGNED, rule="simple/refuse")
            warnings = (Notice(name="kubelet-hangs", message="it hangs"),) if "hang" in pod.labels else ()
            trace = (Choice(subject=pod.name, question="where", taken="nowhere", rule="simple"),)
            decision = Decision(pod=pod.uid, refusal=refusal, warnings=warnings, trace=trace)
            return Proposal(decision=decision, pools=view.pools, memo=view.memo)
        grants = tuple(Grant(pod=pod.uid, container=c.name, pool="shared") for c in pod.all_containers)
        decision = Decision(pod=pod.uid, grants=grants)
        return Proposal(decision=decision, grants={pod.uid: grants}, pools=view.pools, memo=view.memo)

    def resize(self, view: View, pod: Pod) -> Proposal:
        raise NotImplementedError

    def started(self, view: View, pod: Pod, container: str) -> Proposal:
        raise NotImplementedError

    def release(self, view: View, uid: str) -> Proposal:
        return Proposal(grants={uid: ()}, pools=view.pools, memo=view.memo)

    def remedies(self, view: View, pod: Pod, refusal: Refusal) -> tuple[str, ...]:
        self.advised += 1
        return (f"ask for less than {pod.uid}",)

    def restore(self, pods: Mapping[str, Pod], grants: Mapping[str, tuple[Grant, ...]]) -> Proposal:
        raise NotImplementedError


NodeMaker = Callable[..., FleetNode]
PodMaker = Callable[..., Pod]


@pytest.fixture(scope="session")
def simple_policy() -> type[SimplePolicy]:
    """The policy's class, for tests that count how often it is asked."""
    return SimplePolicy


@pytest.fixture(scope="session")
def make_node() -> NodeMaker:
    """A node of 4 CPUs, 8 GiB and 10 pods; `policy` may be shared between nodes, keywords are those of FleetNode."""

    def make(name: str = "n", policy: SimplePolicy | None = None, **fields: Any) -> FleetNode:
        hub = Hub(MACHINE, policy or SimplePolicy(), (CpuResource(),))
        fields.setdefault("allocatable", {"cpu": 4000, "memory": 8 * 2**30, "pods": 10})
        return FleetNode(name, hub, **fields)

    return make


@pytest.fixture(scope="session")
def make_pod() -> PodMaker:
    """A pod of one container; `cpu` in millicores, `memory` in bytes, keywords are those of Pod."""

    def make(
        name: str = "p", cpu: int = 0, memory: int = 0, devices: dict[str, int] | None = None, **fields: Any
    ) -> Pod:
        container = Request(name="c", cpu_milli=cpu, memory_bytes=memory, devices=devices or {})
        fields.setdefault("containers", (container,))
        return Pod(uid=f"uid-{name}", name=name, **fields)

    return make
