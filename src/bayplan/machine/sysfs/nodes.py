"""Memory (NUMA) nodes: their CPUs, memory, distances, huge pages, initiators and access figures.

Never invents locality: a node without CPUs has none of its own, and its initiators are those that the firmware names,
or else the nearest by the distances the kernel gives. Facts: Documentation/ABI/stable/sysfs-devices-node;
Documentation/admin-guide/mm/numaperf.rst; Documentation/admin-guide/mm/hugetlbpage.rst.
"""

from __future__ import annotations

import re

import msgspec

from bayplan.errors import shorten
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine.model import HugepagePool, MemoryAccess, MemoryNode, MemorySideCache
from bayplan.machine.sysfs.cpus import CPU
from bayplan.machine.sysfs.facts import LARGEST, MAX_NODES, Facts
from bayplan.machine.sysfs.memory_kinds import name_kinds
from bayplan.quantity import format_size

NODE = "sys/devices/system/node"
TIERS = "sys/devices/virtual/memory_tiering"
MEMINFO = "proc/meminfo"
MAX_DISTANCE = 65_535
_MEM_TOTAL = re.compile(r"MemTotal:\s+(\d{1,19})\s+kB", re.ASCII)
_HUGEPAGES = re.compile(r"hugepages-(\d{1,12})kB", re.ASCII)

Distances = tuple[tuple[int, ...], ...]


def read_nodes(facts: Facts, online: CpuSet, offline: CpuSet) -> tuple[tuple[MemoryNode, ...], Distances]:
    """Nodes by id, and their distances (empty: not told). A machine without node folders is one node, 0."""
    ids = facts.numbered(NODE, "node", MAX_NODES - 1)
    if not ids:
        return (_whole_machine(facts, online),), ()
    cpus = _read_node_cpus(facts, ids, online)
    distances = _read_distances(facts, ids)
    tiers = _read_tiers(facts)
    nodes = [
        MemoryNode(
            id=node,
            cpus=cpus[node],
            memory_bytes=_memory(facts, f"{NODE}/node{node}/meminfo"),
            tier=tiers.get(node),
            hugepages=_read_hugepages(facts, f"{NODE}/node{node}/hugepages"),
            side_caches=_read_side_caches(facts, node),
        )
        for node in ids
    ]
    _compare_memory(facts, sum(node.memory_bytes for node in nodes))
    nodes = [_with_initiators(facts, node, nodes, distances) for node in nodes]
    homes = _homes(facts, offline) if not all(node.cpus for node in nodes) else frozenset()
    return name_kinds(facts, nodes, homes), distances


def _whole_machine(facts: Facts, online: CpuSet) -> MemoryNode:
    return MemoryNode(
        id=0,
        cpus=online,
        memory_bytes=_memory(facts, MEMINFO),
        kind="dram",
        hugepages=_read_hugepages(facts, "sys/kernel/mm/hugepages"),
        initiators=NodeSet((0,)),
    )


def _read_node_cpus(facts: Facts, ids: tuple[int, ...], online: CpuSet) -> dict[int, CpuSet]:
    """Online CPUs by node; a CPU that two nodes claim stays with the first."""
    free = online
    cpus = {}
    for node in ids:
        folder = f"{NODE}/node{node}"
        claimed = (facts.cpus(f"{folder}/cpumap", f"{folder}/cpulist") or CpuSet()) & online
        cpus[node] = claimed & free
        if cpus[node] != claimed:
            facts.note(folder, f"CPUs {claimed - free} belong to an earlier node too and stay with that one")
        free = free - claimed
    if free:
        facts.note(NODE, f"CPUs {free} belong to no memory node")
    return cpus


def _homes(facts: Facts, offline: CpuSet) -> frozenset[int]:
    """Nodes to which offline CPUs belong; their maps no longer tell, the links in the CPUs' folders do."""
    return frozenset(node for cpu in offline for node in facts.numbered(f"{CPU}/cpu{cpu}", "node", MAX_NODES - 1))


def _memory(facts: Facts, path: str) -> int:
    """MemTotal in bytes, 0 where it is not told."""
    found = _MEM_TOTAL.search(facts.text(path) or "")
    total = int(found.group(1)) * 1024 if found else None
    if total is None or total > LARGEST:
        facts.note(path, "no MemTotal in kB here, or an impossible one; taken as no memory")
        return 0
    return total


def _compare_memory(facts: Facts, total: int) -> None:
    """Note where the nodes' memory is far from what the kernel has in all: plans would rest on the wrong figure."""
    found = _MEM_TOTAL.search(facts.text(MEMINFO) or "")
    told = int(found.group(1)) * 1024 if found else total
    if abs(told - total) > max(told, total) // 10:
        facts.note(NODE, f"the nodes have {format_size(total)} together, {MEMINFO} tells of {format_size(told)}")


