"""The line that says how large a machine is."""

from __future__ import annotations

from bayplan.idset import CpuSet
from bayplan.machine import Cache, Core, Die, Machine, MemoryNode, Package
from bayplan.machine.counts import counts_line


def machine(*, core_ids: tuple[int, int] = (0, 1), dies: tuple[Die, ...] = ()) -> Machine:
    both = CpuSet((0, 1))
    return Machine(
        name="two",
        online=both,
        cores=tuple(Core(id=i, core_id=core_ids[i], cpus=CpuSet((i,)), package=0) for i in range(2)),
        packages=(Package(id=0, cpus=both),),
        nodes=(MemoryNode(id=0, cpus=both, memory_bytes=0), MemoryNode(id=2, cpus=CpuSet(), memory_bytes=1)),
        dies=dies,
        caches=(
            Cache(level=2, kind="instruction", cpus=both, bytes=1),
            Cache(level=2, kind="data", cpus=both, bytes=1),
            Cache(level=3, kind="unified", cpus=both, bytes=1),
        ),
    )


def test_everything_is_counted_but_instruction_caches() -> None:
    assert counts_line(machine()) == "packages=1 dies=0 numa=2 cores=2 pus=2 l2=1 l3=1"


def test_cores_that_the_kernel_does_not_tell_are_not_counted() -> None:
    assert counts_line(machine(core_ids=(-1, -1))) == "packages=1 dies=0 numa=2 cores=0 pus=2 l2=1 l3=1"


def test_dies_are_counted_where_there_are_any() -> None:
    dies = tuple(Die(id=i, package=0, cpus=CpuSet((i,))) for i in range(2))
    assert "dies=2" in counts_line(machine(dies=dies))
