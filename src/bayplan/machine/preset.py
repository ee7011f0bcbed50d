"""From a description of a regular machine (`bayplan.machine.description`) to the Machine that it stands for.

The famous machines that come with Bayplan are descriptions (`presets/*.yaml`, each figure with its source), and a
person may write one for a machine that they are about to buy. Irregular machines are saved files
(`bayplan.machine.saved`). Pure: it never opens a file.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bayplan.errors import InputError
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine.check import MAX_CPUS, MAX_NODES, check
from bayplan.machine.description import Description, Packages
from bayplan.machine.model import (
    Cache,
    CacheKind,
    Cluster,
    Core,
    CoreKind,
    Device,
    Die,
    FrequencyRange,
    Machine,
    MemoryNode,
    Package,
)
from bayplan.quantity import parse_count

MAX_DISTANCE_RULES = 256


class _NumberedCore(msgspec.Struct):
    """A core with its place in its package and its CPUs."""

    package: int
    index: int
    group: int
    cpus: CpuSet


def expand(description: Description, *, name: str, source: str = "") -> Machine:
    """The machine that a description stands for, checked. Raises `InputError` naming the field that cannot be."""
    try:
        machine = _expanded(description, name, source)
    except InputError as error:
        raise error.within(source=source) from error
    return check(machine)


def _expanded(description: Description, name: str, source: str) -> Machine:
    _check_shape(description)
    cores = _numbered(description)
    nodes = _memory_nodes(description, cores)
    shape = description.packages
    by_package = _grouped(cores)
    clusters = sorted(_clusters(shape, by_package), key=lambda cluster: cluster.id)
    cluster_of = {cpu: cluster.id for cluster in clusters for cpu in cluster.cpus}
    dies = [
        Die(id=die, package=_package_id(shape, package), cpus=_union(part))
        for package, members in enumerate(by_package)
        for die, part in enumerate(_split(members, shape.dies))
        if shape.dies > 1
    ]
    die_of = {cpu: die.id for die in dies for cpu in die.cpus}
    return Machine(
        name=name,
        source=source,
        architecture=description.architecture,
        online=_union(cores),
        packages=tuple(
            Package(id=_package_id(shape, index), cpus=_union(members), model=shape.model)
            for index, members in enumerate(by_package)
        ),
        dies=tuple(dies),
        clusters=tuple(clusters),
        cores=tuple(
            sorted(
                (
                    Core(
                        id=core.cpus.first(),
                        core_id=core.index,
                        cpus=core.cpus,
                        package=_package_id(shape, core.package),
                        die=die_of.get(core.cpus.first()),
                        cluster=cluster_of.get(core.cpus.first()),
                    )
                    for core in cores
                ),
                key=lambda core: core.id,
            )
        ),
        caches=tuple(sorted(_caches(shape, by_package), key=lambda c: (c.level, c.kind, c.cpus.first()))),
        nodes=nodes,
        distances=_distances(description, nodes),
        core_kinds=_core_kinds(shape, cores),
        frequencies=_frequencies(shape, cores),
        devices=tuple(_devices(description, {node.id: node for node in nodes})),
    )


def _check_shape(description: Description) -> None:
    """Refuse what would build without end, or does not divide."""
    shape = description.packages
    for index, group in enumerate(shape.cores):
        for field in ("count", "threads", "l2_cores"):
            _positive(f"packages.cores[{index}].{field}", getattr(group, field))
        if group.count % group.l2_cores:
            _uneven(f"packages.cores[{index}].l2_cores", group.l2_cores, group.count)
    for field in ("count", "dies", "nodes"):
        _positive(f"packages.{field}", getattr(shape, field))
    count = sum(group.count for group in shape.cores)
    cpus = shape.count * sum(group.count * group.threads for group in shape.cores)
    if not 0 < cpus <= MAX_CPUS:
        raise InputError("CPUs out of range", place="packages", value=cpus, expected=f"1..{MAX_CPUS}")
    nodes = shape.count * shape.nodes + sum(len(bare.ids) for bare in description.bare_memory)
    if nodes > MAX_NODES:
        raise InputError("too many memory nodes", place="packages", value=nodes, expected=f"at most {MAX_NODES}")
    for field, parts in (("dies", shape.dies), ("nodes", shape.nodes)):
        if count % parts:
            _uneven(f"packages.{field}", parts, count)
    if shape.l3 is not None and shape.l3.cores and (shape.l3.cores < 0 or count % shape.l3.cores):
        _uneven("packages.l3.cores", shape.l3.cores, count)
    if shape.ids and len(shape.ids) != shape.count:
        raise InputError("not one id a package", place="packages.ids", value=shape.ids, expected=str(shape.count))
    ids = description.memory.ids
    if ids and len(ids) != shape.count * shape.nodes:
        raise InputError("not one id a node", place="memory.ids", value=ids, expected=str(shape.count * shape.nodes))


def _positive(place: str, value: int) -> None:
    if not 0 < value <= MAX_CPUS:
        raise InputError("out of range", place=place, value=value, expected=f"1..{MAX_CPUS}")


def _uneven(place: str, value: int, whole: int) -> None:
    raise InputError("does not divide the cores evenly", place=place, value=value, expected=f"a divisor of {whole}")


def _numbered(description: Description) -> list[_NumberedCore]:
    """All cores in order, with the CPU numbers that Linux would give."""
    shape = description.packages
    places = [
        (package, index, group)
        for package in range(shape.count)
        for index, group in enumerate(number for number, cores in enumerate(shape.cores) for _ in range(cores.count))
    ]
    masks = [0] * len(places)
    for cpu, owner in enumerate(_owners(description, [shape.cores[group].threads for _, _, group in places])):
        masks[owner] |= 1 << cpu
    return [
        _NumberedCore(package, index, group, CpuSet.of_mask(mask))
        for (package, index, group), mask in zip(places, masks, strict=True)
    ]


def _owners(description: Description, threads: list[int]) -> Iterator[int]:
    """For CPU 0, 1, 2...: the position of its core."""
    if description.numbering == "threads-adjacent":
        for position, count in enumerate(threads):
            yield from [position] * count
        return
    for thread in range(max(threads)):
        for position, count in enumerate(threads):
            if thread < count:
                yield position


def _memory_nodes(description: Description, cores: list[_NumberedCore]) -> tuple[MemoryNode, ...]:
    memory = description.memory
    shape = description.packages
    parts = [part for members in _grouped(cores) for part in _split(members, shape.nodes)]
    ids = memory.ids or tuple(range(len(parts)))
    nodes = [
        MemoryNode(
            id=number,
            cpus=_union(part),
            memory_bytes=_size("memory.bytes", memory.bytes),
            kind=memory.kind,
            initiators=NodeSet([number]),
            access=memory.access,
        )
        for number, part in zip(ids, parts, strict=True)
    ]
    for index, bare in enumerate(description.bare_memory):
        if bare.near not in ids:
            raise InputError("no such node", place=f"bare_memory[{index}].near", value=bare.near, expected=str(ids))
        nodes += [
            MemoryNode(
                id=number,
                cpus=CpuSet(),
                memory_bytes=_size(f"bare_memory[{index}].bytes", bare.bytes),
                kind=bare.kind,
                initiators=NodeSet([bare.near]),
                access=bare.access,
            )
            for number in bare.ids
        ]
    return tuple(sorted(nodes, key=lambda node: node.id))


def _distances(description: Description, nodes: tuple[MemoryNode, ...]) -> tuple[tuple[int, ...], ...]:
    rule = description.distances
    if rule is None:
        return ()
    if len(rule.pairs) > MAX_DISTANCE_RULES:
        raise InputError("too many rules", place="distances.pairs", value=len(rule.pairs), expected="at most 256")
    place = {node.id: index for index, node in enumerate(nodes)}
    rows = [[rule.machine] * len(nodes) for _ in nodes]
    for pair in rule.pairs:
        for start in pair.a & NodeSet(place):
            for end in pair.b & NodeSet(place):
                rows[place[start]][place[end]] = rows[place[end]][place[start]] = pair.distance
    with_cpus = [node.id for node in nodes if node.cpus]
    for start in range(0, len(with_cpus), description.packages.nodes):
        together = [place[node] for node in with_cpus[start : start + description.packages.nodes]]
        for row in together if rule.package is not None else ():
            for column in together:
                rows[row][column] = rule.package or 0
    for index, row_of in enumerate(rows):
        row_of[index] = rule.local
    return tuple(tuple(row_of) for row_of in rows)


def _caches(shape: Packages, by_package: list[list[_NumberedCore]]) -> Iterator[Cache]:
    for members in by_package:
        for index, group in enumerate(shape.cores):
            mine = [core for core in members if core.group == index]
            place = f"packages.cores[{index}]"
            yield from _level(1, "data", _size(f"{place}.l1d", group.l1d), mine, 1)
            yield from _level(1, "instruction", _size(f"{place}.l1i", group.l1i), mine, 1)
            yield from _level(2, "unified", _size(f"{place}.l2", group.l2), mine, group.l2_cores)
        if shape.l3 is not None:
            size = _size("packages.l3.bytes", shape.l3.bytes)
            yield from _level(3, "unified", size, members, shape.l3.cores or len(members), shape.l3.ways)


def _level(
    level: int, kind: CacheKind, size: int, cores: list[_NumberedCore], share: int, ways: int = 0
) -> Iterator[Cache]:
    if not size:
        return
    for start in range(0, len(cores), share):
        yield Cache(level=level, kind=kind, cpus=_union(cores[start : start + share]), bytes=size, ways=ways)


def _clusters(shape: Packages, by_package: list[list[_NumberedCore]]) -> Iterator[Cluster]:
    """Cores that share an L2, where a larger cache stands above it."""
    for members in by_package:
        for index, group in enumerate(shape.cores):
            last = (shape.l3.cores or len(members)) if shape.l3 is not None else 0
            if not 1 < group.l2_cores < last:
                continue
            mine = [core for core in members if core.group == index]
            for start in range(0, len(mine), group.l2_cores):
                cpus = _union(mine[start : start + group.l2_cores])
                yield Cluster(id=cpus.first(), cpus=cpus)


def _core_kinds(shape: Packages, cores: list[_NumberedCore]) -> tuple[CoreKind, ...]:
    return tuple(
        CoreKind(name=group.kind, cpus=_union([c for c in cores if c.group == index]), capacity=group.capacity)
        for index, group in enumerate(shape.cores)
        if group.kind
    )


def _frequencies(shape: Packages, cores: list[_NumberedCore]) -> tuple[FrequencyRange, ...]:
    return tuple(
        FrequencyRange(
            cpus=_union([c for c in cores if c.group == index]),
            min_khz=group.min_khz,
            base_khz=group.base_khz,
            max_khz=group.max_khz,
        )
        for index, group in enumerate(shape.cores)
        if group.min_khz or group.base_khz or group.max_khz
    )


def _devices(description: Description, nodes: dict[int, MemoryNode]) -> list[Device]:
    devices = []
    for index, group in enumerate(description.devices):
        if len(group.nodes) != len(group.addresses):
            raise InputError("not one node a device", place=f"devices[{index}].nodes", value=group.nodes)
        for address, number in zip(group.addresses, group.nodes, strict=True):
            if number not in nodes:
                raise InputError("no such memory node", place=f"devices[{index}].nodes", value=number)
            devices.append(
                Device(
                    address=address,
                    kind=group.kind,
                    node=number,
                    cpus=nodes[number].cpus,
                    pci_class=group.pci_class,
                    vendor=group.vendor,
                    device=group.device,
                    name=group.name,
                    resource=group.resource,
                    links=tuple(a for a in sorted(group.addresses) if a != address) if group.linked else (),
                )
            )
    return sorted(devices, key=lambda device: device.address)


def _size(place: str, value: str | int) -> int:
    try:
        return parse_count(value)
    except InputError as error:
        raise error.within(place=place) from error


def _package_id(shape: Packages, index: int) -> int:
    return shape.ids[index] if shape.ids else index


def _grouped(cores: list[_NumberedCore]) -> list[list[_NumberedCore]]:
    """The cores of each package."""
    groups: dict[int, list[_NumberedCore]] = {}
    for core in cores:
        groups.setdefault(core.package, []).append(core)
    return list(groups.values())


def _split(cores: list[_NumberedCore], parts: int) -> list[list[_NumberedCore]]:
    size = len(cores) // parts
    return [cores[start : start + size] for start in range(0, len(cores), size)]


def _union(cores: list[_NumberedCore]) -> CpuSet:
    mask = 0
    for core in cores:
        mask |= core.cpus.mask
    return CpuSet.of_mask(mask)
