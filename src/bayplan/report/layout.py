"""A machine as nested boxes, the one shape that every picture of it draws.

Boxes nest by their CPUs, not by a fixed order, because hardware has none: a NUMA node may hold several packages, a
last-level cache may hold several NUMA nodes (sub-NUMA clustering) or the other way round. Sets that cross (buggy
firmware) are cut where they cross. Whatever the machine says, every online CPU is in exactly one core box.

Nothing here knows of text or pixels. It reads a `Machine` and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import Cache, Device, Machine, MemoryNode
from bayplan.report.words import cache_title

BoxKind = Literal["machine", "package", "die", "node", "cache"]
# Of sets with the same CPUs the first named here is outside.
_RANK: dict[BoxKind, int] = {"machine": 0, "package": 1, "die": 2, "node": 3, "cache": 4}


class CoreBox(msgspec.Struct, frozen=True):
    """A core: its CPUs, ascending, and the mark of its kind (`P`, `E`; empty where all cores are of one kind)."""

    cpus: tuple[int, ...]
    kind: str = ""


class Box(msgspec.Struct):
    """A box with what is directly in it. `cpus` is all CPUs inside, at any depth.

    `label` is a package's model, or the smaller caches that the same CPUs share. `node` or `cache` is given for boxes
    of that kind; `memory` are nodes without CPUs that belong here, `devices` those whose nearest place this is. `part`:
    the set was cut because it crosses another.
    """

    kind: BoxKind
    id: int
    cpus: CpuSet
    label: str = ""
    node: MemoryNode | None = None
    cache: Cache | None = None
    part: bool = False
    children: list[Box] = []
    cores: list[CoreBox] = []
    memory: list[MemoryNode] = []
    devices: list[Device] = []


def layout(machine: Machine) -> Box:
    """The whole machine as a box. Linear in CPUs, at most quadratic in packages, nodes and caches."""
    root = Box("machine", 0, machine.online)
    for box in sorted(_groups(machine), key=lambda b: (-len(b.cpus), _RANK[b.kind], b.cpus.first(), b.id)):
        _insert(root, box, machine.online)
    for box in _walk(root):
        box.children.sort(key=lambda b: b.cpus.first())
    _seat_cores(machine, root)
    _attach_memory(machine, root)
    _attach_devices(machine, root)
    return root


def kind_marks(machine: Machine) -> dict[str, str]:
    """Name of a core kind -> a short mark, distinct; empty where there are not several kinds."""
    names = [kind.name for kind in machine.core_kinds if kind.cpus]
    if len(names) < 2:
        return {}
    marks: dict[str, str] = {}
    for index, name in enumerate(names):
        first = name[:1].upper()
        usable = first.isascii() and first.isalpha() and first not in marks.values()
        marks[name] = first if usable else f"k{index}"
    return marks


def kinds_of_cores(machine: Machine) -> dict[str, CpuSet]:
    """`P (performance)` -> its CPUs; empty where all cores are of one kind."""
    marks = kind_marks(machine)
    return {f"{marks[kind.name]} ({kind.name})": kind.cpus for kind in machine.core_kinds if kind.name in marks}


def per_row(count: int, width: float, need: float, gap: float) -> int:
    """How many of `count` boxes stand side by side where each needs `need` of `width`; rows are evenly filled."""
    fit = max(1, min(count, int((width + gap) // (need + gap))))
    rows = math.ceil(count / fit)
    even = math.ceil(count / rows)
    # Halves and quarters are what people expect of hardware: 8 boxes as 4 + 4 rather than as 7 + 1 or 3 + 3 + 2.
    nice = next((n for n in range(fit, 0, -1) if count % n == 0), 1)
    return nice if nice * 2 > even else even


def runs(members: Sequence[Box]) -> Iterable[Box]:
    """All boxes from here down, outermost first."""
    for member in members:
        yield member
        yield from runs(member.children)


def _walk(root: Box) -> Iterable[Box]:
    yield root
    yield from runs(root.children)


def _groups(machine: Machine) -> list[Box]:
    """Packages, dies, nodes and the caches that several cores share."""
    boxes = [Box("package", p.id, p.cpus, label=p.model) for p in machine.packages]
    per_package = {p.id: sum(d.package == p.id for d in machine.dies) for p in machine.packages}
    boxes += [Box("die", d.id, d.cpus) for d in machine.dies if per_package.get(d.package, 0) > 1]
    boxes += [Box("node", n.id, n.cpus, node=n) for n in machine.nodes]
    by_cpus: dict[CpuSet, list[Cache]] = {}
    for cache in machine.caches:
        if cache.kind != "instruction" and cache.level > 1 and _several_cores(machine, cache.cpus):
            by_cpus.setdefault(cache.cpus, []).append(cache)
    for cpus, caches in by_cpus.items():
        *inner, outer = sorted(caches, key=lambda c: c.level)
        boxes.append(Box("cache", outer.level, cpus, " · ".join(map(cache_title, inner)), cache=outer))
    for box in boxes:
        box.cpus &= machine.online
    return [box for box in boxes if box.cpus]


def _several_cores(machine: Machine, cpus: CpuSet) -> bool:
    if not cpus:
        return False
    first = machine.core_of.get(cpus.first())
    return first is None or not cpus <= first.cpus


def _insert(parent: Box, box: Box, cpus: CpuSet) -> None:
    """Put the part of `box` that is in `cpus` below `parent`, inside the boxes that are there already."""
    rest = cpus & box.cpus
    for child in parent.children:
        inside = rest & child.cpus
        if not inside:
            continue
        rest = rest - inside
        if child.kind == "node" and box.kind == "node":
            continue  # a CPU that two nodes claim stays with the first
        _insert(child, box, inside)
    if rest:
        part = box.part or rest != box.cpus
        parent.children.append(Box(box.kind, box.id, rest, box.label, box.node, box.cache, part))


def _seat_cores(machine: Machine, root: Box) -> None:
    """Give every core to the innermost box of each of its CPUs; a CPU without a core is one of its own."""
    home: dict[int, Box] = {}
    for box in _walk(root):
        home.update(dict.fromkeys(box.cpus, box))
    marks = kind_marks(machine)
    kind_of = {cpu: marks[kind.name] for kind in machine.core_kinds if kind.name in marks for cpu in kind.cpus}
    done: set[int] = set()
    for cpu in machine.online:
        if cpu in done:
            continue
        core = machine.core_of.get(cpu)
        threads = [cpu] if core is None else [c for c in core.cpus if c not in done and home.get(c) is home[cpu]]
        done.update(threads)
        home[cpu].cores.append(CoreBox(tuple(threads), kind_of.get(cpu, "")))


def _attach_memory(machine: Machine, root: Box) -> None:
    """Nodes without CPUs go to the package that alone reaches them best, else to the machine."""
    packages = [box for box in _walk(root) if box.kind == "package"]
    for node in machine.nodes:
        if node.cpus & machine.online:
            continue
        reached = CpuSet().mask
        for initiator in node.initiators:
            near = machine.node_by_id.get(initiator)
            reached |= near.cpus.mask if near else 0
        owners = [p for p in packages if p.cpus.mask & reached]
        (owners[0] if len(owners) == 1 else root).memory.append(node)


def _attach_devices(machine: Machine, root: Box) -> None:
    """A device goes to the box of its node; without one to the smallest box that holds its local CPUs."""
    boxes = list(_walk(root))
    by_node = {box.node.id: box for box in reversed(boxes) if box.node is not None}
    memory_home = {node.id: box for box in boxes for node in box.memory}
    for device in machine.devices:
        home = None if device.node is None else by_node.get(device.node) or memory_home.get(device.node)
        if home is None and device.cpus:
            home = min((b for b in boxes if device.cpus <= b.cpus), key=lambda b: len(b.cpus), default=None)
        (home or root).devices.append(device)


def all_cores(root: Box) -> list[CoreBox]:
    """Every core of a box, at any depth."""
    return [core for box in _walk(root) for core in box.cores]


def like(nodes: Sequence[MemoryNode]) -> list[tuple[NodeSet, MemoryNode]]:
    """Neighbouring memory nodes that differ in nothing but their id, together: (their ids, the first of them)."""
    groups: list[tuple[NodeSet, MemoryNode]] = []
    for node in nodes:
        if groups and msgspec.structs.replace(
            groups[-1][1], id=node.id, initiators=NodeSet()
        ) == msgspec.structs.replace(node, initiators=NodeSet()):
            groups[-1] = (groups[-1][0] | NodeSet([node.id]), groups[-1][1])
        else:
            groups.append((NodeSet([node.id]), node))
    return groups