def _read_distances(facts: Facts, ids: tuple[int, ...]) -> Distances:
    """One row a node, or nothing at all where any row is missing or does not fit."""
    rows = []
    for node in ids:
        path = f"{NODE}/node{node}/distance"
        content = facts.text(path)
        if content is None:
            return ()
        words = content.split(maxsplit=len(ids))
        row = tuple(int(word) for word in words if word.isascii() and word.isdigit() and len(word) <= 5)
        if len(words) != len(ids) or len(row) != len(ids) or not 0 < min(row) <= max(row) <= MAX_DISTANCE:
            expected = f"{len(ids)} numbers from 1 to {MAX_DISTANCE}"
            facts.note(path, f"{shorten(content[:200])} are not {expected}; distances are left out")
            return ()
        rows.append(row)
    return tuple(rows)


def _read_tiers(facts: Facts) -> dict[int, int]:
    """Memory tier by node (Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers); a lower tier is faster."""
    tiers: dict[int, int] = {}
    for tier in facts.numbered(TIERS, "memory_tier", 2**20):
        for node in facts.node_list(f"{TIERS}/memory_tier{tier}/nodelist") or ():
            if node in tiers:
                facts.note(TIERS, f"node {node} is in tiers {tiers[node]} and {tier}; the first is used")
            tiers.setdefault(node, tier)
    return tiers


def _read_hugepages(facts: Facts, folder: str) -> tuple[HugepagePool, ...]:
    """A pool for each page size that the kernel supports, empty ones too."""
    pools = []
    for name in facts.tree.list(folder):
        size = _HUGEPAGES.fullmatch(name)
        count = facts.number(f"{folder}/{name}/nr_hugepages", most=2**40) if size else None
        if size and int(size.group(1)) and count is not None:
            pools.append(HugepagePool(page_bytes=int(size.group(1)) * 1024, count=count))
    return tuple(sorted(pools, key=lambda pool: pool.page_bytes))


def _read_side_caches(facts: Facts, node: int) -> tuple[MemorySideCache, ...]:
    folder = f"{NODE}/node{node}/memory_side_cache"
    caches = []
    for level in facts.numbered(folder, "index", 9):
        size = facts.number(f"{folder}/index{level}/size")
        line = facts.number(f"{folder}/index{level}/line_size", most=2**20)
        if size:
            caches.append(MemorySideCache(level=level, bytes=size, line_bytes=line or 0))
    return tuple(caches)


def _with_initiators(facts: Facts, node: MemoryNode, nodes: list[MemoryNode], distances: Distances) -> MemoryNode:
    """Add whose CPUs reach the node best, and what the firmware says of that path.

    Class 1 counts CPUs only; class 0 may name a device as the best initiator (numaperf.rst), whose figures are not
    what a CPU would see. So class 1 comes first, and class 0 serves kernels that have nothing else.
    """
    with_cpus = NodeSet(n.id for n in nodes if n.cpus)
    own = NodeSet((node.id,)) & with_cpus
    for access in ("access1", "access0"):
        folder = f"{NODE}/node{node.id}/{access}/initiators"
        named = NodeSet(facts.numbered(folder, "node", MAX_NODES - 1)) & with_cpus
        if named:
            figures = _read_access(facts, folder)
            return msgspec.structs.replace(node, initiators=named | own, access=figures)
    return msgspec.structs.replace(node, initiators=own or _nearest(node.id, nodes, distances))


def _read_access(facts: Facts, folder: str) -> MemoryAccess | None:
    """Bandwidth in MiB/s and latency in ns; the kernel writes 0 for what the firmware does not tell."""
    figures = MemoryAccess(
        read_bandwidth_mibps=facts.number(f"{folder}/read_bandwidth", most=2**40) or None,
        write_bandwidth_mibps=facts.number(f"{folder}/write_bandwidth", most=2**40) or None,
        read_latency_ns=facts.number(f"{folder}/read_latency", most=2**40) or None,
        write_latency_ns=facts.number(f"{folder}/write_latency", most=2**40) or None,
    )
    return None if figures == MemoryAccess() else figures


def _nearest(node: int, nodes: list[MemoryNode], distances: Distances) -> NodeSet:
    """Nodes with CPUs at the smallest distance; none where distances are not told."""
    if not distances:
        return NodeSet()
    at = next(i for i, n in enumerate(nodes) if n.id == node)
    reach = {n.id: distances[i][at] for i, n in enumerate(nodes) if n.cpus}
    return NodeSet(n for n, distance in reach.items() if distance == min(reach.values()))
