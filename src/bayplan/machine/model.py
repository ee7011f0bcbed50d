"""The hardware of one node as a plain, frozen value.

Readers (`sysfs`, `hwloc`, presets, saved files) make it; everything that decides only reads it. It never holds what
would identify a machine (serial numbers, addresses of network cards). Units: bytes, kHz (as sysfs), nanoseconds,
MiB/s (as the kernel's HMAT attributes).

Words follow the kernel: Documentation/admin-guide/cputopology.rst (package, die, cluster, core),
Documentation/admin-guide/mm/numaperf.rst (initiator, access class, memory-side cache),
Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers (tier).
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec

from bayplan.idset import CpuSet, NodeSet

MemoryKind = Literal["dram", "hbm", "pmem", "cxl", "gpu", "unknown"]
CacheKind = Literal["data", "instruction", "unified"]
DeviceKind = Literal["gpu", "accelerator", "network", "storage", "bridge", "other"]


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A processor package (socket). `cpus`: its online CPUs."""

    id: int
    cpus: CpuSet
    model: str = ""


class Die(msgspec.Struct, frozen=True, kw_only=True):
    """A die of a package, where the kernel tells dies apart."""

    id: int
    package: int
    cpus: CpuSet


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Cores below the last-level cache that share something (an L2, an L3 tag), where it divides the package."""

    id: int
    cpus: CpuSet


class Core(msgspec.Struct, frozen=True, kw_only=True):
    """A physical core. `id` is its smallest online CPU; `core_id` the number the kernel gives, unique in a die.

    Where the kernel tells no cores every CPU is one, with `core_id` -1; where it tells no packages, `package` is 0 and
    the machine lists none.
    """

    id: int
    core_id: int
    cpus: CpuSet
    package: int
    die: int | None = None
    cluster: int | None = None


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """One CPU cache; `cpus` are the online CPUs that share it. 0 bytes or ways: not known."""

    level: int
    kind: CacheKind
    cpus: CpuSet
    bytes: int
    line_bytes: int = 0
    ways: int = 0


class MemorySideCache(msgspec.Struct, frozen=True, kw_only=True):
    """A cache in front of a memory node (`memory_side_cache/indexN`), such as DRAM before persistent memory."""

    level: int
    bytes: int
    line_bytes: int = 0


class HugepagePool(msgspec.Struct, frozen=True, kw_only=True):
    """Preallocated huge pages of one size on one node."""

    page_bytes: int
    count: int


class MemoryAccess(msgspec.Struct, frozen=True, kw_only=True):
    """What the firmware (HMAT) says of a node as seen from its best initiators. None: not told."""

    read_bandwidth_mibps: int | None = None
    write_bandwidth_mibps: int | None = None
    read_latency_ns: int | None = None
    write_latency_ns: int | None = None


class MemoryNode(msgspec.Struct, frozen=True, kw_only=True):
    """A NUMA node.

    `cpus` are the online CPUs that the kernel counts to it (none for a CPU-less node); `initiators` are the nodes
    whose CPUs reach it best, itself included where it has CPUs. `memory_bytes` includes the huge pages (MemTotal).
    """

    id: int
    cpus: CpuSet
    memory_bytes: int
    kind: MemoryKind = "unknown"
    tier: int | None = None
    hugepages: tuple[HugepagePool, ...] = ()
    initiators: NodeSet = NodeSet()
    access: MemoryAccess | None = None
    side_caches: tuple[MemorySideCache, ...] = ()


class CoreKind(msgspec.Struct, frozen=True, kw_only=True):
    """CPUs of one kind. `capacity` is the kernel's cpu_capacity or ACPI CPPC highest_perf, relative, 0 if not told."""

    name: str
    cpus: CpuSet
    capacity: int = 0


class FrequencyRange(msgspec.Struct, frozen=True, kw_only=True):
    """CPUs that share limits. kHz; 0: not told."""

    cpus: CpuSet
    min_khz: int = 0
    base_khz: int = 0
    max_khz: int = 0


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A PCI device worth placing.

    `address` is domain:bus:device.function. `node` is the NUMA node that the firmware names (None: none named);
    `cpus` are its local CPUs. `resource` is the extended resource under which a device plugin would offer it.
    `links` names the addresses of devices it is linked with directly (NVLink, xe-link).
    """

    address: str
    kind: DeviceKind
    node: int | None = None
    cpus: CpuSet = CpuSet()
    pci_class: int = 0
    vendor: int = 0
    device: int = 0
    name: str = ""
    resource: str = ""
    links: tuple[str, ...] = ()
    virtual_function_of: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something inconsistent that a reader met: where, and what was done about it."""

    place: str
    problem: str


class Machine(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The hardware of one node. Every tuple is sorted by id (caches: level, kind, first CPU; devices: address).

    `distances` has one row a memory node, in the order of `nodes` (ACPI SLIT figures, 10 is local); empty: not told.
    Sets name online CPUs only; `offline` are present CPUs that are switched off.
    """

    name: str
    online: CpuSet
    cores: tuple[Core, ...]
    packages: tuple[Package, ...]
    nodes: tuple[MemoryNode, ...]
    source: str = ""
    architecture: str = ""
    offline: CpuSet = CpuSet()
    isolated: CpuSet = CpuSet()
    nohz_full: CpuSet = CpuSet()
    dies: tuple[Die, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    caches: tuple[Cache, ...] = ()
    distances: tuple[tuple[int, ...], ...] = ()
    core_kinds: tuple[CoreKind, ...] = ()
    frequencies: tuple[FrequencyRange, ...] = ()
    devices: tuple[Device, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def memory_bytes(self) -> int:
        """Memory of all nodes together."""
        return sum(node.memory_bytes for node in self.nodes)

    @cached_property
    def core_of(self) -> dict[int, Core]:
        """CPU -> its core."""
        return {cpu: core for core in self.cores for cpu in core.cpus}

    @cached_property
    def node_of(self) -> dict[int, int]:
        """CPU -> id of its memory node. A CPU that no node claims is missing."""
        return {cpu: node.id for node in self.nodes for cpu in node.cpus}

    @cached_property
    def node_by_id(self) -> dict[int, MemoryNode]:
        """Id -> memory node."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def all_nodes(self) -> NodeSet:
        """The ids of all memory nodes."""
        return NodeSet(node.id for node in self.nodes)

    def caches_at(self, level: int) -> tuple[Cache, ...]:
        """The data or unified caches of a level."""
        return tuple(c for c in self.caches if c.level == level and c.kind != "instruction")

    def nodes_of(self, cpus: CpuSet) -> NodeSet:
        """The memory nodes to which these CPUs belong."""
        return NodeSet(node.id for node in self.nodes if node.cpus.mask & cpus.mask)

    def distance(self, start: int, end: int) -> int | None:
        """SLIT distance between two nodes by id; None where not told."""
        if not self.distances:
            return None
        order = [node.id for node in self.nodes]
        return self.distances[order.index(start)][order.index(end)]
