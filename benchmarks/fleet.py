"""How fast pods find nodes: `python benchmarks/fleet.py [PODS [NODES]]`.

Prints a table: the whole of `Fleet.place_all` with the kubelet policy, what of it is the fleet's own part (a policy
that says yes at once), and beside it the same pods on fewer nodes looked at one by one, without numpy.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from bayplan.fleet.fleet import Fleet
from bayplan.fleet.node import FleetNode
from bayplan.fleet.node_fields import Taint
from bayplan.hub.hub import Hub
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import Core, Machine, MemoryNode, Package
from bayplan.policies.kubelet import KubeletPolicy
from bayplan.policies.kubelet.allocatable import node_allocatable
from bayplan.policies.kubelet.configuration import KubeletConfiguration
from bayplan.policies.policy import NodeSetup, Policy, Proposal, View
from bayplan.resources.cpu import CpuResource
from bayplan.resources.decision import Decision, Grant, Notice, Refusal
from bayplan.resources.devices import DeviceResource, DeviceUnit
from bayplan.resources.memory import MemoryResource
from bayplan.workload.model import Pod, Request

CORES = 64
GIB = 2**30


class Yes:
    """Admits everything, so that what is left to measure is the fleet."""

    name = "yes"
    reserved = CpuSet()
    devices: Mapping[str, tuple[DeviceUnit, ...]] = {}
    exact = False
    settings: Mapping[str, str] = {}
    notices: tuple[Notice, ...] = ()

    def __init__(self, machine: Machine, setup: NodeSetup) -> None:
        self._idle = Proposal(pools={"shared": machine.online}, memo=None)

    def begin(self) -> Proposal:
        """See `Policy.begin`."""
        return self._idle

    def admit(self, view: View, pod: Pod) -> Proposal:
        """See `Policy.admit`."""
        grants = tuple(Grant(pod=pod.uid, container=c.name, pool="shared") for c in pod.all_containers)
        decision = Decision(pod=pod.uid, grants=grants)
        return Proposal(decision=decision, grants={pod.uid: grants}, pools=view.pools, memo=None)

    def resize(self, view: View, pod: Pod) -> Proposal:
        """See `Policy.resize`."""
        return self._idle

    def started(self, view: View, pod: Pod, container: str) -> Proposal:
        """See `Policy.started`."""
        return self._idle

    def release(self, view: View, uid: str) -> Proposal:
        """See `Policy.release`."""
        return Proposal(grants={uid: ()}, pools=view.pools, memo=None)

    def remedies(self, view: View, pod: Pod, refusal: Refusal) -> tuple[str, ...]:
        """See `Policy.remedies`."""
        return ()

    def restore(self, pods: Mapping[str, Pod], grants: Mapping[str, tuple[Grant, ...]]) -> Proposal:
        """See `Policy.restore`."""
        return self._idle


def server() -> Machine:
    """Two packages, two nodes, 64 cores without siblings, 512 GiB."""
    halves = [CpuSet(range(CORES // 2)), CpuSet(range(CORES // 2, CORES))]
    return Machine(
        name="server",
        online=CpuSet(range(CORES)),
        cores=tuple(Core(id=i, core_id=i, cpus=CpuSet([i]), package=2 * i // CORES) for i in range(CORES)),
        packages=tuple(Package(id=i, cpus=cpus) for i, cpus in enumerate(halves)),
        nodes=tuple(
            MemoryNode(id=i, cpus=cpus, memory_bytes=256 * GIB, initiators=NodeSet([i]))
            for i, cpus in enumerate(halves)
        ),
        distances=((10, 21), (21, 10)),
    )


def cluster(count: int, kind: type[Policy]) -> list[FleetNode]:
    """Nodes of three zones with static CPUs; every tenth is tainted. They share one policy."""
    machine = server()
    configuration = KubeletConfiguration(
        cpu_manager_policy="static", topology_manager_policy="restricted", kube_reserved={"cpu": 2000}
    )
    allocatable = node_allocatable(machine, configuration)
    policy = kind(machine, NodeSetup(configuration=configuration, allocatable=allocatable))
    plugins = (CpuResource(), MemoryResource(), DeviceResource())
    taint = (Taint(key="dedicated", value="batch", effect="NoSchedule"),)
    return [
        FleetNode(
            f"node-{i}",
            Hub(machine, policy, plugins),
            labels={"kubernetes.io/hostname": f"node-{i}", "zone": "abc"[i % 3]},
            taints=taint if i % 10 == 9 else (),
            allocatable=allocatable,
        )
        for i in range(count)
    ]


def workload(count: int) -> list[Pod]:
    """Mostly plain pods of a hundred Deployments; each twentieth is Guaranteed with whole CPUs, each fourth zonal."""
    pods = []
    for i in range(count):
        kind = i % 100
        whole = kind % 20 == 0
        cpu, memory = (4000, 8 * GIB) if whole else (50 * (kind % 30 + 1), (kind % 7 + 1) * GIB // 4)
        request = Request(
            name="app",
            cpu_milli=cpu,
            memory_bytes=memory,
            cpu_limit_milli=cpu if whole else None,
            memory_limit_bytes=memory if whole else None,
        )
        selector = {"zone": "abc"[kind % 3]} if kind % 4 == 0 else {}
        pods.append(
            Pod(uid=f"{i}", name=f"p{i}", labels={"app": f"{kind}"}, containers=(request,), node_selector=selector)
        )
    return pods


def measure(label: str, nodes: list[FleetNode], pods: list[Pod], *, plain: bool) -> None:
    """Place them all and print a row."""
    fleet = Fleet(nodes, plain=plain)
    begin = time.perf_counter()
    plan = fleet.place_all(pods)
    taken = time.perf_counter() - begin
    row = (len(pods), len(nodes), taken, len(pods) / taken, 1000 * taken / len(pods), len(plan.refused))
    print(f"{label:<28}{row[0]:>7}{row[1]:>7}{row[2]:>9.2f}{row[3]:>9.0f}{row[4]:>9.3f}{row[5]:>9}", flush=True)


def main() -> None:
    """The table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    nodes = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    pods = workload(count)
    print(f"{'':<28}{'pods':>7}{'nodes':>7}{'seconds':>9}{'pods/s':>9}{'ms/pod':>9}{'refused':>9}")
    measure("kubelet policy, numpy", cluster(nodes, KubeletPolicy), pods, plain=False)
    measure("fleet alone, numpy", cluster(nodes, Yes), pods, plain=False)
    few = max(1, nodes // 10)
    measure("fleet alone, numpy, fewer", cluster(few, Yes), pods[: count // 10], plain=False)
    measure("fleet alone, plain Python", cluster(few, Yes), pods[: count // 10], plain=True)


if __name__ == "__main__":
    main()
