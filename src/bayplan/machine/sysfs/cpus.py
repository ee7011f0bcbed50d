"""Which CPUs there are, and how they form cores, clusters, dies and packages.

Never trusts one file alone where two tell the same thing: a core is the kernel's set of thread siblings, and a
sibling that says otherwise makes a finding. Facts: Documentation/admin-guide/cputopology.rst;
Documentation/ABI/stable/sysfs-devices-system-cpu. Kernels before 4.20 or so have `thread_siblings` and
`core_siblings` for what later ones call `core_cpus` and `package_cpus`; s390 and old powerpc give every package the
id -1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from bayplan.errors import InputError
from bayplan.idset import CpuSet
from bayplan.machine.model import Cluster, Core, Die, Package
from bayplan.machine.sysfs.facts import MAX_CPUS, Facts

CPU = "sys/devices/system/cpu"
_UNTOLD = -1


class CpuStates(msgspec.Struct, frozen=True, kw_only=True):
    """CPUs by state. All but `offline` are online."""

    online: CpuSet
    offline: CpuSet
    isolated: CpuSet
    nohz_full: CpuSet


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """How online CPUs are put together."""

    cores: tuple[Core, ...]
    packages: tuple[Package, ...]
    dies: tuple[Die, ...]
    clusters: tuple[Cluster, ...]


def read_states(facts: Facts) -> CpuStates:
    """Which CPUs are online, offline, isolated and without a tick. Raises `InputError` where there is none."""
    folders = CpuSet(facts.numbered(CPU, "cpu", MAX_CPUS - 1))
    online = facts.cpu_list(f"{CPU}/online")
    if not online:
        online = CpuSet(cpu for cpu in folders if facts.text(f"{CPU}/cpu{cpu}/online") != "0")
    if not online:
        raise InputError(
            "no CPUs in this tree", place=CPU, expected="the /sys of a Linux machine, with cpu0 or a file `online`"
        )
    present = facts.cpu_list(f"{CPU}/present") or folders
    isolated = facts.cpu_list(f"{CPU}/isolated") or CpuSet()
    nohz_full = facts.cpu_list(f"{CPU}/nohz_full") or CpuSet()
    return CpuStates(online=online, offline=present - online, isolated=isolated & online, nohz_full=nohz_full & online)


def read_topology(facts: Facts, online: CpuSet, model: str) -> Topology:
    """Cores, packages, dies and clusters of the online CPUs.

    Where the kernel tells no core, every CPU is one, with `core_id` -1; where it tells no package, all are in one
    package 0, which is not listed.
    """
    cores = _read_cores(facts, online)
    package_of, packages = _read_packages(facts, online, cores, model)
    cores = [msgspec.structs.replace(core, package=package_of[core.id]) for core in cores]
    dies, cores = _read_dies(facts, cores)
    clusters, cores = _read_clusters(facts, online, cores, packages)
    return Topology(cores=tuple(cores), packages=packages, dies=dies, clusters=clusters)


def _read_cores(facts: Facts, online: CpuSet) -> list[Core]:
    told, numbers = {}, {}
    for cpu in online:
        found = _siblings(facts, cpu, "core_cpus", "thread_siblings")
        if found is not None:
            told[cpu] = found
        number = facts.number(f"{CPU}/cpu{cpu}/topology/core_id", least=-1, most=2**31)
        if number is not None:
            numbers[cpu] = number
    cores: list[Core] = []
    for first, cpus in _partition(facts, online, told, "thread siblings"):
        by_number: dict[int, list[int]] = {}
        for cpu in cpus:
            # Threads told without a number make a core all the same; no siblings and no number: nothing was told.
            by_number.setdefault(numbers.get(cpu, first if first in told else _UNTOLD), []).append(cpu)
        if len(by_number) > 1:  # AMD's family 15h calls the two cores of a compute unit thread siblings
            facts.note(f"{CPU}/cpu{first}/topology", f"thread siblings {cpus} have different core_ids; taken as cores")
        cores.extend(
            Core(id=members[0], core_id=number, cpus=CpuSet(members), package=0)
            for number, members in by_number.items()
        )
    return sorted(cores, key=lambda core: core.id)


def _read_packages(
    facts: Facts, online: CpuSet, cores: list[Core], model: str
) -> tuple[dict[int, int], tuple[Package, ...]]:
    """Package of each core by core id, and the packages."""
    ids: dict[int, int] = {}
    told: dict[int, CpuSet] = {}
    for core in cores:
        number = facts.number(f"{CPU}/cpu{core.id}/topology/physical_package_id", least=-1, most=2**31)
        siblings = _siblings(facts, core.id, "package_cpus", "core_siblings")
        if number is not None:
            ids[core.id] = number
        if siblings is not None:
            told[core.id] = siblings
    if not told and not ids:
        return {core.id: 0 for core in cores}, ()
    groups = _package_groups(facts, online, cores, ids, told)
    numbers = [ids.get(group[0].id, _UNTOLD) for group in groups]
    if min(numbers) < 0 or len(set(numbers)) < len(numbers):
        numbers = list(range(len(groups)))
    packages = tuple(
        Package(id=number, cpus=_union(core.cpus for core in group), model=model)
        for number, group in zip(numbers, groups, strict=True)
    )
    package_of = {core.id: number for number, group in zip(numbers, groups, strict=True) for core in group}
    return package_of, tuple(sorted(packages, key=lambda package: package.id))


def _package_groups(
    facts: Facts, online: CpuSet, cores: list[Core], ids: dict[int, int], told: dict[int, CpuSet]
) -> list[list[Core]]:
    """Cores by package: by the kernel's set of siblings, or by number for a core that names no siblings."""
    groups: dict[tuple[str, int], list[Core]] = {}
    taken: dict[int, tuple[str, int]] = {}
    for core in cores:
        key = taken.get(core.id)
        siblings = told.get(core.id, CpuSet()) & online
        if key is None:
            key = ("siblings", core.id) if core.id in told else ("number", ids.get(core.id, _UNTOLD))
            for cpu in siblings:
                taken.setdefault(cpu, key)
        elif key[0] == "siblings" and core.id in told and siblings != told[key[1]] & online:
            facts.note(
                f"{CPU}/cpu{core.id}/topology",
                f"package siblings {siblings} contradict those of CPU {key[1]}; CPU {core.id} stays with the first",
            )
        groups.setdefault(key, []).append(core)
    return list(groups.values())


