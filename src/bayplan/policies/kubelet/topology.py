"""The machine as the kubelet's CPU manager sees it.

The kubelet learns its machine from cadvisor: online CPUs only, cores grouped within a NUMA node, an L3 cache told
apart only where it divides its node. Facts: pkg/kubelet/cm/cpumanager/topology of Kubernetes 1.36 and cadvisor's
machine info; the project's account of the kubelet, chapter 1.

Sets are plain ints here (bit i is CPU i): the allocators live in inner loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

import msgspec

from bayplan.idset import bits
from bayplan.machine import Machine


class SeenCpu(msgspec.Struct, frozen=True):
    """One logical CPU: its number, socket, NUMA node, core number (unique in both), L3 (-1: not told apart)."""

    cpu: int
    socket: int
    node: int
    core: int
    l3: int = -1


class CpuTopology:
    """CPUs by node, socket, core and L3, as int masks, with the kubelet's average sizes.

    A core's id is its smallest CPU, an L3's id the cache's number or the socket's where it is not told apart.
    `cpus_per_core`, `cpus_per_socket` and `cpus_per_l3` are integer divisions over the whole machine; on uneven
    machines they are wrong for some element, which is where the kubelet's defects come from. `cpu_count` and
    `socket_count` are what cadvisor reports, where that is not what the CPUs add up to.
    """

    def __init__(
        self, cpus: Iterable[SeenCpu], *, cpu_count: int | None = None, socket_count: int | None = None
    ) -> None:
        seen = sorted(cpus, key=lambda c: c.cpu)
        groups: dict[tuple[int, int, int], int] = {}
        self.all = 0
        self.node_cpus: dict[int, int] = {}
        self.socket_cpus: dict[int, int] = {}
        self.core_cpus: dict[int, int] = {}
        self.l3_cpus: dict[int, int] = {}
        for c in seen:
            bit = 1 << c.cpu
            core = groups.setdefault((c.node, c.socket, c.core), c.cpu)
            l3 = c.l3 if c.l3 >= 0 else c.socket
            self.all |= bit
            for table, key in (
                (self.node_cpus, c.node),
                (self.socket_cpus, c.socket),
                (self.core_cpus, core),
                (self.l3_cpus, l3),
            ):
                table[key] = table.get(key, 0) | bit
        self.node_cpus = dict(sorted(self.node_cpus.items()))
        count = cpu_count or len(seen)
        self.socket_count = socket_count or len(self.socket_cpus)
        self.cpus_per_core = count // max(1, len(self.core_cpus))
        self.cpus_per_socket = count // max(1, self.socket_count)
        self.cpus_per_l3 = count // max(1, len(self.l3_cpus))

    @property
    def node_count(self) -> int:
        """NUMA nodes that have CPUs."""
        return len(self.node_cpus)

    @cached_property
    def numa_first(self) -> bool:
        """Whether a NUMA node is taken as at least as large as a socket (also where there are equally many)."""
        return self.socket_count >= self.node_count

    @cached_property
    def sockets_in_node(self) -> dict[int, list[tuple[int, int]]]:
        """Node -> (socket, its CPUs anywhere) for the sockets with CPUs in it, by socket id."""
        return _inside(self.node_cpus, self.socket_cpus)

    @cached_property
    def nodes_in_socket(self) -> dict[int, list[tuple[int, int]]]:
        """Socket -> (node, its CPUs anywhere)."""
        return _inside(self.socket_cpus, self.node_cpus)

    @cached_property
    def cores_in_socket(self) -> dict[int, list[tuple[int, int]]]:
        """Socket -> (core, its CPUs)."""
        return _inside(self.socket_cpus, self.core_cpus)

    @cached_property
    def cores_in_node(self) -> dict[int, list[tuple[int, int]]]:
        """Node -> (core, its CPUs)."""
        return _inside(self.node_cpus, self.core_cpus)

    @cached_property
    def l3s_in_node(self) -> dict[int, list[tuple[int, int]]]:
        """Node -> (L3, its CPUs anywhere)."""
        return _inside(self.node_cpus, self.l3_cpus)

    @cached_property
    def cores_in_l3(self) -> dict[int, list[tuple[int, int]]]:
        """L3 -> (core, its CPUs), by core id."""
        return _inside(self.l3_cpus, self.core_cpus)

    def nodes_of(self, cpus: int) -> int:
        """The NUMA nodes of these CPUs, as a mask of node ids."""
        nodes = 0
        for node, mask in self.node_cpus.items():
            if mask & cpus:
                nodes |= 1 << node
        return nodes

    def cpus_of_nodes(self, nodes: int) -> int:
        """All CPUs of a mask of nodes."""
        cpus = 0
        for node, mask in self.node_cpus.items():
            if nodes >> node & 1:
                cpus |= mask
        return cpus

    def sockets_of_nodes(self, nodes: int) -> set[int]:
        """The sockets with a CPU in one of these nodes."""
        cpus = self.cpus_of_nodes(nodes)
        return {socket for socket, mask in self.socket_cpus.items() if mask & cpus}

    def cpus_of_their_sockets(self, nodes: int) -> int:
        """All CPUs of every socket that has a CPU in one of these nodes."""
        cpus = 0
        for socket in self.sockets_of_nodes(nodes):
            cpus |= self.socket_cpus[socket]
        return cpus

    def whole_cores(self, cpus: int) -> int:
        """All threads of every core that has one of these CPUs."""
        grown = 0
        for mask in self.core_cpus.values():
            if mask & cpus:
                grown |= mask
        return grown


def topology_of(machine: Machine) -> CpuTopology:
    """What cadvisor would tell the kubelet of this machine.

    A core is what has one core number in one package of a node; a CPU that no memory node claims counts to the first
    node, as on a machine without NUMA. An L3 counts as the node's own if as many CPUs share it as the node would have
    if all of its cores were like the core looked at; otherwise it is told apart (cadvisor's addCacheInfo).
    """
    first = machine.nodes[0].id if machine.nodes else 0
    node_of = machine.node_of
    cores: dict[tuple[int, int, int], list[int]] = {}
    for core in machine.cores:
        number = core.core_id if core.core_id >= 0 else core.id
        for cpu in core.cpus:
            cores.setdefault((node_of.get(cpu, first), core.package, number), []).append(cpu)
    in_node = Counter(node for node, _, _ in cores)
    l3_of = {cpu: (number, len(cache.cpus)) for number, cache in enumerate(machine.caches_at(3)) for cpu in cache.cpus}
    seen = []
    for (node, package, number), threads in cores.items():
        l3, sharers = l3_of.get(threads[0], (-1, 0))
        apart = l3 if sharers != in_node[node] * len(threads) else -1
        seen += [SeenCpu(cpu, package, node, number, apart) for cpu in threads]
    return CpuTopology(seen)


def _inside(outer: dict[int, int], inner: dict[int, int]) -> dict[int, list[tuple[int, int]]]:
    """For each outer element the inner ones that have a CPU in it, by id. Outer elements have no CPU in common."""
    owner = {cpu: key for key, cpus in outer.items() for cpu in bits(cpus)}
    found: dict[int, list[tuple[int, int]]] = {key: [] for key in outer}
    for element in sorted(inner.items()):
        for key in dict.fromkeys(owner[cpu] for cpu in bits(element[1])):
            found[key].append(element)
    return found
