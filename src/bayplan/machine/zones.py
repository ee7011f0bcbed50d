"""The tree of zones of a machine: machine, packages, dies, NUMA nodes, last-level caches, cores.

Built by inclusion of CPU sets and by nothing else, because hardware has no fixed order: a NUMA node may hold several
packages, or lie inside one. Zones of the same CPUs nest in the order of the sentence above. A last-level cache is a
zone only where it divides its node and holds more than one core. A set that splits a core, or crosses a larger one
(firmware does that), gets no zone; its memory belongs to the smallest zone that holds all of its CPUs.

So these hold for every machine: children are disjoint and inside their parent, every CPU is in exactly one core zone,
every memory node and every device belongs to exactly one zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from bayplan.idset import CpuSet, NodeSet
from bayplan.machine.model import Cache, Device, Machine, MemoryNode

ZoneKind = Literal["machine", "package", "die", "node", "cache", "core"]
_RANK: dict[ZoneKind, int] = {"machine": 0, "package": 1, "die": 2, "node": 3, "cache": 4, "core": 5}


class Zone(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a machine.

    `nodes` and `devices` are all inside, at any depth; `own_nodes` and `own_devices` those that belong here and to no
    child. `id` is the kernel's number (a cache has its first CPU). `path` leads here from the machine: positions
    among children, so `()` is the machine itself.
    """

    kind: ZoneKind
    id: int
    label: str
    path: tuple[int, ...]
    cpus: CpuSet
    nodes: NodeSet
    devices: tuple[Device, ...]
    own_nodes: NodeSet
    own_devices: tuple[Device, ...]
    children: tuple[Zone, ...]

    @property
    def parent(self) -> tuple[int, ...] | None:
        """The path of the zone around this one; None for the machine."""
        return self.path[:-1] if self.path else None

    def walk(self) -> Iterator[Zone]:
        """This zone and all inside, the outer before the inner."""
        yield self
        for child in self.children:
            yield from child.walk()

    def at(self, path: tuple[int, ...]) -> Zone:
        """The zone at a path from this one. Raises `IndexError` if there is none."""
        zone = self
        for position in path:
            zone = zone.children[position]
        return zone

    def smallest(self, cpus: CpuSet) -> Zone:
        """The smallest zone here that holds all of these CPUs; this one if none does, or there are none."""
        zone = self
        while cpus:
            inner = next((child for child in zone.children if cpus <= child.cpus), None)
            if inner is None:
                break
            zone = inner
        return zone


class _Draft:
    """A zone while the tree is built."""

    __slots__ = ("children", "cpus", "devices", "id", "kind", "label", "nodes")

    def __init__(self, kind: ZoneKind, number: int, label: str, cpus: CpuSet) -> None:
        self.kind, self.id, self.label, self.cpus = kind, number, label, cpus
        self.children: list[_Draft] = []
        self.nodes = 0
        self.devices: list[Device] = []


def build_zones(machine: Machine) -> Zone:
    """The machine as a tree of zones. Linear in CPUs for each kind of zone."""
    root = _Draft("machine", 0, "machine", machine.online)
    owner = dict.fromkeys(machine.online, root)
    for draft in sorted(_groups(machine), key=lambda d: (-len(d.cpus), _RANK[d.kind], d.cpus.first())):
        _insert(draft, owner)
    for core in machine.cores:
        draft = _Draft("core", core.id, f"core {core.id}", core.cpus)
        owner[core.id].children.append(draft)
    homes = _seat_memory(machine, root)
    for device in machine.devices:
        _home_of(device, homes, root).devices.append(device)
    return _frozen(root, ())


def _groups(machine: Machine) -> Iterator[_Draft]:
    """What may be a zone between the machine and its cores: sets of whole cores."""
    for package in machine.packages:
        yield from _whole(machine, "package", package.id, f"package {package.id}", package.cpus)
    for die in machine.dies:
        yield from _whole(machine, "die", die.id, f"die {die.id}", die.cpus)
    for node in machine.nodes:
        yield from _whole(machine, "node", node.id, f"node {node.id}", node.cpus)
    taken = {zone.cpus.mask for part in (machine.packages, machine.dies, machine.nodes) for zone in part}
    for cache in _last_level(machine.caches):
        first = cache.cpus.first()
        if cache.cpus.mask not in taken and _divides_its_node(machine, cache):
            yield from _whole(machine, "cache", first, f"L{cache.level} {first}", cache.cpus)


