"""Kinds of cores, on machines that have more than one.

Never calls cores different because one of them boosts a little higher: figures from firmware (CPPC) make a new kind
only where they fall by a fifth or more. Facts: Documentation/ABI/testing/sysfs-devices-system-cpu (`cpu_capacity`,
`acpi_cppc`, `types`), Documentation/arch/x86/topology and the `cpu_core`, `cpu_atom` and `cpu_lowpower` PMUs of
Intel's hybrid processors.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.idset import CpuSet
from bayplan.machine.model import Core, CoreKind
from bayplan.machine.sysfs.cpus import CPU
from bayplan.machine.sysfs.facts import Facts

_INTEL = ("core", "atom", "lowpower")
_SAME_KIND = 0.8
_MOST = 2**20


def read_core_kinds(facts: Facts, online: CpuSet, cores: tuple[Core, ...]) -> tuple[CoreKind, ...]:
    """Kinds, by first CPU; empty where all cores are of one kind or nothing is told.

    Names are the kernel's where it has any (`core`, `atom`, `lowpower`, the folders of `cpu/types`); else
    `capacity-N`.
    """
    capacities = _per_core(facts, cores, "cpu_capacity")
    cppc = {} if capacities else _per_core(facts, cores, "acpi_cppc/highest_perf")
    groups = _named_groups(facts, online) or _by_capacity(cores, capacities, exact=True)
    groups = groups or _by_capacity(cores, cppc, exact=False)
    if len(groups) < 2:
        return ()
    figures = capacities or cppc
    kinds = [
        CoreKind(name=name, cpus=cpus, capacity=max((figures.get(c.id, 0) for c in cores if c.id in cpus), default=0))
        for name, cpus in groups.items()
    ]
    return tuple(sorted(kinds, key=lambda kind: kind.cpus.first()))


def _per_core(facts: Facts, cores: tuple[Core, ...], name: str) -> dict[int, int]:
    """A figure of each core by core id; nothing unless the first core tells one, for reading CPPC may be slow."""
    figures: dict[int, int] = {}
    for core in cores:
        value = facts.number(f"{CPU}/cpu{core.id}/{name}", most=_MOST)
        if value:
            figures[core.id] = value
        elif not figures:
            return {}
    return figures


def _named_groups(facts: Facts, online: CpuSet) -> dict[str, CpuSet]:
    """Kinds that the kernel names; each CPU in one of them."""
    intel = _read_groups(_INTEL, lambda name: facts.cpu_list(f"sys/devices/cpu_{name}/cpus"), online)
    if intel:
        return intel
    names = [name for name in facts.tree.list(f"{CPU}/types") if name.isprintable() and len(name) <= 64][:64]
    folder = f"{CPU}/types"
    return _read_groups(
        tuple(names), lambda name: facts.cpus(f"{folder}/{name}/cpumap", f"{folder}/{name}/cpulist"), online
    )


def _read_groups(names: tuple[str, ...], read: Callable[[str], CpuSet | None], online: CpuSet) -> dict[str, CpuSet]:
    groups = {}
    free = online
    for name in names:
        cpus = (read(name) or CpuSet()) & free
        free = free - cpus
        if cpus:
            groups[name] = cpus
    return groups


def _by_capacity(cores: tuple[Core, ...], figures: dict[int, int], *, exact: bool) -> dict[str, CpuSet]:
    """Cores grouped by equal figures, or by figures within a fifth of the group's largest; CPUs without one apart."""
    groups: dict[str, CpuSet] = {}
    leader = None
    for core in sorted(cores, key=lambda c: -figures.get(c.id, 0)):
        figure = figures.get(core.id)
        if figure is None:
            continue
        if leader is None or (figure != leader if exact else figure < leader * _SAME_KIND):
            leader = figure
        name = f"capacity-{leader}"
        groups[name] = groups.get(name, CpuSet()) | core.cpus
    return groups
