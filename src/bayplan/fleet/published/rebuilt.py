"""A node rebuilt from numbers by zone, near enough that its kubelet's own rules can be asked.

Each zone becomes a NUMA node with as many CPUs as it has (a core each: cores are not told), its memory and its devices;
what is not for pods is reserved, and what is not available is held by a stand-in pod. Then `single-numa-node`,
`restricted` and the others are the very ones of the kubelet policy. What numbers cannot tell stays unknown: which CPUs
are siblings, and memory that is promised from several nodes together.

CPU and Memory manager count as static where zones tell CPUs and memory, unless the object says otherwise; that may keep
a pod waiting that a kubelet without them would have taken, and binds none that it would refuse. A static policy needs
something reserved: where numbers leave nothing for the system, one CPU and one byte are added to the last zone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bayplan.errors import InputError
from bayplan.fleet.published.layout import HeldPod, Management
from bayplan.fleet.published.node_topology import Amounts, NodeTopology, TopologyZone
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import Machine
from bayplan.machine.check import MAX_CPUS
from bayplan.machine.model import Core, HugepagePool, MemoryNode
from bayplan.policies.kubelet.configuration import KubeletConfiguration, MemoryThreshold, ReservedMemory
from bayplan.policies.kubelet.grants import POOL
from bayplan.quantity import HUGEPAGES
from bayplan.resources.decision import DeviceGrant, Grant, MemoryBlock
from bayplan.resources.devices import DeviceUnit
from bayplan.workload.model import Pod, Request
from bayplan.workload.requirements import page_bytes

STAND_IN = "published-allocations"
"""Uid and name of the pod that holds what the numbers say is held."""
MAX_DEVICES = 65_536
_PLAIN = ("cpu", "memory", "ephemeral-storage", "pods")
_NOTHING = Amounts(capacity=0, allocatable=0, available=0)


class Rebuilt(NamedTuple):
    """A machine, how it is managed, and the stand-in pod with all that is held."""

    machine: Machine
    management: Management
    held: HeldPod


class _Cpus(NamedTuple):
    """CPUs of one zone: all, those that are reserved, those that somebody has."""

    all: CpuSet
    reserved: CpuSet
    held: CpuSet


def rebuild(topology: NodeTopology) -> Rebuilt:
    """The node behind the numbers. Raises `InputError` for numbers that no machine has."""
    cpus = _cpus(topology.zones)
    machine = Machine(
        name="published",
        online=_union(part.all for part in cpus),
        cores=tuple(Core(id=c, core_id=c, cpus=CpuSet([c]), package=0) for part in cpus for c in part.all),
        packages=(),
        nodes=tuple(_memory_node(z, part, topology) for z, part in zip(topology.zones, cpus, strict=True)),
        distances=_distances(topology.zones),
    )
    devices, held_devices = _devices(topology.zones)
    management = Management(mode="safe", configuration=_configuration(topology, cpus), devices=devices)
    return Rebuilt(machine, management, _stand_in(topology, cpus, held_devices))


def _cpus(zones: tuple[TopologyZone, ...]) -> list[_Cpus]:
    counts = [_whole(zone.resources.get("cpu", _NOTHING)) for zone in zones]
    if sum(count.capacity for count in counts) == 0:
        counts = [Amounts(capacity=1, allocatable=0, available=0) for _ in zones]  # a machine has CPUs
    if all(count.allocatable == count.capacity for count in counts):
        last = counts[-1]
        counts[-1] = Amounts(capacity=last.capacity + 1, allocatable=last.allocatable, available=last.available)
    if sum(count.capacity for count in counts) > MAX_CPUS:
        raise InputError("too many CPUs", place="zones", expected=f"at most {MAX_CPUS}")
    parts, first = [], 0
    for count in counts:
        end = first + count.capacity
        reserved = CpuSet(range(first, end - count.allocatable))
        held = CpuSet(range(end - count.allocatable + count.available, end))
        parts.append(_Cpus(CpuSet(range(first, end)), reserved, held))
        first = end
    return parts


def _whole(amounts: Amounts) -> Amounts:
    """Whole CPUs, and never more for pods than there are, nor more available than for pods."""
    capacity = amounts.capacity // 1000
    allocatable = min(capacity, amounts.allocatable // 1000)
    return Amounts(capacity=capacity, allocatable=allocatable, available=min(allocatable, amounts.available // 1000))


def _clamped(amounts: Amounts) -> Amounts:
    allocatable = min(amounts.capacity, amounts.allocatable)
    return Amounts(capacity=amounts.capacity, allocatable=allocatable, available=min(allocatable, amounts.available))


def _memory_node(zone: TopologyZone, cpus: _Cpus, topology: NodeTopology) -> MemoryNode:
    pools, huge = [], 0
    for name, amounts in sorted(zone.resources.items()):
        if name.startswith(HUGEPAGES):
            page = page_bytes(name)
            pools.append(HugepagePool(page_bytes=page, count=amounts.capacity // page))
            huge += page * pools[-1].count
    memory = _clamped(zone.resources.get("memory", _NOTHING))
    whole = memory.allocatable + huge + _reserved_memory(zone, topology)
    return MemoryNode(
        id=zone.id, cpus=cpus.all, memory_bytes=whole, hugepages=tuple(sorted(pools, key=lambda p: p.page_bytes))
    )


def _reserved_memory(zone: TopologyZone, topology: NodeTopology) -> int:
    """What a zone keeps from pods; huge pages are in its capacity, and not in what is for pods."""

    def kept(one: TopologyZone) -> int:
        huge = sum(a.capacity for name, a in one.resources.items() if name.startswith(HUGEPAGES))
        memory = _clamped(one.resources.get("memory", _NOTHING))
        return max(0, memory.capacity - memory.allocatable - huge)

    told = any(name == "memory" or name.startswith(HUGEPAGES) for one in topology.zones for name in one.resources)
    nothing_anywhere = told and not any(kept(one) for one in topology.zones)
    return 1 if nothing_anywhere and zone is topology.zones[-1] else kept(zone)


def _configuration(topology: NodeTopology, cpus: list[_Cpus]) -> KubeletConfiguration:
    told = {name for zone in topology.zones for name in zone.resources}
    in_memory = any(name == "memory" or name.startswith(HUGEPAGES) for name in told)
    cpu_policy = topology.cpu_policy or ("static" if "cpu" in told else "none")
    memory_policy = topology.memory_policy or ("Static" if in_memory else "None")
    reserved = tuple(
        ReservedMemory(node=zone.id, limits={kind: amount for kind, amount in _kept(zone, topology).items() if amount})
        for zone in topology.zones
    )
    kinds = {kind for entry in reserved for kind in entry.limits}
    return KubeletConfiguration(
        cpu_manager_policy=cpu_policy,
        topology_manager_policy=topology.policy,
        topology_manager_scope=topology.scope,
        memory_manager_policy=memory_policy,
        reserved_system_cpus=_union(part.reserved for part in cpus),
        reserved_memory=reserved,
        system_reserved={kind: sum(entry.limits.get(kind, 0) for entry in reserved) for kind in kinds},
        eviction_hard=MemoryThreshold(),
    )


def _kept(zone: TopologyZone, topology: NodeTopology) -> dict[str, int]:
    kept = {"memory": _reserved_memory(zone, topology)}
    for name, amounts in zone.resources.items():
        if name.startswith(HUGEPAGES):
            page = page_bytes(name)
            kept[name] = amounts.capacity // page * page - _clamped(amounts).allocatable
    return {name: max(0, amount) for name, amount in kept.items()}


def _devices(zones: tuple[TopologyZone, ...]) -> tuple[dict[str, tuple[DeviceUnit, ...]], dict[str, tuple[str, ...]]]:
    """All devices by resource, and the ids of those that are held."""
    units: dict[str, list[DeviceUnit]] = {}
    held: dict[str, list[str]] = {}
    for zone in zones:
        for name, told in zone.resources.items():
            if name in _PLAIN or name.startswith(HUGEPAGES):
                continue
            amounts = _clamped(told)
            if amounts.capacity + sum(len(own) for own in units.values()) > MAX_DEVICES:
                raise InputError("too many devices", place=f"zones[{zone.name}]", expected=f"at most {MAX_DEVICES}")
            own = units.setdefault(name, [])
            for i in range(amounts.capacity):
                unit = DeviceUnit(id=f"{zone.name}-{i:05}", nodes=NodeSet([zone.id]), healthy=i < amounts.allocatable)
                own.append(unit)
                if amounts.available <= i < amounts.allocatable:
                    held.setdefault(name, []).append(unit.id)
    return {name: tuple(own) for name, own in units.items()}, {name: tuple(ids) for name, ids in held.items()}


def _stand_in(topology: NodeTopology, cpus: list[_Cpus], devices: dict[str, tuple[str, ...]]) -> HeldPod:
    """It asks for nothing, so that it counts for nothing where requests are added up."""
    config = _configuration(topology, cpus)
    exclusive = _union(part.held for part in cpus) if config.cpu_manager_policy == "static" else CpuSet()
    blocks = [
        MemoryBlock(type=kind, nodes=NodeSet([zone.id]), bytes=amounts.allocatable - amounts.available)
        for zone in topology.zones
        for kind, amounts in ((kind, _clamped(told)) for kind, told in zone.resources.items())
        if (kind == "memory" or kind.startswith(HUGEPAGES)) and amounts.available < amounts.allocatable
    ]
    grant = Grant(
        pod=STAND_IN,
        container=STAND_IN,
        exclusive=exclusive,
        pool="" if exclusive else POOL,
        memory=tuple(blocks) if config.memory_manager_policy == "Static" else (),
        memory_nodes=NodeSet(zone.id for zone in topology.zones),
        devices=tuple(DeviceGrant(resource=name, ids=ids) for name, ids in sorted(devices.items())),
    )
    pod = Pod(uid=STAND_IN, name=STAND_IN, namespace="kube-system", containers=(Request(name=STAND_IN),))
    return HeldPod(pod=pod, grants=(grant,))


def _distances(zones: tuple[TopologyZone, ...]) -> tuple[tuple[int, ...], ...]:
    """The table, where every zone tells its distance to every other."""
    names = [zone.name for zone in zones]
    if not all(set(names) <= zone.costs.keys() for zone in zones):
        return ()
    return tuple(tuple(zone.costs[name] for name in names) for zone in zones)


def _union(sets: Iterable[CpuSet]) -> CpuSet:
    joined = CpuSet()
    for cpus in sets:
        joined |= cpus
    return joined
