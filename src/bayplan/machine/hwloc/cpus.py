"""Cores, packages, dies, clusters, caches and kinds of cores from the objects of a topology.

Sets in the file may hold CPUs that are off; here they are cut to the online ones. A topology that tells no cores makes
every CPU one, with `core_id` -1; one that tells no packages has none listed, and its cores say package 0.
"""

from __future__ import annotations

from bayplan.errors import InputError
from bayplan.idset import CpuSet, bits
from bayplan.machine.hwloc.elements import Element
from bayplan.machine.hwloc.objects import Thing, Topology, parse_bitmap, printable, read_infos
from bayplan.machine.model import Cache, Cluster, Core, CoreKind, Die, FrequencyRange, Package

MAX_KHZ = 10**9
_INTEL_KINDS = {"IntelCore": "core", "IntelAtom": "atom", "IntelLowPower": "lowpower"}


def cut(thing: Thing, online: int) -> CpuSet:
    """The online CPUs of an object; those of the PUs below it where it has no set of its own."""
    mask = thing.cpus
    if mask is None:
        mask = 0
        for part in thing.below():
            if part.type == "PU":
                mask |= 1 << part.element.number("os_index", None, 0, 65_535)
    return CpuSet.of_mask(mask & online)


def read_packages(topology: Topology, online: int) -> tuple[Package, ...]:
    """The packages that have online CPUs, by id."""
    found = [(thing, cpus) for thing in topology.all("Package") if (cpus := cut(thing, online))]
    ids = _ids(topology, "packages", [thing for thing, _ in found])
    packages = [
        Package(id=number, cpus=cpus, model=printable(thing.infos.get("CPUModel", "")))
        for number, (thing, cpus) in zip(ids, found, strict=True)
    ]
    left = online
    for package in packages:
        left &= ~package.cpus.mask
    if packages and left:
        cpus = CpuSet.of_mask(left)
        topology.note("packages", f"CPUs {cpus} are in none; taken as one of their own")
        packages.append(Package(id=max(ids) + 1, cpus=cpus))
    return tuple(sorted(packages, key=lambda package: package.id))


def read_dies(topology: Topology, online: int, packages: tuple[Package, ...]) -> tuple[Die, ...]:
    """The dies of packages that have more than one."""
    whole = {cpu: package for package in packages for cpu in package.cpus}
    found: dict[int, list[tuple[Thing, CpuSet]]] = {}
    for thing in topology.all("Die"):
        cpus = cut(thing, online)
        package = whole.get(cpus.first()) if cpus else None
        if package is not None and cpus <= package.cpus:
            found.setdefault(package.id, []).append((thing, cpus))
    dies = []
    for number, members in found.items():
        if len(members) > 1:
            ids = _ids(topology, f"dies of package {number}", [thing for thing, _ in members])
            dies += [Die(id=die, package=number, cpus=cpus) for die, (_, cpus) in zip(ids, members, strict=True)]
    return tuple(sorted(dies, key=lambda die: (die.package, die.id)))


def read_clusters(topology: Topology, online: int, packages: tuple[Package, ...]) -> tuple[Cluster, ...]:
    """Clusters of Linux that are smaller than their package; `id` is the first CPU."""
    whole = {package.cpus.mask for package in packages}
    sets = {cpus.mask for thing in topology.machine.below() if thing.is_cluster() and (cpus := cut(thing, online))}
    clusters = [CpuSet.of_mask(mask) for mask in sets - whole - {online}]
    return tuple(sorted((Cluster(id=cpus.first(), cpus=cpus) for cpus in clusters), key=lambda cluster: cluster.id))


