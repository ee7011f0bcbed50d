"""The machines that come with Bayplan: what is publicly known of each, as the model says it."""

from __future__ import annotations

import pytest

from bayplan.errors import InputError
from bayplan.files.presets import load_preset, preset_description, preset_names
from bayplan.idset import CpuSet, NodeSet

SHAPES = {  # packages, CPUs, cores, nodes, nodes with CPUs, L3 caches
    "ampere-altra-2p": (2, 256, 256, 2, 2, 0),
    "core-i9-14900k": (1, 32, 24, 1, 1, 1),
    "dgx-h100": (2, 224, 112, 2, 2, 2),
    "epyc-9654-nps1": (2, 384, 192, 2, 2, 24),
    "epyc-9654-nps4": (2, 384, 192, 8, 8, 24),
    "gb200-tray": (2, 144, 144, 34, 2, 2),
    "gh200": (1, 72, 72, 9, 1, 1),
    "power9-ac922": (2, 160, 40, 6, 2, 20),
    "superdome-flex-32s": (32, 1792, 896, 64, 64, 32),
    "xeon-8480-2s-snc4": (2, 224, 112, 8, 8, 2),
    "xeon-max-9480-flat": (2, 224, 112, 16, 8, 2),
}


def test_every_preset_is_pinned_here() -> None:
    assert set(preset_names()) == set(SHAPES)


@pytest.mark.parametrize("name", SHAPES)
def test_a_preset_has_the_shape_of_the_machine(name: str) -> None:
    machine = load_preset(name)
    shape = (
        len(machine.packages),
        len(machine.online),
        len(machine.cores),
        len(machine.nodes),
        sum(1 for node in machine.nodes if node.cpus),
        len(machine.caches_at(3)),
    )
    assert shape == SHAPES[name]
    assert machine.name == name
    assert machine.source == f"preset:{name}"
    assert not machine.findings


@pytest.mark.parametrize("name", SHAPES)
def test_every_preset_names_its_sources(name: str) -> None:
    description = preset_description(name)
    assert description.summary
    assert description.sources
    assert all(source.title and source.gives for source in description.sources)


def test_epyc_nps4_numbers_cpus_as_linux_does() -> None:
    machine = load_preset("epyc-9654-nps4")
    assert machine.nodes[0].cpus == CpuSet.parse("0-23,192-215")
    assert machine.nodes[7].cpus == CpuSet.parse("168-191,360-383")
    assert machine.core_of[0].cpus == CpuSet.parse("0,192")
    assert machine.distances[0] == (10, 12, 12, 12, 32, 32, 32, 32)


def test_dgx_h100_has_its_cards_on_the_right_nodes() -> None:
    machine = load_preset("dgx-h100")
    gpus = [device for device in machine.devices if device.kind == "gpu"]
    cards = [device for device in machine.devices if device.kind == "network"]
    assert [gpu.node for gpu in gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert sorted(card.node or 0 for card in cards) == [0] * 5 + [1] * 5
    assert gpus[0].cpus == CpuSet.parse("0-55,112-167")
    assert all(len(gpu.links) == 7 for gpu in gpus)


def test_gb200_nodes_without_cpus_belong_to_the_nearer_grace() -> None:
    machine = load_preset("gb200-tray")
    assert [node.id for node in machine.nodes if node.kind == "gpu" and node.memory_bytes] == [2, 10, 18, 26]
    assert machine.node_by_id[17].initiators == NodeSet([0])
    assert machine.node_by_id[33].initiators == NodeSet([1])
    assert machine.distances[0][16:20] == (80, 80, 120, 120)
    assert machine.distances[2][9:11] == (11, 40)


def test_xeon_max_has_each_hbm_node_beside_its_dram_node() -> None:
    machine = load_preset("xeon-max-9480-flat")
    assert [node.kind for node in machine.nodes] == ["dram"] * 8 + ["hbm"] * 8
    assert [machine.distance(node, node + 8) for node in range(8)] == [13] * 8
    assert machine.distances[0] == (10, 12, 12, 12, 21, 21, 21, 21, 13, 14, 14, 14, 23, 23, 23, 23)


def test_power9_keeps_sparse_node_and_package_ids_and_neighbouring_threads() -> None:
    machine = load_preset("power9-ac922")
    assert [node.id for node in machine.nodes] == [0, 8, 252, 253, 254, 255]
    assert [package.id for package in machine.packages] == [0, 8]
    assert machine.core_of[5].cpus == CpuSet.parse("4-7")
    assert machine.distances[0] == (10, 40, 80, 80, 80, 80)


def test_the_hybrid_desktop_tells_its_cores_apart() -> None:
    machine = load_preset("core-i9-14900k")
    assert [(kind.name, str(kind.cpus)) for kind in machine.core_kinds] == [
        ("core", "0-15"),
        ("atom", "16-31"),
    ]
    assert [str(cluster.cpus) for cluster in machine.clusters] == ["16-19", "20-23", "24-27", "28-31"]
    assert [limits.max_khz for limits in machine.frequencies] == [5_600_000, 4_400_000]


def test_an_unknown_preset_names_the_closest() -> None:
    with pytest.raises(InputError, match=r"unknown preset: 'epyc-9654' \(expected epyc-9654-nps"):
        load_preset("epyc-9654")
    with pytest.raises(InputError, match="ampere-altra-2p or core-i9-14900k or"):
        load_preset("\N{SNOWMAN}")


def test_gb200_has_two_gpus_and_four_ports_on_each_grace() -> None:
    machine = load_preset("gb200-tray")
    placed = [(device.kind, device.node) for device in machine.devices]
    assert {kind: sorted(node for k, node in placed if k == kind and node is not None) for kind, _ in placed} == {
        "gpu": [0, 0, 1, 1],
        "network": [0, 0, 0, 0, 1, 1, 1, 1],
    }
