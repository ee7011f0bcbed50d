"""A Machine that contradicts itself is refused, and the message names the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from bayplan.errors import InputError
from bayplan.files.presets import load_preset, preset_names
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine.check import check
from bayplan.machine.model import (
    Cache,
    Core,
    CoreKind,
    Device,
    Die,
    FrequencyRange,
    HugepagePool,
    Machine,
    MemoryAccess,
    MemoryNode,
    Package,
)

ALL = CpuSet.parse("0-3")
LOW = CpuSet.parse("0-1")
HIGH = CpuSet.parse("2-3")
TWO = Machine(
    name="two",
    online=ALL,
    packages=(Package(id=0, cpus=LOW), Package(id=1, cpus=HIGH)),
    cores=(Core(id=0, core_id=0, cpus=LOW, package=0), Core(id=2, core_id=0, cpus=HIGH, package=1)),
    nodes=(MemoryNode(id=0, cpus=LOW, memory_bytes=1024), MemoryNode(id=1, cpus=HIGH, memory_bytes=1024)),
    distances=((10, 20), (20, 10)),
)


def core(**changes: Any) -> tuple[Core, ...]:
    return (TWO.cores[0], msgspec.structs.replace(TWO.cores[1], **changes))


def node(**changes: Any) -> tuple[MemoryNode, ...]:
    return (TWO.nodes[0], msgspec.structs.replace(TWO.nodes[1], **changes))


def cache(cpus: CpuSet, **changes: Any) -> Cache:
    return msgspec.structs.replace(Cache(level=3, kind="unified", cpus=cpus, bytes=1), **changes)


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_consistent(name: str) -> None:
    machine = load_preset(name)
    assert check(machine) is machine


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"online": CpuSet()}, "online: no CPU is online"),
        ({"online": ALL | CpuSet([5])}, "cores: CPUs without a core: '5'"),
        ({"offline": CpuSet([3])}, "offline: CPUs are both online and offline: '3'"),
        ({"isolated": CpuSet([4])}, "isolated: CPUs that do not belong here: '4'"),
        ({"packages": TWO.packages[::-1]}, r"packages\[1\].id: not in ascending order: 0"),
        ({"packages": (Package(id=0, cpus=ALL), Package(id=1, cpus=HIGH))}, r"packages\[1\].cpus: CPUs that another"),
        ({"packages": (Package(id=0, cpus=LOW),)}, r"cores\[1\].package: no such part"),
        ({"packages": (*TWO.packages, Package(id=2, cpus=CpuSet()))}, r"packages\[2\].cpus: no CPU"),
        ({"packages": (Package(id=0, cpus=LOW, model="\x1b[2J"), TWO.packages[1])}, r"model: not printable"),
        ({"dies": (Die(id=0, package=7, cpus=LOW),)}, r"dies\[0\].package: no such package: 7"),
        ({"dies": (Die(id=0, package=0, cpus=HIGH),)}, r"dies\[0\].cpus: CPUs that do not belong here"),
        ({"cores": core(id=3)}, r"cores\[1\].id: not the smallest CPU of the core: 3"),
        ({"cores": core(cpus=ALL)}, r"cores\[1\].cpus: CPUs that another"),
        ({"cores": core(package=0)}, r"cores\[1\].package: does not hold all CPUs"),
        ({"cores": core(die=0)}, r"cores\[1\].die: no such part"),
        ({"cores": core(cluster=0)}, r"cores\[1\].cluster: no such part"),
        ({"nodes": (), "distances": ()}, "nodes: no memory node"),
        ({"nodes": node(id=0)}, r"nodes\[1\].id: not unique"),
        ({"nodes": node(cpus=CpuSet([4]))}, r"nodes\[1\].cpus: CPUs that do not belong here"),
        ({"nodes": node(cpus=LOW)}, r"nodes\[1\].cpus: CPUs that another of the nodes has"),
        ({"nodes": node(initiators=NodeSet([5]))}, r"nodes\[1\].initiators: no such node: '5'"),
        ({"nodes": node(memory_bytes=2**63)}, r"nodes\[1\].memory_bytes: out of range"),
        ({"nodes": node(memory_bytes=-1)}, r"nodes\[1\].memory_bytes: out of range: -1"),
        ({"nodes": node(hugepages=(HugepagePool(page_bytes=1024, count=2),))}, "hugepages: more than the memory"),
        ({"nodes": node(access=MemoryAccess(read_latency_ns=-1))}, "access.read_latency_ns: out of range"),
        ({"distances": ((10, 20),)}, "distances: not one row a memory node: 1"),
        ({"distances": ((10, 20), (20,))}, r"distances\[1\]: not square"),
        ({"distances": ((10, 20), (20, -1))}, r"distances\[1\]: distance out of range"),
        ({"caches": (cache(ALL), cache(LOW))}, r"caches\[1\].cpus: in two level 3 unified caches"),
        ({"caches": (cache(ALL, level=0),)}, r"caches\[0\].level: out of range"),
        ({"caches": (cache(CpuSet()),)}, r"caches\[0\].cpus: no CPU"),
        ({"core_kinds": (CoreKind(name="x", cpus=CpuSet([9])),)}, r"core_kinds\[0\].cpus"),
        ({"frequencies": (FrequencyRange(cpus=ALL, min_khz=2, max_khz=1),)}, "min_khz: above max_khz"),
        ({"devices": (Device(address="", kind="gpu"),)}, r"devices\[0\].address: out of range"),
        ({"devices": (Device(address="a", kind="gpu", node=7),)}, r"devices\[0\].node: no such memory node: 7"),
        ({"devices": (Device(address="a", kind="gpu", links=("b",)),)}, r"devices\[0\].links\[0\]: no such device"),
        ({"name": "x" * 5000}, "name: too long"),
    ],
)
def test_a_contradiction_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(
        InputError, match=f"^{message}" if message[:4] not in ("mode", "huge", "acce", "min_") else message
    ):
        check(msgspec.structs.replace(TWO, **changes))


def test_the_source_is_named() -> None:
    with pytest.raises(InputError, match=r"^x\.json: online: no CPU"):
        check(msgspec.structs.replace(TWO, online=CpuSet(), source="x.json"))


def test_twice_the_machine_takes_twice_the_work(calls: Callable[[Callable[[], object]], int]) -> None:
    small, large = load_preset("epyc-9654-nps4"), load_preset("superdome-flex-32s")
    assert check(small) is small  # which has both keep their tables
    assert check(large) is large
    cpus = len(large.online) / len(small.online)
    assert calls(lambda: check(large)) < 1.3 * cpus * calls(lambda: check(small))
