"""The kubelet's packed allocator: whole NUMA nodes and sockets, L3 caches, cores, single CPUs, fullest first.

Facts: pkg/kubelet/cm/cpumanager/cpu_assignment.go of Kubernetes 1.36; the project's account, chapters 3 and 4.
`Averages` decides what a wholly free socket or core is. The kubelet compares with the machine's average size
(`exact`), so that on uneven machines it claims CPUs that belong to others; Bayplan compares with the element itself.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bayplan.idset import bits
from bayplan.policies.kubelet.topology import CpuTopology

Element = tuple[int, int]
"""An id with its CPUs."""


class AllocationError(Exception):
    """No such CPUs; the text is the kubelet's."""


class CpuOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU manager's options that steer allocation (and hints), as booleans, plus `exact`."""

    full_cores: bool = False
    distribute_nodes: bool = False
    align_by_socket: bool = False
    spread_cores: bool = False
    strict_reservation: bool = False
    align_l3: bool = False
    exact: bool = True


def take_packed(
    topology: CpuTopology,
    available: int,
    count: int,
    *,
    align_l3: bool = False,
    spread: bool = False,
    exact: bool = True,
) -> int:
    """`count` CPUs out of `available` (both as masks). Raises `AllocationError` with the kubelet's words."""
    work = Packing(topology, available, count, exact=exact)
    if count < 1:
        return 0
    if count > work.free.bit_count():
        raise not_enough(count, available)
    return work.run(align_l3=align_l3, spread=spread)


def not_enough(count: int, available: int) -> AllocationError:
    """The kubelet's complaint about too few CPUs."""
    return AllocationError(
        f"not enough cpus available to satisfy request: requested={count}, available={available.bit_count()}"
    )


class Packing:
    """One allocation under way: what is free, what is needed yet, what was taken."""

    __slots__ = ("_exact", "_topology", "free", "need", "result")

    def __init__(self, topology: CpuTopology, available: int, count: int, *, exact: bool) -> None:
        self._topology = topology
        self._exact = exact
        self.free = available & topology.all
        self.need = count
        self.result = 0

    def run(self, *, align_l3: bool, spread: bool) -> int:
        """Go through the kubelet's steps until nothing is needed."""
        t = self._topology
        first, second = (self._nodes, self._sockets) if t.numa_first else (self._sockets, self._nodes)
        for step, size in ((first, t.numa_first), (second, not t.numa_first)):
            if self._whole(step(), 0 if size else t.cpus_per_socket):
                return self.result
        if align_l3 and self._by_l3():
            return self.result
        if not spread and self._whole(self._cores(), t.cpus_per_core):
            return self.result
        return self._single(spread=spread)

    def nodes_in_order(self) -> list[int]:
        """Ids of the NUMA nodes with free CPUs in the order in which the allocator looks at them."""
        return [node for node, _ in self._nodes()]

    def claim(self, cpus: int) -> bool:
        """Take these CPUs; whether that was enough. The kubelet counts them all, even those taken before."""
        self.need -= cpus.bit_count()
        self.result |= cpus
        self.free &= ~cpus
        return self.need < 1

    def _order(self, elements: Iterable[Element]) -> list[Element]:
        free = self.free
        counted = [((free & cpus).bit_count(), i, cpus) for i, cpus in elements if free & cpus]
        counted.sort()
        return [(i, cpus) for _, i, cpus in counted]

    def _nodes(self) -> list[Element]:
        t = self._topology
        if t.numa_first:
            return self._order(t.node_cpus.items())
        return [e for s, cpus in self._sockets() for e in self._order(self._having(t.nodes_in_socket[s], cpus))]

    def _sockets(self) -> list[Element]:
        t = self._topology
        if not t.numa_first:
            return self._order(t.socket_cpus.items())
        return [e for n, cpus in self._nodes() for e in self._order(self._having(t.sockets_in_node[n], cpus))]

    def _cores(self) -> list[Element]:
        t = self._topology
        if t.numa_first:
            return [e for s, cpus in self._sockets() for e in self._order(self._having(t.cores_in_socket[s], cpus))]
        return [e for n, cpus in self._nodes() for e in self._order(self._having(t.cores_in_node[n], cpus))]

    def _l3s(self) -> list[Element]:
        inside = self._topology.l3s_in_node
        return [e for n, cpus in self._nodes() for e in self._order(self._having(inside[n], cpus))]

    def _having(self, elements: list[Element], within: int) -> list[Element]:
        """The elements with a free CPU inside `within`."""
        free = self.free & within
        return [e for e in elements if free & e[1]]

    def _whole(self, ordered: list[Element], average: int) -> bool:
        """Claim wholly free elements that fit in what is needed. `average` 0: an element's own size is what counts."""
        free = self.free
        sized = average if self._exact else 0
        wholly = [e for e in ordered if (free & e[1]).bit_count() == (sized or e[1].bit_count())]
        for _, cpus in wholly:
            if not self._exact and cpus & ~self.free:
                continue
            if self.need >= cpus.bit_count() and self.claim(cpus):
                return True
        return False

    def _by_l3(self) -> bool:
        t = self._topology
        per_l3 = t.cpus_per_l3
        for l3, cpus in self._l3s():
            if self.need >= per_l3 and self._whole(self._l3s(), 0):
                return True
            part = self._part_of_l3(l3, cpus)
            if part and self.claim(part):
                return True
        return False

    def _part_of_l3(self, l3: int, cpus: int) -> int:
        """CPUs of the L3's lowest cores with room, if they come out at just what is needed; else 0."""
        t = self._topology
        inside = self.free & cpus
        wanted = -(-self.need // t.cpus_per_core)
        cores = [core for _, core in t.cores_in_l3[l3] if core & inside][:wanted]
        chosen = 0
        for core in cores:
            chosen |= core & self.free
        if self.need % 2 and t.cpus_per_core > 1 and chosen.bit_count() > self.need:
            chosen ^= 1 << (chosen.bit_length() - 1)
        return chosen if chosen.bit_count() == self.need else 0

    def _single(self, *, spread: bool) -> int:
        groups = self._sockets() if spread else self._cores()
        for cpu in [cpu for _, cpus in groups for cpu in bits(cpus & self.free)]:
            if self.claim(1 << cpu):
                return self.result
        raise AllocationError("failed to allocate cpus")
