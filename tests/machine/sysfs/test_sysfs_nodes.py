"""Memory nodes: whose CPUs, how much memory, of what kind, how far away."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bayplan.idset import NodeSet
from bayplan.machine import HugepagePool, Machine, MemoryAccess, MemorySideCache

NODE = "sys/devices/system/node"
Build = Callable[..., Machine]


def far_node(number: int, distance: str = "17 28 10\n") -> dict[str, str | None]:
    """A third node without CPUs, near to node 0."""
    return {
        f"{NODE}/node0/distance": "10 21 17\n",
        f"{NODE}/node1/distance": "21 10 28\n",
        f"{NODE}/node{number}/cpumap": "00000000\n",
        f"{NODE}/node{number}/meminfo": f"Node {number} MemTotal: 2097152 kB\n",
        f"{NODE}/node{number}/distance": distance,
    }


def initiators(node: int, access: str, names: tuple[str, ...], bandwidth: int) -> dict[str, str]:
    folder = f"{NODE}/node{node}/{access}/initiators"
    return {f"{folder}/{name}/uevent": "" for name in names} | {
        f"{folder}/read_bandwidth": f"{bandwidth}\n",
        f"{folder}/write_bandwidth": "0\n",
        f"{folder}/read_latency": "90\n",
        f"{folder}/write_latency": "95\n",
    }


def test_nodes_have_their_cpus_memory_and_distances(made: Build) -> None:
    machine = made()
    assert [(n.id, str(n.cpus), n.memory_bytes, n.kind) for n in machine.nodes] == [
        (0, "0-3", 2**30, "dram"),
        (1, "4-7", 2**30, "dram"),
    ]
    assert machine.distances == ((10, 21), (21, 10))
    assert [n.initiators for n in machine.nodes] == [NodeSet((0,)), NodeSet((1,))]


def test_a_node_may_lack_memory_or_cpus_and_numbers_may_have_gaps(made: Build) -> None:
    machine = made({**far_node(250), f"{NODE}/node1/meminfo": "Node 1 MemTotal:              0 kB\n"})
    assert [(n.id, str(n.cpus), n.memory_bytes) for n in machine.nodes] == [
        (0, "0-3", 2**30),
        (1, "4-7", 0),
        (250, "", 2**31),
    ]
    assert machine.node_by_id[250].kind == "unknown"
    assert machine.node_by_id[250].initiators == NodeSet((0,))
    assert machine.findings == ()


def test_a_machine_without_node_folders_is_one_node(made: Build) -> None:
    pool = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    machine = made({"proc/meminfo": "MemTotal:    4194304 kB\nMemFree: 1 kB\n", pool: "5\n"}, gone=(NODE,))
    (node,) = machine.nodes
    assert (node.id, node.cpus, node.memory_bytes, node.kind) == (0, machine.online, 2**32, "dram")
    assert node.hugepages == (HugepagePool(page_bytes=2**21, count=5),)
    assert machine.distances == ()


def test_a_cpu_that_two_nodes_claim_stays_with_the_first(made: Build) -> None:
    machine = made({f"{NODE}/node1/cpumap": "000000f8\n"})
    assert [str(n.cpus) for n in machine.nodes] == ["0-3", "4-7"]
    assert [finding.place for finding in machine.findings] == [f"{NODE}/node1"]


def test_a_cpu_of_no_node_is_found(made: Build) -> None:
    machine = made({f"{NODE}/node1/cpumap": "00000070\n"})
    assert 7 not in machine.node_of
    assert [finding.problem for finding in machine.findings] == ["CPUs 7 belong to no memory node"]


@pytest.mark.parametrize(
    "row", ["10\n", "10 21 21\n", "10 x\n", "0 10\n", "10 99999999\n", "", "10 " * 10_000, "10 -1\n", "10 ²\n"]
)
def test_distances_are_left_out_where_a_row_does_not_fit(made: Build, row: str) -> None:
    machine = made({f"{NODE}/node0/distance": row})
    assert machine.distances == ()
    assert [finding.place for finding in machine.findings] == [f"{NODE}/node0/distance"]


def test_distances_need_not_be_symmetric(made: Build) -> None:
    assert made({f"{NODE}/node0/distance": "10 30\n"}).distances == ((10, 30), (21, 10))


def test_a_node_whose_cpus_are_offline_is_a_node_with_cpus(made: Build) -> None:
    offline: dict[str, str] = {"sys/devices/system/cpu/online": "0-3\n", f"{NODE}/node1/cpumap": "00000000\n"}
    assert made(offline).nodes[1].kind == "unknown"
    homes = {f"sys/devices/system/cpu/cpu{cpu}/node1/uevent": "" for cpu in range(4, 8)}
    machine = made({**offline, **homes})
    assert (str(machine.nodes[1].cpus), machine.nodes[1].kind) == ("", "dram")


def test_huge_pages_are_by_size_and_supported_sizes_count_when_empty(made: Build) -> None:
    folder = f"{NODE}/node0/hugepages"
    machine = made(
        {f"{folder}/hugepages-1048576kB/nr_hugepages": "2\n", f"{folder}/hugepages-2048kB/nr_hugepages": "0\n"}
    )
    assert machine.nodes[0].hugepages == (
        HugepagePool(page_bytes=2**21, count=0),
        HugepagePool(page_bytes=2**30, count=2),
    )


def test_firmware_names_the_initiators_and_what_they_see(made: Build) -> None:
    machine = made({**far_node(2), **initiators(2, "access0", ("node1",), 1024)})
    assert machine.nodes[2].initiators == NodeSet((1,))
    assert machine.nodes[2].access == MemoryAccess(read_bandwidth_mibps=1024, read_latency_ns=90, write_latency_ns=95)


def test_a_device_as_best_initiator_does_not_hide_the_best_cpus(made: Build) -> None:
    device = initiators(2, "access0", ("node3",), 400_000)
    machine = made({**far_node(2), **device, **initiators(2, "access1", ("node0",), 9000)})
    assert machine.nodes[2].initiators == NodeSet((0,))
    assert machine.nodes[2].access is not None
    assert machine.nodes[2].access.read_bandwidth_mibps == 9000


def test_tiers_and_memory_side_caches_are_read(made: Build) -> None:
    cache = f"{NODE}/node1/memory_side_cache/index1"
    machine = made(
        {
            "sys/devices/virtual/memory_tiering/memory_tier4/nodelist": "0\n",
            "sys/devices/virtual/memory_tiering/memory_tier22/nodelist": "1\n",
            f"{cache}/size": "103079215104\n",
            f"{cache}/line_size": "64\n",
        }
    )
    assert [n.tier for n in machine.nodes] == [4, 22]
    assert machine.nodes[1].side_caches == (MemorySideCache(level=1, bytes=103079215104, line_bytes=64),)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region0/dax0.0/dax0.0", "pmem"),
        ("platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0", "cxl"),
        ("platform/hmem.0/dax0.0", "unknown"),
    ],
)
def test_memory_that_kmem_added_is_what_its_bus_says(made: Build, path: str, kind: str) -> None:
    machine = made(
        {**far_node(2), f"sys/devices/{path}/target_node": "2\n", "sys/bus/dax/drivers/kmem/dax0.0/uevent": ""},
        links={"sys/bus/dax/devices/dax0.0": f"../../../devices/{path}"},
    )
    assert machine.nodes[2].kind == kind


def test_dax_memory_that_is_not_given_to_a_node_says_nothing_of_it(made: Build) -> None:
    path = "LNXSYSTM:00/ndbus0/region0/dax0.0"
    machine = made(
        {**far_node(2), f"sys/devices/{path}/target_node": "2\n"},
        links={"sys/bus/dax/devices/dax0.0": f"../../../devices/{path}"},
    )
    assert machine.nodes[2].kind == "unknown"


def test_the_driver_names_the_memory_of_a_gpu(made: Build) -> None:
    status = "proc/driver/nvidia/gpus/0004:05:00.0/numa_status"
    assert made({**far_node(255), status: "Node:      255\nStatus:    online\n"}).nodes[2].kind == "gpu"


def test_a_node_without_cpus_on_which_a_gpu_sits_is_gpu_memory(made: Build) -> None:
    gpu = "sys/bus/pci/devices/0009:01:00.0"
    machine = made(
        {**far_node(2), f"{gpu}/class": "0x030200\n", f"{gpu}/vendor": "0x10de\n", f"{gpu}/numa_node": "2\n"}
    )
    assert machine.nodes[2].kind == "gpu"
    assert made({f"{gpu}/class": "0x030200\n", f"{gpu}/vendor": "0x10de\n", f"{gpu}/numa_node": "0\n"}).nodes[
        0
    ].kind == ("dram")


@pytest.mark.parametrize(("bandwidth", "kind"), [(200_000, "hbm"), (199_999, "unknown"), (20_000, "unknown")])
def test_high_bandwidth_memory_has_twice_the_bandwidth_of_the_dram_beside_it(
    made: Build, bandwidth: int, kind: str
) -> None:
    dram = initiators(0, "access0", ("node0",), 100_000)
    machine = made({**far_node(2), **dram, **initiators(2, "access0", ("node0",), bandwidth)})
    assert machine.nodes[2].kind == kind
    assert machine.nodes[0].kind == "dram"
