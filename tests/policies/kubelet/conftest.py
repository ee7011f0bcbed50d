"""Small machines, even and uneven, and nodes and pods on them, for the tests of the kubelet policy."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from bayplan.hub.hub import Hub
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import Core, HugepagePool, Machine, MemoryNode, Package
from bayplan.policies.kubelet import KubeletPolicy
from bayplan.policies.kubelet.allocatable import node_allocatable
from bayplan.policies.kubelet.configuration import KubeletConfiguration, ReservedMemory
from bayplan.policies.policy import NodeSetup
from bayplan.resources.cpu import CpuResource
from bayplan.resources.devices import DeviceResource, DeviceUnit
from bayplan.resources.memory import MemoryResource
from bayplan.workload.model import Pod, Request

MIB, GIB = 2**20, 2**30
NODE_BYTES = 16 * GIB


class Build:
    """How the tests make what they need. Devices are `example.com/nic`, ids `nic0`, `nic1`, ... in the order given."""

    nic = "example.com/nic"

    def machine(self, *nodes: Sequence[int], sockets: Sequence[int] = (), hugepages: int = 0) -> Machine:
        """For every node the threads of its cores, `[2, 2, 1]`; CPUs are numbered through. Each node is a socket,
        unless `sockets` names each node's."""
        cores: list[Core] = []
        memory, next_cpu = [], 0
        of_socket: dict[int, list[int]] = {}
        for i, threads in enumerate(nodes):
            socket = sockets[i] if sockets else i
            first = next_cpu
            for count in threads:
                cpus = CpuSet(range(next_cpu, next_cpu + count))
                cores.append(Core(id=next_cpu, core_id=len(cores), cpus=cpus, package=socket))
                next_cpu += count
            own = range(first, next_cpu)
            of_socket.setdefault(socket, []).extend(own)
            pools = (HugepagePool(page_bytes=2 * MIB, count=hugepages),) if hugepages else ()
            memory.append(MemoryNode(id=i, cpus=CpuSet(own), memory_bytes=NODE_BYTES, hugepages=pools))
        return Machine(
            name="small",
            online=CpuSet(range(next_cpu)),
            cores=tuple(cores),
            packages=tuple(Package(id=i, cpus=CpuSet(cpus)) for i, cpus in sorted(of_socket.items())),
            nodes=tuple(memory),
            distances=tuple(tuple(10 if i == j else 21 for j in range(len(nodes))) for i in range(len(nodes))),
        )

    def uneven(self, rng: random.Random) -> Machine:
        """Hybrid cores, threads that are offline, sockets and nodes of different sizes."""
        sockets: list[int] = []
        for socket in range(rng.randint(1, 3)):
            sockets += [socket] * rng.choice([1, 1, 2, 3])
        most = rng.choice([1, 2, 2, 4])
        nodes = [[rng.randint(1, most) for _ in range(rng.randint(1, 5))] for _ in sockets]
        return self.machine(*nodes, sockets=sockets)

    def hub(
        self,
        machine: Machine,
        *,
        exact: bool = False,
        options: Sequence[str] = (),
        reserved: str = "0",
        memory: bool = False,
        topology: str = "none",
        scope: str = "container",
        nics: Sequence[int | None] = (),
        limited: bool = True,
        max_pods: int = 110,
        cpu_policy: str = "static",
    ) -> Hub:
        """A node. `memory`: Memory manager Static with 1 GiB reserved on node 0; `nics`: the node of each device."""
        configuration = KubeletConfiguration(
            cpu_manager_policy=cpu_policy,
            cpu_manager_policy_options=dict.fromkeys(options, "true"),
            topology_manager_policy=topology,
            topology_manager_scope=scope,
            memory_manager_policy="Static" if memory else "None",
            reserved_system_cpus=CpuSet.parse(reserved),
            reserved_memory=(ReservedMemory(node=0, limits={"memory": GIB}),),
            system_reserved={"memory": GIB - 100 * MIB},
            feature_gates={"CPUManagerPolicyAlphaOptions": True},
            max_pods=max_pods,
        )
        units = tuple(
            DeviceUnit(id=f"nic{i}", nodes=None if node is None else NodeSet([node])) for i, node in enumerate(nics)
        )
        setup = NodeSetup(
            configuration=configuration,
            devices={self.nic: units} if units else {},
            allocatable=node_allocatable(machine, configuration) if limited else {},
            exact=exact,
        )
        return Hub(machine, KubeletPolicy(machine, setup), [CpuResource(), MemoryResource(), DeviceResource()])

    def container(
        self,
        name: str = "main",
        *,
        cpus: float = 1,
        memory: int = MIB,
        nics: int = 0,
        huge: int = 0,
        init: bool = False,
    ) -> Request:
        """A container of a Guaranteed pod."""
        milli = round(cpus * 1000)
        return Request(
            name=name,
            cpu_milli=milli,
            cpu_limit_milli=milli,
            memory_bytes=memory,
            memory_limit_bytes=memory,
            devices={self.nic: nics} if nics else {},
            hugepages={2 * MIB: huge} if huge else {},
            init=init,
        )

    def pod(self, uid: str, *containers: Request) -> Pod:
        """A pod whose containers are told apart by their `init`."""
        return Pod(
            uid=uid,
            name=uid,
            init=tuple(c for c in containers if c.init),
            containers=tuple(c for c in containers if not c.init),
        )

    def guaranteed(self, uid: str, cpus: float, memory: int = MIB, nics: int = 0) -> Pod:
        """A pod of one container."""
        return self.pod(uid, self.container(cpus=cpus, memory=memory, nics=nics))

    def burstable(self, uid: str, milli: int = 100, memory: int = MIB) -> Pod:
        """A pod of one container that runs on shared CPUs."""
        return self.pod(uid, Request(name="main", cpu_milli=milli, memory_bytes=memory))


@pytest.fixture(scope="session")
def build() -> Build:
    """See `Build`."""
    return Build()
