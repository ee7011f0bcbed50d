"""CPU caches, each once, with the CPUs that share it.

Never counts one cache twice because two CPUs name it, and never merges two because they look alike. Facts:
Documentation/ABI/testing/sysfs-devices-system-cpu (`cache/indexN`); older kernels have `shared_cpu_map` only.
"""

from __future__ import annotations

import re

from bayplan.idset import CpuSet
from bayplan.machine.model import Cache, CacheKind, Core
from bayplan.machine.sysfs.cpus import CPU
from bayplan.machine.sysfs.facts import Facts

_MAX_INDEX = 31
_MAX_LEVEL = 9
_SIZE = re.compile(r"(\d{1,15})([KMG]?)", re.ASCII)
_UNIT = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_KINDS: dict[str, CacheKind] = {"Data": "data", "Instruction": "instruction", "Unified": "unified"}


def read_caches(facts: Facts, online: CpuSet, cores: tuple[Core, ...]) -> tuple[Cache, ...]:
    """All caches, by level, kind and first CPU.

    Only the shared CPUs are read for every CPU; the rest of a cache's files from the first CPU that names it.
    """
    caches: dict[tuple[int, CacheKind, CpuSet], Cache] = {}
    read: set[tuple[int, CpuSet]] = set()
    core_cpus = {cpu: core.cpus for core in cores for cpu in core.cpus}
    for cpu in online:
        for index in facts.numbered(f"{CPU}/cpu{cpu}/cache", "index", _MAX_INDEX):
            folder = f"{CPU}/cpu{cpu}/cache/index{index}"
            sharers = _sharers(facts, folder, cpu, core_cpus[cpu]) & online
            if (index, sharers) in read:
                continue
            read.add((index, sharers))
            cache = _read_cache(facts, folder, sharers)
            if cache is not None:
                caches.setdefault((cache.level, cache.kind, sharers), cache)
    ordered = sorted(caches.values(), key=lambda c: (c.level, c.kind, c.cpus.first()))
    return _without_overlaps(facts, ordered)


def _sharers(facts: Facts, folder: str, cpu: int, core_cpus: CpuSet) -> CpuSet:
    sharers = facts.cpus(f"{folder}/shared_cpu_map", f"{folder}/shared_cpu_list")
    if not sharers:  # Itaniums and some virtual machines leave it empty; threads of a core share its caches at least
        return core_cpus
    if cpu not in sharers:
        facts.note(folder, f"shared by CPUs {sharers}, which CPU {cpu} is not among; taken as its core's own")
        return core_cpus
    return sharers


def _read_cache(facts: Facts, folder: str, sharers: CpuSet) -> Cache | None:
    level = facts.number(f"{folder}/level", most=_MAX_LEVEL)
    kind = _KINDS.get(facts.text(f"{folder}/type") or "")
    if not level or kind is None:
        facts.note(folder, "level or type of this cache is missing or unknown; the cache is left out")
        return None
    return Cache(
        level=level,
        kind=kind,
        cpus=sharers,
        bytes=_size(facts, f"{folder}/size"),
        line_bytes=facts.number(f"{folder}/coherency_line_size", most=2**20) or 0,
        ways=facts.number(f"{folder}/ways_of_associativity", most=2**20) or 0,
    )


def _size(facts: Facts, path: str) -> int:
    content = facts.text(path)
    if not content:
        return 0
    found = _SIZE.fullmatch(content)
    if found is None:
        facts.note(path, f"{content[:40]!r} is not a size such as 32K; taken as not known")
        return 0
    return int(found.group(1)) * _UNIT[found.group(2)]


def _without_overlaps(facts: Facts, caches: list[Cache]) -> tuple[Cache, ...]:
    """Drop a cache whose CPUs another of its level and kind has already: a CPU has one of each."""
    kept = []
    taken: dict[tuple[int, CacheKind], CpuSet] = {}
    for cache in caches:
        before = taken.get((cache.level, cache.kind), CpuSet())
        if not before.isdisjoint(cache.cpus):
            facts.note(
                f"{CPU}/cpu{cache.cpus.first()}/cache",
                f"level {cache.level} {cache.kind} cache of CPUs {cache.cpus} overlaps another; it is left out",
            )
            continue
        taken[cache.level, cache.kind] = before | cache.cpus
        kept.append(cache)
    return tuple(kept)
