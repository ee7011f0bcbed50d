"""Is a Machine consistent? So that what decides need not ask again.

Readers of files that were written by people or other programs (`saved`, `preset`, `hwloc`) end with `check`; `sysfs`
mends what the kernel contradicts itself in, and is held to these same rules by its tests.

Held here: CPUs are partitioned by cores, cores lie inside their package and die, packages, dies and memory nodes are
disjoint and online, ids are unique and ascending, distances are square, every reference leads somewhere, numbers
are within what hardware can have, and text is printable (a name must not carry terminal escapes). It never repairs:
a reader that can repair does so before, and leaves a Finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from bayplan.errors import InputError
from bayplan.idset import CpuSet
from bayplan.machine.model import Cache, Device, Machine, MemoryNode

MAX_CPUS = 65_536
MAX_NODES = 1_024
MAX_ITEMS = 8 * MAX_CPUS
MAX_TEXT = 1_024
MAX_CACHE_LEVEL = 16
MAX_DISTANCE = 2**31 - 1
LARGEST = 2**63 - 1
_Key = TypeVar("_Key")


def check(machine: Machine) -> Machine:
    """The machine itself, if it is consistent. Raises `InputError` that names the first field that is not."""
    try:
        _check_sets(machine)
        _check_cpu_parts(machine)
        _check_cores(machine)
        _check_nodes(machine)
        _check_distances(machine)
        _check_caches(machine.caches, machine.online)
        _check_kinds(machine)
        _check_devices(machine)
        _check_texts(machine)
    except InputError as error:
        raise error.within(source=machine.source) from error
    return machine


def _bad(place: str, problem: str, value: object = ..., expected: str = "") -> NoReturn:
    raise InputError(problem, place=place, value=value, expected=expected)


def _check_sets(machine: Machine) -> None:
    if not machine.online:
        _bad("online", "no CPU is online", expected="at least one")
    for name in ("online", "offline"):
        cpus: CpuSet = getattr(machine, name)
        if cpus.mask.bit_length() > MAX_CPUS:
            _bad(name, "CPU out of range", value=cpus.mask.bit_length() - 1, expected=f"0..{MAX_CPUS - 1}")
    if not machine.online.isdisjoint(machine.offline):
        _bad("offline", "CPUs are both online and offline", value=str(machine.online & machine.offline))
    _within("isolated", machine.isolated, machine.online)
    _within("nohz_full", machine.nohz_full, machine.online)
    for name in ("cores", "packages", "nodes", "dies", "clusters", "caches", "devices", "findings"):
        _limit(name, len(getattr(machine, name)), MAX_ITEMS)


def _check_cpu_parts(machine: Machine) -> None:
    """Packages, dies and clusters: disjoint, online, not empty, ascending unique ids."""
    _ascending("packages", [package.id for package in machine.packages])
    _ascending("dies", [(die.package, die.id) for die in machine.dies])
    _ascending("clusters", [cluster.id for cluster in machine.clusters])
    _disjoint("packages", [package.cpus for package in machine.packages], machine.online)
    _disjoint("dies", [die.cpus for die in machine.dies], machine.online)
    _disjoint("clusters", [cluster.cpus for cluster in machine.clusters], machine.online)
    packages = {package.id: package.cpus for package in machine.packages}
    for index, die in enumerate(machine.dies):
        if die.package not in packages:
            _bad(f"dies[{index}].package", "no such package", value=die.package, expected="an id of packages")
        _within(f"dies[{index}].cpus", die.cpus, packages[die.package], "within its package")


def _check_cores(machine: Machine) -> None:
    cores = machine.cores
    _limit("cores", len(cores), MAX_CPUS)
    _ascending("cores", [core.id for core in cores])
    covered = _disjoint("cores", [core.cpus for core in cores], machine.online)
    if covered != machine.online:
        _bad("cores", "CPUs without a core", value=str(machine.online - covered), expected="every online CPU in one")
    packages = {package.id: package.cpus for package in machine.packages}
    dies = {(die.package, die.id): die.cpus for die in machine.dies}
    clusters = {cluster.id: cluster.cpus for cluster in machine.clusters}
    for index, core in enumerate(cores):
        place = f"cores[{index}]"
        if core.id != core.cpus.first():
            _bad(f"{place}.id", "not the smallest CPU of the core", value=core.id, expected=str(core.cpus.first()))
        _number(f"{place}.core_id", core.core_id, smallest=-1)
        if packages:  # none listed: the machine tells no packages
            _inside(f"{place}.package", core.package, core.cpus, packages)
        if core.die is not None:
            _inside(f"{place}.die", (core.package, core.die), core.cpus, dies)
        if core.cluster is not None:
            _inside(f"{place}.cluster", core.cluster, core.cpus, clusters)


def _check_nodes(machine: Machine) -> None:
    nodes = machine.nodes
    _limit("nodes", len(nodes), MAX_NODES)
    if not nodes:
        _bad("nodes", "no memory node", expected="at least one")
    _ascending("nodes", [node.id for node in nodes])
    _number(f"nodes[{len(nodes) - 1}].id", nodes[-1].id, largest=MAX_CPUS - 1)
    _disjoint("nodes", [node.cpus for node in nodes], machine.online, empty=True)
    known = machine.all_nodes
    for index, node in enumerate(nodes):
        place = f"nodes[{index}]"
        if not node.initiators <= known:
            _bad(f"{place}.initiators", "no such node", value=str(node.initiators - known), expected=f"of {known}")
        _check_memory(place, node)


def _check_memory(place: str, node: MemoryNode) -> None:
    _number(f"{place}.memory_bytes", node.memory_bytes)
    if node.tier is not None:
        _number(f"{place}.tier", node.tier)
    _ascending(f"{place}.hugepages", [pool.page_bytes for pool in node.hugepages], name="page_bytes")
    for index, pool in enumerate(node.hugepages):
        _number(f"{place}.hugepages[{index}].page_bytes", pool.page_bytes, smallest=1)
        _number(f"{place}.hugepages[{index}].count", pool.count)
    taken = sum(pool.page_bytes * pool.count for pool in node.hugepages)
    if taken > node.memory_bytes:
        _bad(f"{place}.hugepages", "more than the memory of the node", taken, f"at most {node.memory_bytes} bytes")
    if node.access is not None:
        for name in node.access.__struct_fields__:
            value = getattr(node.access, name)
            _number(f"{place}.access.{name}", value or 0)
    _limit(f"{place}.side_caches", len(node.side_caches), MAX_CACHE_LEVEL)
    for index, cache in enumerate(node.side_caches):
        inside = f"{place}.side_caches[{index}]"
        _number(f"{inside}.level", cache.level, 1, MAX_CACHE_LEVEL)
        _number(f"{inside}.bytes", cache.bytes)
        _number(f"{inside}.line_bytes", cache.line_bytes)


def _check_distances(machine: Machine) -> None:
    rows, wanted = machine.distances, len(machine.nodes)
    if not rows:
        return
    if len(rows) != wanted:
        _bad("distances", "not one row a memory node", value=len(rows), expected=f"{wanted} rows")
    for index, row in enumerate(rows):
        if len(row) != wanted:
            _bad(f"distances[{index}]", "not square", value=len(row), expected=f"{wanted} figures")
        if min(row) < 0 or max(row) > MAX_DISTANCE:
            _bad(f"distances[{index}]", "distance out of range", value=row, expected=f"0..{MAX_DISTANCE}")


def _check_caches(caches: Sequence[Cache], online: CpuSet) -> None:
    """Within online; no CPU in two caches of one level and kind."""
    seen: dict[tuple[int, str], int] = {}
    for index, cache in enumerate(caches):
        place = f"caches[{index}]"
        _number(f"{place}.level", cache.level, 1, MAX_CACHE_LEVEL)
        for name in ("bytes", "line_bytes", "ways"):
            _number(f"{place}.{name}", getattr(cache, name))
        if not cache.cpus:
            _bad(f"{place}.cpus", "no CPU", expected="at least one")
        _within(f"{place}.cpus", cache.cpus, online)
        key = (cache.level, cache.kind)
        if seen.get(key, 0) & cache.cpus.mask:
            _bad(f"{place}.cpus", f"in two level {cache.level} {cache.kind} caches", value=str(cache.cpus))
        seen[key] = seen.get(key, 0) | cache.cpus.mask


def _check_kinds(machine: Machine) -> None:
    _disjoint("core_kinds", [kind.cpus for kind in machine.core_kinds], machine.online)
    for index, kind in enumerate(machine.core_kinds):
        _number(f"core_kinds[{index}].capacity", kind.capacity)
    _disjoint("frequencies", [limits.cpus for limits in machine.frequencies], machine.online)
    for index, limits in enumerate(machine.frequencies):
        place = f"frequencies[{index}]"
        for name in ("min_khz", "base_khz", "max_khz"):
            _number(f"{place}.{name}", getattr(limits, name))
        if limits.max_khz and limits.min_khz > limits.max_khz:
            _bad(f"{place}.min_khz", "above max_khz", value=limits.min_khz, expected=f"at most {limits.max_khz}")


def _check_devices(machine: Machine) -> None:
    _ascending("devices", [device.address for device in machine.devices], name="address", smallest="!")
    known = {device.address for device in machine.devices}
    for index, device in enumerate(machine.devices):
        _check_device(f"devices[{index}]", device, machine, known)


def _check_device(place: str, device: Device, machine: Machine, known: set[str]) -> None:
    if device.node is not None and device.node not in machine.node_by_id:
        _bad(f"{place}.node", "no such memory node", value=device.node, expected=f"one of {machine.all_nodes}")
    _within(f"{place}.cpus", device.cpus, machine.online)
    _number(f"{place}.pci_class", device.pci_class, largest=0xFFFFFF)
    _number(f"{place}.vendor", device.vendor, largest=0xFFFF)
    _number(f"{place}.device", device.device, largest=0xFFFF)
    for index, other in enumerate(device.links):
        if other not in known:
            _bad(f"{place}.links[{index}]", "no such device", value=other, expected="an address of devices")
    for name in ("address", "name", "resource", "virtual_function_of"):
        _text(f"{place}.{name}", getattr(device, name))


def _check_texts(machine: Machine) -> None:
    for name in ("name", "source", "architecture"):
        _text(name, getattr(machine, name))
    for index, package in enumerate(machine.packages):
        _text(f"packages[{index}].model", package.model)
    for index, kind in enumerate(machine.core_kinds):
        _text(f"core_kinds[{index}].name", kind.name)
    for index, finding in enumerate(machine.findings):
        _text(f"findings[{index}].place", finding.place)
        _text(f"findings[{index}].problem", finding.problem)


def _limit(place: str, count: int, most: int) -> None:
    if count > most:
        _bad(place, "too many entries", value=count, expected=f"at most {most}")


def _number(place: str, value: int, smallest: int = 0, largest: int = LARGEST) -> None:
    if not smallest <= value <= largest:
        _bad(place, "out of range", value=value, expected=f"{smallest}..{largest}")


def _text(place: str, value: str) -> None:
    if len(value) > MAX_TEXT:
        _bad(place, "too long", value=len(value), expected=f"at most {MAX_TEXT} characters")
    if not value.isprintable():
        _bad(place, "not printable", value=value, expected="text without control characters")


def _within(place: str, cpus: CpuSet, whole: CpuSet, expected: str = "online CPUs only") -> None:
    if cpus.mask & ~whole.mask:
        _bad(place, "CPUs that do not belong here", value=str(cpus - whole), expected=expected)


def _disjoint(place: str, sets: Iterable[CpuSet], online: CpuSet, *, empty: bool = False) -> CpuSet:
    """The union of sets that must be online, pairwise disjoint and (unless `empty`) not empty."""
    seen = 0
    for index, cpus in enumerate(sets):
        if not cpus and not empty:
            _bad(f"{place}[{index}].cpus", "no CPU", expected="at least one")
        _within(f"{place}[{index}].cpus", cpus, online)
        if seen & cpus.mask:
            both = CpuSet.of_mask(seen & cpus.mask)
            _bad(f"{place}[{index}].cpus", f"CPUs that another of the {place} has", value=str(both))
        seen |= cpus.mask
    return CpuSet.of_mask(seen)


def _ascending(place: str, keys: Sequence[Any], *, name: str = "id", smallest: object = -1) -> None:
    """Unique and in order, as the model promises. -1 is the kernel's word for a package or die it does not know."""
    floor: Any = (-1, -1) if keys and isinstance(keys[0], tuple) else smallest
    if keys and keys[0] < floor:
        _bad(f"{place}[0].{name}", "out of range", value=keys[0], expected=f"at least {floor}")
    for index in range(1, len(keys)):
        if keys[index] == keys[index - 1]:
            _bad(f"{place}[{index}].{name}", "not unique", value=keys[index])
        if keys[index] < keys[index - 1]:
            _bad(f"{place}[{index}].{name}", "not in ascending order", value=keys[index])


def _inside(place: str, key: _Key, cpus: CpuSet, parts: Mapping[_Key, CpuSet]) -> None:
    whole = parts.get(key)
    if whole is None:
        _bad(place, "no such part of the machine", value=key, expected="an id that is listed")
    if not cpus <= whole:
        _bad(place, "does not hold all CPUs of the core", value=key, expected=f"one that holds {cpus}")