def _whole(machine: Machine, kind: ZoneKind, number: int, label: str, cpus: CpuSet) -> Iterator[_Draft]:
    """The draft, unless it has no CPUs or splits a core."""
    joined = 0
    left = cpus.mask
    while left:
        core = machine.core_of[(left & -left).bit_length() - 1].cpus.mask
        joined |= core
        left &= ~core
    if cpus and joined == cpus.mask:
        yield _Draft(kind, number, label, cpus)


def _last_level(caches: Iterable[Cache]) -> list[Cache]:
    """The caches above which there is none."""
    last: list[Cache] = []
    covered = 0
    for cache in sorted((c for c in caches if c.kind != "instruction"), key=lambda c: -c.level):
        if not cache.cpus.mask & covered:
            last.append(cache)
        covered |= cache.cpus.mask
    return last


def _divides_its_node(machine: Machine, cache: Cache) -> bool:
    first = cache.cpus.first()
    number = machine.node_of.get(first)
    around = machine.online if number is None else machine.node_by_id[number].cpus
    return cache.cpus <= around and cache.cpus != around and cache.cpus != machine.core_of[first].cpus


def _insert(draft: _Draft, owner: dict[int, _Draft]) -> None:
    """Put a zone into the smallest one that holds it; `owner` is the innermost zone so far of each CPU.

    Larger sets come first, so CPUs with different owners mean that the set crosses one of them.
    """
    outer = owner[draft.cpus.first()]
    members = list(draft.cpus)
    if any(owner[cpu] is not outer for cpu in members):
        return
    outer.children.append(draft)
    for cpu in members:
        owner[cpu] = draft


def _seat_memory(machine: Machine, root: _Draft) -> dict[int, _Draft]:
    """Give every memory node its zone; the answer is by node id."""
    zones = {draft.id: draft for draft in _drafts(root) if draft.kind == "node"}
    homes = {}
    for node in machine.nodes:
        home = zones.get(node.id) or _smallest(root, node.cpus.mask or _nearest_cpus(machine, node))
        home.nodes |= 1 << node.id
        homes[node.id] = home
    return homes


def _nearest_cpus(machine: Machine, node: MemoryNode) -> int:
    """The CPUs for which a node without any is best: of its initiators, or else of the closest nodes by distance."""
    near = [machine.node_by_id[number].cpus.mask for number in node.initiators if number in machine.node_by_id]
    if not any(near) and machine.distances:
        column = [other.id for other in machine.nodes].index(node.id)
        rows = [(row[column], other.cpus.mask) for other, row in zip(machine.nodes, machine.distances, strict=True)]
        told = [(distance, mask) for distance, mask in rows if mask]
        least = min((distance for distance, _ in told), default=0)
        near = [mask for distance, mask in told if distance == least]
    joined = 0
    for mask in near:
        joined |= mask
    return joined


def _home_of(device: Device, homes: dict[int, _Draft], root: _Draft) -> _Draft:
    if device.node is not None and device.node in homes:
        return homes[device.node]
    return _smallest(root, device.cpus.mask)


def _smallest(root: _Draft, cpus: int) -> _Draft:
    """The smallest zone that holds these CPUs and is no core; the machine for none."""
    draft = root
    while cpus:
        inner = next((d for d in draft.children if d.kind != "core" and not cpus & ~d.cpus.mask), None)
        if inner is None:
            break
        draft = inner
    return draft


def _drafts(draft: _Draft) -> Iterator[_Draft]:
    yield draft
    for child in draft.children:
        yield from _drafts(child)


def _frozen(draft: _Draft, path: tuple[int, ...]) -> Zone:
    """The zone of a draft and, inside it, those of its children in the order of their CPUs."""
    ordered = sorted(draft.children, key=lambda child: child.cpus.first())
    children = tuple(_frozen(child, (*path, position)) for position, child in enumerate(ordered))
    nodes, devices = draft.nodes, list(draft.devices)
    for child in children:
        nodes |= child.nodes.mask
        devices += child.devices
    return Zone(
        kind=draft.kind,
        id=draft.id,
        label=draft.label,
        path=path,
        cpus=draft.cpus,
        nodes=NodeSet.of_mask(nodes),
        devices=tuple(sorted(devices, key=lambda device: device.address)),
        own_nodes=NodeSet.of_mask(draft.nodes),
        own_devices=tuple(draft.devices),
        children=children,
    )