def read_cores(
    topology: Topology,
    online: int,
    packages: tuple[Package, ...],
    dies: tuple[Die, ...],
    clusters: tuple[Cluster, ...],
) -> tuple[Core, ...]:
    """All cores, by first CPU."""
    told = [
        (number if (number := thing.os_index()) >= 0 else index, cpus)
        for index, thing in enumerate(topology.all("Core"))
        if (cpus := cut(thing, online))
    ]
    left = online
    for _, cpus in told:
        left &= ~cpus.mask
    if left:
        topology.note("cores", f"CPUs {CpuSet.of_mask(left)} are in none; each is taken as one")
        told += [(-1, CpuSet.of_mask(1 << cpu)) for cpu in bits(left)]
    package_of = {cpu: package.id for package in packages for cpu in package.cpus}
    die_of = {cpu: die.id for die in dies for cpu in die.cpus}
    cluster_of = {cpu: cluster.id for cluster in clusters for cpu in cluster.cpus}
    cores = [
        Core(
            id=cpus.first(),
            core_id=number,
            cpus=cpus,
            package=package_of.get(cpus.first(), 0),
            die=die_of.get(cpus.first()),
            cluster=cluster_of.get(cpus.first()),
        )
        for number, cpus in told
    ]
    return tuple(sorted(cores, key=lambda core: core.id))


def read_caches(topology: Topology, online: int) -> tuple[Cache, ...]:
    """The caches of CPUs that are online."""
    caches = []
    for thing in topology.all("Cache"):
        cpus = cut(thing, online)
        level, kind = thing.cache_level()
        if not cpus:
            continue
        caches.append(
            Cache(
                level=level,
                kind=kind,
                cpus=cpus,
                bytes=thing.element.number("cache_size", 0),
                line_bytes=thing.element.number("cache_linesize", 0),
                ways=max(thing.element.number("cache_associativity", 0, -1), 0),  # -1: fully associative
            )
        )
    return tuple(sorted(caches, key=lambda cache: (cache.level, cache.kind, cache.cpus.first())))


def read_kinds(topology: Topology, online: int) -> tuple[tuple[CoreKind, ...], tuple[FrequencyRange, ...]]:
    """Kinds of cores where there are several, and the frequencies told with them."""
    kinds, frequencies = [], []
    for index, element in enumerate(topology.element.named("cpukind")):
        mask = parse_bitmap(element.attributes.get("cpuset", ""))
        if mask is None:
            element.bad("cpuset is not a set", value=element.attributes.get("cpuset"), expected="like 0x0000ffff")
        cpus = CpuSet.of_mask(mask & online)
        infos = read_infos(element)
        if not cpus:
            continue
        capacity = _figure(element, infos, "LinuxCapacity", 2**31)
        told = infos.get("CoreType", "")
        name = _INTEL_KINDS.get(told, told) or (f"capacity-{capacity}" if capacity else f"kind-{index}")
        kinds.append(CoreKind(name=printable(name), cpus=cpus, capacity=capacity))
        base, most = (
            1000 * _figure(element, infos, key, MAX_KHZ // 1000) for key in ("FrequencyBaseMHz", "FrequencyMaxMHz")
        )
        if base or most:
            frequencies.append(FrequencyRange(cpus=cpus, base_khz=base, max_khz=most))
    kinds.sort(key=lambda kind: kind.cpus.first())
    frequencies.sort(key=lambda limits: limits.cpus.first())
    return tuple(kinds) if len(kinds) > 1 else (), tuple(frequencies)


def _figure(element: Element, infos: dict[str, str], name: str, most: int) -> int:
    text = infos.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most):
        raise InputError(
            f"{name} is wrong",
            place=f"line {element.line}, cpukind",
            value=text,
            expected=f"a whole number up to {most}",
        )
    return int(text)


def _ids(topology: Topology, what: str, things: list[Thing]) -> list[int]:
    """The numbers that the kernel gave, or 0, 1, 2... where they are missing or not unique."""
    told = [thing.os_index() for thing in things]
    if len(set(told)) == len(told) and min(told, default=0) >= 0:
        return told
    topology.note(what, f"numbers {told[:8]} are missing or not unique; numbered in the order of the file")
    return list(range(len(things)))
