"""The tree of zones holds for regular machines, and for any other that `check` lets through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.files.presets import load_preset, preset_names
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import description, document, hwloc, preset
from bayplan.machine.check import check
from bayplan.machine.model import Cache, Core, Device, Machine, MemoryNode, Package
from bayplan.machine.zones import Zone, build_zones

Calls = Callable[[Callable[[], object]], int]


def outline(zone: Zone) -> dict[str, Any] | str:
    """The tree without its cores, as labels."""
    inner = [outline(child) for child in zone.children if child.kind != "core"]
    return {zone.label: inner} if inner else zone.label


def assert_tree_holds(machine: Machine, root: Zone) -> None:
    owned: Counter[int] = Counter()
    devices: Counter[str] = Counter()
    cores = CpuSet()
    assert root.cpus == machine.online
    for zone in root.walk():
        owned.update(zone.own_nodes)
        devices.update(device.address for device in zone.own_devices)
        seen = CpuSet()
        for position, child in enumerate(zone.children):
            assert child.cpus <= zone.cpus
            assert child.cpus.isdisjoint(seen)
            assert child.path == (*zone.path, position)
            assert child.parent == zone.path
            assert root.at(child.path) is child
            assert child.nodes <= zone.nodes
            seen |= child.cpus
        if zone.kind == "core":
            assert not zone.children
            assert cores.isdisjoint(zone.cpus)
            cores |= zone.cpus
        elif zone.children:
            assert seen == zone.cpus
    assert cores == machine.online
    assert owned == dict.fromkeys(machine.all_nodes, 1)
    assert root.nodes == machine.all_nodes
    assert devices == {device.address: 1 for device in machine.devices}


@pytest.mark.parametrize("name", preset_names())
def test_presets_have_whole_trees(name: str) -> None:
    machine = load_preset(name)
    assert_tree_holds(machine, build_zones(machine))


def test_caches_that_divide_a_node_are_zones() -> None:
    root = build_zones(load_preset("epyc-9654-nps4"))
    assert outline(root.children[0].children[1]) == {"node 1": ["L3 24", "L3 32", "L3 40"]}


def test_a_cache_over_several_nodes_is_none() -> None:
    root = build_zones(load_preset("xeon-8480-2s-snc4"))
    assert outline(root) == {
        "machine": [
            {"package 0": ["node 0", "node 1", "node 2", "node 3"]},
            {"package 1": ["node 4", "node 5", "node 6", "node 7"]},
        ]
    }


def test_nodes_without_cpus_belong_to_their_initiators() -> None:
    root = build_zones(load_preset("xeon-max-9480-flat"))
    assert root.at((0, 2)).label == "node 2"
    assert root.at((0, 2)).own_nodes == NodeSet([2, 10])
    tray = build_zones(load_preset("gb200-tray"))
    assert tray.children[0].nodes == NodeSet([0, *range(2, 18)])


def test_devices_sit_in_the_zone_of_their_node() -> None:
    root = build_zones(load_preset("dgx-h100"))
    first = root.at((0, 0))
    assert first.kind == "node"
    assert sum(device.kind == "gpu" for device in first.devices) == 4
    assert len(root.devices) == 22
    assert not root.own_devices


def small(nodes: list[MemoryNode], **fields: Any) -> Machine:
    """Two packages of two cores without siblings."""
    defaults: dict[str, Any] = {
        "name": "small",
        "online": CpuSet.parse("0-3"),
        "packages": (Package(id=0, cpus=CpuSet.parse("0-1")), Package(id=1, cpus=CpuSet.parse("2-3"))),
        "cores": tuple(Core(id=cpu, core_id=cpu, cpus=CpuSet([cpu]), package=cpu // 2) for cpu in range(4)),
    }
    return check(Machine(**{**defaults, **fields, "nodes": tuple(nodes)}))


def node(number: int, cpus: str, **fields: Any) -> MemoryNode:
    return MemoryNode(id=number, cpus=CpuSet.parse(cpus), memory_bytes=1, **fields)


def test_a_node_may_hold_packages() -> None:
    machine = small([node(0, "0-3")])
    assert outline(build_zones(machine)) == {"machine": [{"node 0": ["package 0", "package 1"]}]}


def test_a_node_that_crosses_packages_gives_its_memory_to_what_holds_it() -> None:
    machine = small([node(0, "0"), node(1, "1-2"), node(2, "3")])
    root = build_zones(machine)
    assert root.own_nodes == NodeSet([1])
    assert outline(root) == {"machine": [{"package 0": ["node 0"]}, {"package 1": ["node 2"]}]}
    assert_tree_holds(machine, root)


def test_a_node_without_initiators_goes_to_the_closest_or_to_the_machine() -> None:
    nodes = [node(0, "0-1"), node(1, "2-3"), node(2, "")]
    assert build_zones(small(nodes)).own_nodes == NodeSet([2])
    near = build_zones(small(nodes, distances=((10, 20, 30), (20, 10, 14), (30, 14, 10))))
    assert near.at((1, 0)).own_nodes == NodeSet([1, 2])
    equal = build_zones(small(nodes, distances=((10, 20, 14), (20, 10, 14), (14, 14, 10))))
    assert equal.own_nodes == NodeSet([2])


def test_a_cache_of_one_core_is_no_zone() -> None:
    caches = tuple(Cache(level=2, kind="unified", cpus=CpuSet([cpu]), bytes=1) for cpu in range(4))
    root = build_zones(small([node(0, "0-3")], caches=caches))
    assert {zone.kind for zone in root.walk()} == {"machine", "package", "node", "core"}


def test_the_smallest_zone_around_cpus_is_found() -> None:
    root = build_zones(load_preset("epyc-9654-nps4"))
    assert root.smallest(CpuSet.parse("24,31")).label == "L3 24"
    assert root.smallest(CpuSet.parse("24,40")).label == "node 1"
    assert root.smallest(CpuSet.parse("0,40")).label == "package 0"
    assert root.smallest(CpuSet()).label == "machine"
    assert root.smallest(CpuSet.parse("24,216")).kind == "core"


def test_hwloc_machines_have_whole_trees(shared_data: Any) -> None:
    for path in (shared_data / "sysfs").glob("*.xml"):
        machine = hwloc.read(path.read_bytes(), name=path.name)
        assert_tree_holds(machine, build_zones(machine))


def test_zones_of_twice_the_cpus_take_twice_the_work(calls: Calls) -> None:
    one, two = uniform(1), uniform(2)
    assert (len(one.online), len(two.online)) == (256, 512)
    assert calls(lambda: build_zones(two)) < 2.2 * calls(lambda: build_zones(one))


def uniform(packages: int) -> Machine:
    """Packages of 128 cores of two threads, as many as two sockets have today."""
    shape: dict[str, Any] = {
        "apiVersion": document.API_VERSION,
        "kind": description.KIND,
        "summary": "large",
        "sources": [],
        "architecture": "x86_64",
        "packages": {
            "count": packages,
            "nodes": 4,
            "cores": [{"count": 128, "threads": 2, "l1d": "32Ki", "l1i": "32Ki", "l2": "1Mi"}],
            "l3": {"bytes": "32Mi", "cores": 8},
        },
        "memory": {"bytes": "96Gi"},
    }
    machine = preset.expand(description.read(shape), name="large")
    build_zones(machine)  # the machine keeps its tables of cores and nodes from now on
    return machine


def parts(draw: st.DrawFn, items: list[int], most: int) -> list[list[int]]:
    """Items dealt to at most `most` groups, none empty."""
    groups: dict[int, list[int]] = {}
    for item in items:
        groups.setdefault(draw(st.integers(0, most - 1)), []).append(item)
    return [groups[key] for key in sorted(groups)]


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Any machine that is consistent: irregular packages, nodes and caches that may cross them, nodes without CPUs."""
    cpus = sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=12)))
    core_sets = parts(draw, cpus, 12)
    package_cores = parts(draw, list(range(len(core_sets))), 3)
    package_of = {index: number for number, members in enumerate(package_cores) for index in members}
    cores = [
        Core(id=members[0], core_id=0, cpus=CpuSet(members), package=package_of[index])
        for index, members in enumerate(core_sets)
    ]
    claimed = parts(draw, [cpu for cpu in cpus if draw(st.integers(0, 9))], 4)
    bare = draw(st.integers(0 if claimed else 1, 3))
    count = len(claimed) + bare
    ids = sorted(draw(st.sets(st.integers(0, 300), min_size=count, max_size=count)))
    sets = draw(st.permutations([CpuSet(members) for members in claimed] + [CpuSet()] * bare))
    nodes = [
        MemoryNode(id=number, cpus=held, memory_bytes=0, initiators=NodeSet(draw(st.sets(st.sampled_from(ids)))))
        for number, held in zip(ids, sets, strict=True)
    ]
    caches = [Cache(level=3, kind="unified", cpus=CpuSet(members), bytes=1) for members in parts(draw, cpus, 4)]
    rows = st.lists(st.integers(10, 30), min_size=count, max_size=count).map(tuple)
    distances = tuple(draw(rows) for _ in ids) if draw(st.booleans()) else ()
    devices = [
        Device(
            address=f"{index}", kind="gpu", node=draw(st.sampled_from([None, *ids])), cpus=draw(st.sampled_from(sets))
        )
        for index in range(draw(st.integers(0, 3)))
    ]
    return check(
        Machine(
            name="any",
            online=CpuSet(cpus),
            packages=tuple(
                Package(id=number, cpus=CpuSet(cpu for index in members for cpu in core_sets[index]))
                for number, members in enumerate(package_cores)
            ),
            cores=tuple(sorted(cores, key=lambda core: core.id)),
            nodes=tuple(nodes),
            caches=tuple(sorted(caches, key=lambda cache: cache.cpus.first())),
            distances=distances,
            devices=tuple(devices),
        )
    )


@given(machines())
def test_every_consistent_machine_has_a_whole_tree(machine: Machine) -> None:
    assert_tree_holds(machine, build_zones(machine))
