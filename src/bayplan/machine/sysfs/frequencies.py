"""Frequency limits of CPUs in kHz: what the hardware can do, not what it does now.

Never reads a current frequency: some drivers wake the CPU for that. Facts: Documentation/admin-guide/pm/cpufreq.rst
(`cpuinfo_min_freq`, `cpuinfo_max_freq`), intel_pstate.rst (`base_frequency`), and CPPC's `nominal_freq` in MHz.
"""

from __future__ import annotations

from bayplan.idset import CpuSet
from bayplan.machine.model import Core, FrequencyRange
from bayplan.machine.sysfs.cpus import CPU
from bayplan.machine.sysfs.facts import Facts

_MOST_KHZ = 100_000_000


def read_frequencies(facts: Facts, cores: tuple[Core, ...]) -> tuple[FrequencyRange, ...]:
    """CPUs by limits, by first CPU; CPUs of which nothing is told are left out. Threads have their core's limits."""
    groups: dict[tuple[int, int, int], CpuSet] = {}
    for core in cores:
        limits = _limits(facts, f"{CPU}/cpu{core.id}")
        groups[limits] = groups.get(limits, CpuSet()) | core.cpus
    groups.pop((0, 0, 0), None)
    ranges = [
        FrequencyRange(cpus=cpus, min_khz=least, base_khz=base, max_khz=most)
        for (least, base, most), cpus in groups.items()
    ]
    return tuple(sorted(ranges, key=lambda r: r.cpus.first()))


def _limits(facts: Facts, folder: str) -> tuple[int, int, int]:
    least = facts.number(f"{folder}/cpufreq/cpuinfo_min_freq", most=_MOST_KHZ) or 0
    most = facts.number(f"{folder}/cpufreq/cpuinfo_max_freq", most=_MOST_KHZ) or 0
    base = facts.number(f"{folder}/cpufreq/base_frequency", most=_MOST_KHZ)
    if not base and most:
        base = (facts.number(f"{folder}/acpi_cppc/nominal_freq", most=_MOST_KHZ // 1000) or 0) * 1000
    if least > most > 0:
        facts.note(f"{folder}/cpufreq", f"smallest frequency {least} above the largest {most} kHz; both left out")
        return 0, base or 0, 0
    return least, base or 0, most
