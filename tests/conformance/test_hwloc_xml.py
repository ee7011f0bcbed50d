"""hwloc's own test topologies read as `reference.json` beside them says.

Where the two may differ, the file is named here with the reason, and what is compared instead.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.idset import CpuSet
from bayplan.machine import hwloc
from bayplan.machine.model import Machine

OFFLINE = (
    "the reference gives sets with the CPUs that are off (complete_cpuset); a Machine names online CPUs only, so the "
    "sets of the reference are cut to its PUs first"
)
DIFFERENT = {"16em64t-4s2c2t-offlines.xml": OFFLINE}

FINDINGS = {
    "16amd64-8n2c-cpusets.xml": ["CPUs 4,7-11 are known but not there; taken as offline"],
    "16em64t-4s2c2t-offlines.xml": ["CPUs 2,5,7-11,13-14 are known but not there; taken as offline"],
    "32em64t-2n8c2t-pci-normalio.xml": ["a second device at 0000:04:00.0; left out"],
    "32em64t-2n8c2t-pci-wholeio.xml": ["a second device at 0000:04:00.0; left out"],
    "8intel64-4n2t-memattrs.xml": ["CPUs 0-7 are in none; each is taken as one"],
    "fakeheterodistances.xml": ["CPUs 0,6,12,18,24,30,36,42 are in none; each is taken as one"],
}


def topologies(shared_data: Path) -> dict[str, Path]:
    return {path.name: path for path in sorted((shared_data / "sysfs").glob("*.xml"))}


def told(machine: Machine) -> dict[str, Any]:
    """What the reference has, of our machine. A core that the file does not tell (`core_id` -1) is none there."""
    return {
        "pus": str(machine.online),
        "packages": [str(package.cpus) for package in machine.packages],
        "dies": [str(die.cpus) for die in machine.dies],
        "cores": sum(core.core_id >= 0 for core in machine.cores),
        "numa": [(node.id, str(node.cpus), node.memory_bytes) for node in machine.nodes],
        "l1d": len(machine.caches_at(1)),
        "l2": len(machine.caches_at(2)),
        "l3": [(str(cache.cpus), cache.bytes) for cache in machine.caches_at(3)],
    }


def expected(reference: dict[str, Any], *, cut: bool) -> dict[str, Any]:
    online = CpuSet.parse(reference["pus"])

    def cpus(text: str) -> str:
        return str(CpuSet.parse(text) & online) if cut else text

    return {
        "pus": reference["pus"],
        "packages": [cpus(text) for text in reference["packages"]],
        "dies": [cpus(text) for text in reference["dies"]],
        "cores": reference["cores"],
        "numa": [(node["id"], cpus(node["cpus"]), node["memory_bytes"]) for node in reference["numa"]],
        "l1d": reference["l1d"],
        "l2": reference["l2"],
        "l3": sorted(
            ((cpus(cache["cpus"]), cache["bytes"]) for cache in reference["l3"]),
            key=lambda cache: CpuSet.parse(cache[0]).first(),
        ),
    }


def test_every_topology_reads_as_its_reference_says(shared_data: Path) -> None:
    references = json.loads((shared_data / "sysfs" / "reference.json").read_text())
    files = topologies(shared_data)
    assert len(files) >= 18
    wrong = {}
    for name, path in files.items():
        machine = hwloc.read(path.read_bytes(), name=name, source=name)
        ours, theirs = told(machine), expected(references[name], cut=name in DIFFERENT)
        if ours != theirs:
            wrong[name] = {field: (ours[field], theirs[field]) for field in ours if ours[field] != theirs[field]}
    assert not wrong


def test_what_is_inconsistent_is_said_and_nothing_else(shared_data: Path) -> None:
    for name, path in topologies(shared_data).items():
        machine = hwloc.read(path.read_bytes(), name=name)
        assert [finding.problem for finding in machine.findings] == FINDINGS.get(name, []), name


@pytest.fixture
def read(shared_data: Path) -> Any:
    return lambda name: hwloc.read((shared_data / "sysfs" / name).read_bytes(), name=name)


def test_dgx2_gpus_hang_on_their_nodes_and_are_linked_to_the_switches(read: Any) -> None:
    machine = read("nvidiaDGX2.xml")
    gpus = [device for device in machine.devices if device.kind == "gpu"]
    switches = {device.address for device in machine.devices if device.kind == "bridge"}
    assert [gpu.node for gpu in gpus] == [0] * 8 + [1] * 8
    assert {gpu.name for gpu in gpus} == {"Tesla V100-SXM3-32GB-H"}
    assert {gpu.resource for gpu in gpus} == {"nvidia.com/gpu"}
    assert len(switches) == 12
    assert all(len(gpu.links) == 6 and set(gpu.links) <= switches for gpu in gpus)


def test_memory_side_caches_stand_before_their_nodes(read: Any) -> None:
    machine = read("memorysidecaches.xml")
    assert [[(c.level, c.bytes, c.line_bytes) for c in node.side_caches] for node in machine.nodes] == [
        [(1, 103079215104, 64)]
    ] * 4


def test_distances_follow_the_numbers_of_the_nodes_and_not_the_order_of_the_file(read: Any) -> None:
    machine = read("16amd64-4distances.xml")
    assert all(machine.distance(node, node) == 10 for node in range(8))
    assert machine.distance(0, 1) == 20


def test_the_wider_matrix_of_24_nodes_is_read(read: Any) -> None:
    machine = read("192em64t-24n8c2t.xml")
    assert len(machine.distances) == 24
    assert machine.distances[0][:3] == (10, 50, 65)


def test_bandwidth_is_taken_from_the_best_initiator(read: Any) -> None:
    machine = read("8intel64-4n2t-memattrs.xml")
    access = machine.node_by_id[1].access
    assert access is not None
    assert (access.read_bandwidth_mibps, access.write_bandwidth_mibps, access.read_latency_ns) == (20, 20, None)


def test_core_kinds_are_read_with_their_frequencies(read: Any) -> None:
    machine = read("fakecpukinds.xml")
    assert [(kind.name, str(kind.cpus)) for kind in machine.core_kinds] == [
        ("MySmallCore", "0-1"),
        ("YouBigcore", "2"),
        ("core", "3"),
    ]
    assert [limits.max_khz for limits in machine.frequencies] == [1_000_000, 2_000_000, 2_000_000]


def test_nothing_that_identifies_a_machine_is_taken_along(read: Any) -> None:
    text = repr(read("nvidiaDGX2.xml")) + repr(read("16intel64-manyVFs.xml")) + repr(read("cxlmem+dax.v3.xml"))
    for secret in ("0321019030775", "GPU-d3977428", "52:54:00:12:34:56", "QM00001"):
        assert secret not in text