def _read_dies(facts: Facts, cores: list[Core]) -> tuple[tuple[Die, ...], list[Core]]:
    """Dies of the packages that have more than one; a lone die is the package itself."""
    by_package: dict[int, dict[int, list[Core]]] = {}
    for core in cores:
        number = facts.number(f"{CPU}/cpu{core.id}/topology/die_id", least=-1, most=2**31)
        by_package.setdefault(core.package, {}).setdefault(_UNTOLD if number is None else number, []).append(core)
    dies, die_of = [], {}
    for package, members in by_package.items():
        if len(members) < 2 or _UNTOLD in members:
            continue
        for number, group in members.items():
            dies.append(Die(id=number, package=package, cpus=_union(core.cpus for core in group)))
            die_of.update({core.id: number for core in group})
    placed = [msgspec.structs.replace(core, die=die_of.get(core.id)) for core in cores]
    return tuple(sorted(dies, key=lambda die: (die.package, die.id))), placed


def _read_clusters(
    facts: Facts, online: CpuSet, cores: list[Core], packages: tuple[Package, ...]
) -> tuple[tuple[Cluster, ...], list[Core]]:
    """Clusters of more than one core and less than a package. A cluster's id is its smallest online CPU."""
    told = {}
    for core in cores:
        found = _siblings(facts, core.id, "cluster_cpus")
        if found is not None:
            told[core.id] = found
    core_at = {core.id: core for core in cores}
    package_cpus = {package.id: package.cpus for package in packages}
    clusters, cluster_of = [], {}
    for first, cpus in _partition(facts, CpuSet(core_at), told, "cluster CPUs"):
        members = [core_at[cpu] for cpu in cpus]
        whole = _union(core.cpus for core in members)
        within = package_cpus.get(core_at[first].package, online)
        if first not in told or len(members) < 2 or not whole <= within or whole == within:
            continue
        clusters.append(Cluster(id=first, cpus=whole))
        cluster_of.update({core.id: first for core in members})
    placed = [msgspec.structs.replace(core, cluster=cluster_of.get(core.id)) for core in cores]
    return tuple(clusters), placed


def _siblings(facts: Facts, cpu: int, name: str, old_name: str = "") -> CpuSet | None:
    """A set of CPUs by its present name or the one that older kernels have; an empty one counts as untold."""
    folder = f"{CPU}/cpu{cpu}/topology"
    found = facts.cpus(f"{folder}/{name}", f"{folder}/{name}_list")
    if not found and old_name:
        found = facts.cpus(f"{folder}/{old_name}", f"{folder}/{old_name}_list")
    return found or None


def _partition(facts: Facts, cpus: CpuSet, told: dict[int, CpuSet], what: str) -> Iterator[tuple[int, CpuSet]]:
    """Disjoint sets that cover `cpus`, from what each CPU says of its own set. The first to speak is believed."""
    free = cpus
    said: dict[int, CpuSet] = {}
    for cpu in cpus:
        own = told.get(cpu, CpuSet()) & cpus
        if cpu not in free:
            if cpu in told and own != said[cpu]:
                facts.note(
                    f"{CPU}/cpu{cpu}/topology",
                    f"{what} {own} contradict {said[cpu]}, which another of them names; the latter is used",
                )
            continue
        members = (own | CpuSet((cpu,))) & free
        if own and (members != own):
            facts.note(f"{CPU}/cpu{cpu}/topology", f"{what} {own} overlap another set; {members} is used")
        free = free - members
        said.update(dict.fromkeys(members, own))
        yield cpu, members


def _union(sets: Iterable[CpuSet]) -> CpuSet:
    whole = CpuSet()
    for cpus in sets:
        whole = whole | cpus
    return whole
