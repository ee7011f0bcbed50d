from __future__ import annotations

from collections.abc import Callable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import Cache, Core, Device, Die, Machine, MemoryNode, Package
from bayplan.report.layout import Box, all_cores, kind_marks, layout, like, per_row, runs

sets = st.frozensets(st.integers(min_value=0, max_value=23), max_size=24).map(CpuSet)


def cpus_of_cores(root: Box) -> list[int]:
    return sorted(cpu for core in all_cores(root) for cpu in core.cpus)


def shape(box: Box) -> object:
    return (box.kind, box.id, [shape(child) for child in box.children])


def test_every_cpu_is_in_exactly_one_core(machine: Machine) -> None:
    assert cpus_of_cores(layout(machine)) == list(machine.online)


def test_every_memory_node_and_device_has_one_place(machine: Machine) -> None:
    root = layout(machine)
    boxes = [root, *runs(root.children)]
    with_cpus = [box.node.id for box in boxes if box.node is not None]
    without = [node.id for box in boxes for node in box.memory]
    assert sorted(with_cpus + without) == [node.id for node in machine.nodes]
    assert sorted(d.address for box in boxes for d in box.devices) == [d.address for d in machine.devices]


@given(
    sets, st.lists(sets, max_size=5), st.lists(sets, max_size=5), st.lists(sets, max_size=5), st.lists(sets, max_size=8)
)
def test_sets_that_contradict_each_other_lose_no_cpu_and_double_none(
    online: CpuSet, packages: list[CpuSet], nodes: list[CpuSet], caches: list[CpuSet], cores: list[CpuSet]
) -> None:
    machine = Machine(
        name="contradictory",
        online=online,
        cores=tuple(Core(id=c.first(), core_id=i, cpus=c, package=0) for i, c in enumerate(cores) if c),
        packages=tuple(Package(id=i, cpus=c) for i, c in enumerate(packages)),
        nodes=tuple(MemoryNode(id=i, cpus=c, memory_bytes=1) for i, c in enumerate(nodes)),
        dies=tuple(Die(id=i, package=0, cpus=c) for i, c in enumerate(nodes)),
        caches=tuple(Cache(level=3, kind="unified", cpus=c, bytes=0) for c in caches),
        devices=(Device(address="a", kind="gpu", node=77, cpus=online),),
    )
    root = layout(machine)
    assert cpus_of_cores(root) == list(online)
    for box in runs(root.children):
        inside = [cpu for child in box.children for cpu in child.cpus] + [cpu for c in box.cores for cpu in c.cpus]
        assert sorted(inside) == list(box.cpus)


def test_a_node_may_hold_packages_and_a_cache_may_hold_nodes(small_machine: Machine) -> None:
    whole = MemoryNode(id=0, cpus=small_machine.online, memory_bytes=1)
    interleaved = msgspec.structs.replace(small_machine, nodes=(whole,), caches=(), devices=())
    assert shape(layout(interleaved)) == ("machine", 0, [("node", 0, [("package", 0, []), ("package", 1, [])])])
    shared = tuple(Cache(level=3, kind="unified", cpus=p.cpus, bytes=1) for p in small_machine.packages)
    clustered = msgspec.structs.replace(small_machine, caches=shared)
    package = layout(clustered).children[0]
    assert shape(package) == ("package", 0, [("cache", 3, [("node", 0, []), ("node", 1, [])])])


def test_nodes_without_cpus_go_to_the_package_that_reaches_them(
    make_machine: dict[str, Callable[[], Machine]],
) -> None:
    root = layout(make_machine["gpu_tray"]())
    assert [[n.id for n in package.memory] for package in root.children] == [[*range(2, 18)], [*range(18, 34)]]
    assert [ids for ids, _ in like(root.children[0].memory)] == [NodeSet(range(2, 18))]


def test_caches_of_the_same_cpus_share_a_box(small_machine: Machine) -> None:
    second = tuple(msgspec.structs.replace(cache, level=2, bytes=1 << 20) for cache in small_machine.caches)
    both = msgspec.structs.replace(small_machine, caches=(*second, *small_machine.caches))
    boxes = [box for box in runs(layout(both).children) if box.kind == "cache"]
    assert [(box.id, box.label) for box in boxes] == [(3, "L2 1 MiB")] * 4


def test_core_kinds_get_distinct_marks(make_machine: dict[str, Callable[[], Machine]]) -> None:
    machine = make_machine["hybrid"]()
    assert kind_marks(machine) == {"performance": "P", "efficient": "E"}
    same = tuple(msgspec.structs.replace(kind, name=f"p{i}") for i, kind in enumerate(machine.core_kinds))
    assert len(set(kind_marks(msgspec.structs.replace(machine, core_kinds=same)).values())) == 2


def test_boxes_stand_in_even_rows() -> None:
    assert per_row(8, 70, 10, 0) == 4
    assert per_row(2, 80, 30, 1) == 2
    assert per_row(3, 10, 30, 1) == 1
    assert per_row(7, 40, 10, 0) == 4
