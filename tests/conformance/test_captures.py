"""Every capture of a real machine is read, and agrees with what hwloc 2.9 says of it.

Packages, dies, PUs, cores, the numbers of data caches at levels 1 and 2, level 3 caches with CPUs and size, and memory
nodes with memory and locality must be equal. hwloc gives a node without CPUs the CPUs that are nearest to it; ours are
those of its initiators. Where the two readings differ on purpose, the difference is named below with its reason, and
must be just that.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan.files import open_tree
from bayplan.files.capture import capture
from bayplan.idset import CpuSet
from bayplan.machine import Machine, MemoryNode
from bayplan.machine.check import check
from bayplan.machine.counts import counts_line
from bayplan.machine.sysfs import read
from bayplan.machine.tree import Tree

# Capture -> nodes that we have and hwloc 2.9 leaves out, and why.
MORE_NODES: dict[str, tuple[tuple[int, ...], str]] = {
    "8em64t-2s2ca2c-buggynuma": (
        (1, 2, 3, 4, 5, 6, 7),
        "all eight nodes claim all CPUs; hwloc drops all but the first, we keep the memory of the others and say so",
    ),
    "fakeheterocpunuma": (
        (4, 5),
        "nodes claim CPUs of earlier ones; hwloc drops them, we leave them the CPUs that are theirs alone and say so",
    ),
    "nvidiagpunumanodes": (
        (250, 251, 252, 253, 254, 255),
        "memory of GPUs, which hwloc leaves out unless HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES is set",
    ),
}
# Capture -> node without CPUs whose locality hwloc leaves empty, and why.
NO_LOCALITY: dict[str, tuple[int, str]] = {
    "128ia64-17n4s2c": (16, "every node with CPUs is equally near: hwloc names none of them, we name all"),
}
MADE = {
    "t1": "packages=2 dies=4 numa=5 cores=16 pus=32 l2=16 l3=4",
    "t3": "packages=2 dies=0 numa=4 cores=14 pus=14 l2=14 l3=3",
    "t4": "packages=2 dies=0 numa=3 cores=4 pus=8 l2=4 l3=2",
}
CAPTURES = (
    "128ia64-17n4s2c",
    "16amd64-4n4c-cgroup-distance-merge",
    "16amd64-8n2c",
    "16amd64-8n2c-cpusets",
    "16em64t-4s2c2t",
    "16em64t-4s2ca2c-cpusetreorder",
    "16ia64-8n2s",
    "20em64t-hybrid-1p6c2t+2ca4co1t",
    "20s390-2g6s4c",
    "256ia64-64n2s2c",
    "256ppc-8n8s4t",
    "2arm-2c",
    "2i386-2c-nohugepage",
    "2i386-2t-hugepagesizecount",
    "2pa-pcidomain32bits",
    "2ps3-2t",
    "32amd64-4s2n4c-cgroup2",
    "32em64t-2n8c+dax+nvme+mic+dimms",
    "32intel64-2p8co2t+8ve",
    "40intel64-2g2n4c+pcilocality",
    "4fake-4gr1nu1pu",
    "64amd64-4s2n4ca2co",
    "64fake-4n2s2ca2c2t",
    "8em64t-2s2ca2c",
    "8em64t-2s2ca2c-buggynuma",
    "8ia64-2n2s2c",
    "8ia64-2s2c2t",
    "fakecpuid1f-64intel64-2p4d2n2c2t",
    "fakeheterocpunuma",
    "fakememinitiators-1np2c+1npp+gi",
    "fakepcilocalities",
    "memorysidecaches",
    "nvidiagpunumanodes",
    "offline-cpu0-node0",
)


@cache
def machine_in(path: Path) -> Machine:
    return read(open_tree(path), source=path.name)


@cache
def references(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "sysfs" / "reference.json").read_text())
    return content


@pytest.fixture(params=CAPTURES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def machine(name: str, shared_data: Path) -> Machine:
    return machine_in(shared_data / "sysfs" / f"{name}.tar.bz2")


@pytest.fixture
def reference(name: str, shared_data: Path) -> dict[str, Any]:
    found: dict[str, Any] = references(shared_data)[f"{name}.tar.bz2"]
    return found


def test_every_capture_is_among_those_compared(shared_data: Path) -> None:
    there = {path.name.removesuffix(".tar.bz2") for path in (shared_data / "sysfs").glob("*.tar.bz2")}
    assert there == set(CAPTURES)


def test_packages_dies_cores_and_cpus_agree(machine: Machine, reference: dict[str, Any]) -> None:
    assert sorted(str(package.cpus) for package in machine.packages) == sorted(reference["packages"])
    assert sorted(str(die.cpus) for die in machine.dies) == sorted(reference["dies"])
    assert sum(core.core_id >= 0 for core in machine.cores) == reference["cores"]
    assert str(machine.online) == reference["pus"]


def test_caches_agree(machine: Machine, reference: dict[str, Any]) -> None:
    assert len(machine.caches_at(1)) == reference["l1d"]
    assert len(machine.caches_at(2)) == reference["l2"]
    assert sorted((str(cache.cpus), cache.bytes) for cache in machine.caches_at(3)) == sorted(
        (cache["cpus"], cache["bytes"]) for cache in reference["l3"]
    )


def test_memory_nodes_agree(name: str, machine: Machine, reference: dict[str, Any]) -> None:
    more, _ = MORE_NODES.get(name, ((), ""))
    ours = {node.id: (locality(machine, node), node.memory_bytes) for node in machine.nodes}
    assert set(more) <= set(ours)
    theirs = {node["id"]: (node["cpus"], node["memory_bytes"]) for node in reference["numa"]}
    if name in NO_LOCALITY:
        node, _ = NO_LOCALITY[name]
        assert theirs[node][0] == ""
        theirs[node] = (str(machine.online), theirs[node][1])
    assert {node: told for node, told in ours.items() if node not in more} == theirs
    kinds = {None: machine.node_by_id, "NVM": {n.id for n in machine.nodes if n.kind == "pmem"}}
    assert all(node["id"] in kinds[node["subtype"]] for node in reference["numa"])


def test_the_counts_line_agrees(name: str, machine: Machine, reference: dict[str, Any]) -> None:
    more, _ = MORE_NODES.get(name, ((), ""))
    lengths = {key: len(reference[key]) for key in ("packages", "dies", "numa", "l3")}
    assert counts_line(machine) == (
        f"packages={lengths['packages']} dies={lengths['dies']} numa={lengths['numa'] + len(more)} "
        f"cores={reference['cores']} pus={len(CpuSet.parse(reference['pus']))} l2={reference['l2']} l3={lengths['l3']}"
    )


def test_a_machine_is_sound(machine: Machine) -> None:
    check_sound(machine)


def test_a_capture_of_the_capture_is_the_same_machine(
    machine: Machine, name: str, shared_data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.tar.gz"
    capture(shared_data / "sysfs" / f"{name}.tar.bz2", out)
    assert msgspec.structs.replace(read(open_tree(out)), source=machine.source) == machine


@pytest.mark.parametrize("made", MADE)
def test_a_made_machine_is_what_the_kernel_saw(made: str, shared_data: Path) -> None:
    machine = machine_in(shared_data / "sysfs-made" / f"{made}.tgz")
    check_sound(machine)
    assert machine.findings == ()
    assert counts_line(machine) == MADE[made]


def test_t1_has_dies_and_nodes_without_memory_or_cpus(shared_data: Path) -> None:
    machine = machine_in(shared_data / "sysfs-made" / "t1.tgz")
    assert [(die.package, die.id, str(die.cpus)) for die in machine.dies] == [
        (0, 0, "0-7"),
        (0, 1, "8-15"),
        (1, 0, "16-23"),
        (1, 1, "24-31"),
    ]
    assert [(str(node.cpus), node.memory_bytes // 2**20) for node in machine.nodes] == [
        ("0-7", 469),
        ("8-15", 501),
        ("16-23", 501),
        ("24-31", 0),
        ("", 1004),
    ]
    assert machine.distances[0] == (10, 12, 21, 21, 17)
    assert machine.distances[3] == (21, 21, 12, 10, 28)


def test_t3_has_offline_and_isolated_cpus(shared_data: Path) -> None:
    machine = machine_in(shared_data / "sysfs-made" / "t3.tgz")
    assert (str(machine.online), str(machine.offline)) == ("0-13", "14-15")
    assert (str(machine.isolated), str(machine.nohz_full)) == ("4-7", "")
    assert str(machine.nodes[3].cpus) == ""
    assert machine.nodes[3].kind == "dram"  # its only CPU, 15, is offline


def test_t4_has_firmware_figures(shared_data: Path) -> None:
    machine = machine_in(shared_data / "sysfs-made" / "t4.tgz")
    far = machine.nodes[2]
    assert (str(far.cpus), str(far.initiators), far.kind) == ("", "0", "unknown")
    assert far.access is not None
    assert (far.access.read_bandwidth_mibps, far.access.read_latency_ns) == (1024, 90)


def test_what_is_special_about_some_captures_is_in_the_model(shared_data: Path) -> None:
    def captured(name: str) -> Machine:
        return machine_in(shared_data / "sysfs" / f"{name}.tar.bz2")

    hybrid = captured("20em64t-hybrid-1p6c2t+2ca4co1t")
    assert [str(kind.cpus) for kind in hybrid.core_kinds] == ["0-11", "12-19"]
    assert [str(cluster.cpus) for cluster in hybrid.clusters] == ["12-15", "16-19"]
    assert {(r.base_khz, r.max_khz) for r in hybrid.frequencies} == {
        (1_900_000, 5_000_000),
        (1_900_000, 5_200_000),
        (1_400_000, 3_900_000),
    }
    gpus = captured("nvidiagpunumanodes")
    assert [node.kind for node in gpus.nodes] == ["dram"] * 2 + ["gpu"] * 6
    assert {(device.kind, device.resource) for device in gpus.devices} == {("gpu", "nvidia.com/gpu")}
    assert [node.side_caches[0].bytes for node in captured("memorysidecaches").nodes] == [96 * 2**30] * 4
    vector_engines = captured("32intel64-2p8co2t+8ve").devices
    assert sum(device.resource == "nec.com/ve" for device in vector_engines) == 8
    assert str(captured("offline-cpu0-node0").offline) == "0-3,21-23"
    assert {kind.name for kind in captured("fakeheterocpunuma").core_kinds} == {"foo_bar", "foo_baz"}


def test_contradictions_are_told(shared_data: Path) -> None:
    for name in ("8em64t-2s2ca2c-buggynuma", "fakeheterocpunuma", "64amd64-4s2n4ca2co", "64fake-4n2s2ca2c2t"):
        assert machine_in(shared_data / "sysfs" / f"{name}.tar.bz2").findings, name
    for name in ("16ia64-8n2s", "256ia64-64n2s2c", "memorysidecaches", "40intel64-2g2n4c+pcilocality"):
        assert not machine_in(shared_data / "sysfs" / f"{name}.tar.bz2").findings, name


@pytest.mark.parametrize("name", ["256ppc-8n8s4t", "32em64t-2n8c+dax+nvme+mic+dimms"])
def test_no_file_of_the_largest_captures_is_read_twice(shared_data: Path, name: str) -> None:
    tree = CountingTree(open_tree(shared_data / "sysfs" / f"{name}.tar.bz2"))
    read(tree)
    assert set(tree.reads.values()) == {1}


def test_this_very_machine_is_sound() -> None:
    check_sound(read(open_tree("/"), source="/"))


def locality(machine: Machine, node: MemoryNode) -> str:
    """The node's CPUs, or for a node without any those of its initiators."""
    cpus = node.cpus
    for initiator in () if cpus else node.initiators:
        cpus = cpus | machine.node_by_id[initiator].cpus
    return str(cpus)


class CountingTree:
    """Counts what is read."""

    def __init__(self, tree: Tree) -> None:
        self.reads: Counter[str] = Counter()
        self.list = tree.list
        self.link = tree.link
        self._tree = tree

    def read(self, path: str) -> str | None:
        self.reads[path] += 1
        return self._tree.read(path)


def check_sound(machine: Machine) -> None:
    """What every machine holds to, however its files contradict each other."""
    assert check(machine) is machine
    cores = [cpu for core in machine.cores for cpu in core.cpus]
    assert sorted(cores) == list(machine.online)
    assert machine.online.isdisjoint(machine.offline)
    assert machine.isolated <= machine.online
    for parts in (machine.packages, machine.nodes, machine.clusters, machine.core_kinds, machine.frequencies):
        claimed = [cpu for part in parts for cpu in part.cpus]
        assert len(claimed) == len(set(claimed))
        assert set(claimed) <= set(machine.online)
    for level, kind in {(c.level, c.kind) for c in machine.caches}:
        shared = [cpu for c in machine.caches if (c.level, c.kind) == (level, kind) for cpu in c.cpus]
        assert len(shared) == len(set(shared))
    packages = {package.id for package in machine.packages} or {0}
    assert {core.package for core in machine.cores} == packages
    assert all(len(row) == len(machine.nodes) for row in machine.distances)
    assert [node.id for node in machine.nodes] == sorted({node.id for node in machine.nodes})
    assert all(device.node is None or device.node in machine.node_by_id for device in machine.devices)
