"""Whatever a tree holds, a sound machine comes out of it or an `InputError`, in bounded time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.idset import CpuSet
from bayplan.machine import Machine
from bayplan.machine.counts import counts_line
from bayplan.machine.sysfs import read
from bayplan.machine.sysfs.facts import MAX_CPUS, MAX_FINDINGS, MAX_NODES
from bayplan.machine.tree import DictTree

Calls = Callable[[Callable[[], object]], int]

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
PCI = "sys/bus/pci/devices/0000:3b:00.0"
DAX = "sys/devices/ndbus0/region0/dax0.0"

numbers = st.one_of(
    st.integers(-3, 12),
    st.sampled_from([2**31, 2**31 + 1, 2**32, 2**63 - 1, 2**63, 2**64, 10**4299, 8191, 8192, 65535, 65536, 1023, 1024]),
).map(str)
ranges = st.lists(st.tuples(numbers, numbers).map("-".join) | numbers, max_size=5).map(",".join)
masks = st.lists(st.text("0123456789abcdef", min_size=1, max_size=9), max_size=12).map(",".join)
contents = st.one_of(
    numbers,
    ranges,
    masks,
    st.sampled_from(
        ["", " ", "\0", "(null)", "  (null)\n", "0x", "0x030200", "0x10de", "0xffffffffffffffff", "-1", "x"]
    ),
    st.sampled_from(
        ["Data", "Unified", "Instruction", "32K", "99999999G", "²", "１", "1_0", "+1", "1e3", "0-7:1/1", ","]
    ),
    numbers.map(lambda n: f"Node 0 MemTotal: {n} kB\n"),
    numbers.map(lambda n: f"Node:  {n}\nModel: \t x\n"),
    numbers.map(lambda n: "10 " * 3 + n),
    st.text(max_size=20),
    st.sampled_from([",".join(["ffffffff"] * 300), "f" * 5000, "0," * 40_000, "9" * 100_000, "a: b\n" * 1000]),
)


def places() -> list[str]:
    """Every file that the reader knows, for some CPUs and nodes."""
    cpus = ("0", "1", "5", "8191", "8192", "99999999999999999999", "-1", "01")
    of_cpu = (
        *(f"topology/{name}" for name in ("core_id", "physical_package_id", "die_id", "core_cpus", "thread_siblings")),
        *(
            f"topology/{name}"
            for name in ("core_siblings", "package_cpus_list", "cluster_cpus", "thread_siblings_list")
        ),
        *(
            f"cache/index{i}/{name}"
            for i in (0, 3)
            for name in ("level", "type", "size", "shared_cpu_map", "shared_cpu_list")
        ),
        *("online", "cpu_capacity", "acpi_cppc/highest_perf", "acpi_cppc/nominal_freq"),
        *(f"cpufreq/{name}" for name in ("cpuinfo_min_freq", "cpuinfo_max_freq", "base_frequency")),
    )
    of_node = (
        *("cpumap", "cpulist", "meminfo", "distance", "hugepages/hugepages-2048kB/nr_hugepages"),
        *("hugepages/hugepages-0kB/nr_hugepages", "hugepages/hugepages-99999999999kB/nr_hugepages"),
        *("access0/initiators/node0/x", "access1/initiators/node5/x", "access0/initiators/read_bandwidth"),
        *("memory_side_cache/index1/size", "memory_side_cache/index99/size"),
    )
    return [
        *(
            f"{CPU}/{name}"
            for name in ("online", "present", "isolated", "nohz_full", "types/a/cpumap", "types/b/cpulist")
        ),
        *(f"{CPU}/cpu{cpu}/{name}" for cpu in cpus for name in of_cpu),
        *(f"{NODE}/node{node}/{name}" for node in ("0", "1", "5", "1023", "1024", "x") for name in of_node),
        *(f"{PCI}/{name}" for name in ("class", "vendor", "device", "numa_node", "local_cpulist", "local_cpus")),
        *(f"sys/devices/virtual/memory_tiering/memory_tier{tier}/nodelist" for tier in (4, 22)),
        *(f"proc/driver/nvidia/gpus/0000:3b:00.0/{name}" for name in ("information", "numa_status")),
        *(
            "sys/devices/cpu_core/cpus",
            "sys/devices/cpu_atom/cpus",
            "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        ),
        *("proc/cpuinfo", "proc/meminfo", "proc/sys/kernel/arch", "sys/class/dmi/id/product_name"),
        *(f"{DAX}/target_node", "sys/bus/dax/drivers/kmem/dax0.0/uevent"),
    ]


trees = st.dictionaries(st.sampled_from(places()), contents, max_size=60)
links = st.dictionaries(
    st.sampled_from([f"{PCI}/driver", f"{PCI}/physfn", "sys/bus/dax/devices/dax0.0"]),
    st.one_of(
        st.text(max_size=30), st.sampled_from(["/", "..", "../" * 99, f"../../../devices/{DAX[12:]}", "../" * 5000])
    ),
)


def check_sound(machine: Machine) -> None:
    assert sorted(cpu for core in machine.cores for cpu in core.cpus) == list(machine.online)
    assert machine.online
    assert max(machine.online) < MAX_CPUS
    assert machine.online.isdisjoint(machine.offline)
    for parts in (machine.packages, machine.dies, machine.nodes, machine.clusters, machine.core_kinds):
        claimed = [cpu for part in parts for cpu in part.cpus]
        assert len(claimed) == len(set(claimed))
        assert CpuSet(claimed) <= machine.online
    assert all(cache.cpus and cache.cpus <= machine.online for cache in machine.caches)
    assert all(0 <= node.id < MAX_NODES and 0 <= node.memory_bytes < 2**63 for node in machine.nodes)
    assert all(len(row) == len(machine.nodes) for row in machine.distances)
    assert all(device.node is None or device.node in machine.node_by_id for device in machine.devices)
    assert len(machine.findings) <= MAX_FINDINGS + 1
    assert counts_line(machine)


def read_or_refuse(files: dict[str, str], its_links: dict[str, str]) -> None:
    try:
        machine = read(DictTree(files, its_links), source="hostile")
    except InputError as error:
        if error.source != "hostile":
            raise
    else:
        check_sound(machine)


fuzz = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


@settings(fuzz, max_examples=150)
@given(files=trees, its_links=links)
def test_any_tree(files: dict[str, str], its_links: dict[str, str]) -> None:
    read_or_refuse(files, its_links)


@settings(fuzz, max_examples=150)
@given(changes=trees, its_links=links)
def test_any_change_to_a_sound_machine(
    changes: dict[str, str], its_links: dict[str, str], sound_files: dict[str, str]
) -> None:
    read_or_refuse({**sound_files, **changes}, its_links)


@pytest.mark.long
@settings(fuzz, max_examples=5_000)
@given(changes=trees, its_links=links, start_sound=st.booleans())
def test_any_tree_at_length(
    changes: dict[str, str], its_links: dict[str, str], start_sound: bool, sound_files: dict[str, str]
) -> None:
    read_or_refuse({**(sound_files if start_sound else {}), **changes}, its_links)


def test_as_many_cpus_and_nodes_as_there_can_be_take_bounded_work(calls: Calls) -> None:
    files = {f"{CPU}/online": "0-8191", f"{CPU}/present": "0-8191"}
    row = " ".join(["10"] * MAX_NODES)
    for node in range(MAX_NODES):
        files[f"{NODE}/node{node}/cpulist"] = "0-8191"
        files[f"{NODE}/node{node}/distance"] = row
    made: list[Machine] = []
    assert calls(lambda: made.append(read(DictTree(files)))) < 10 * MAX_NODES**2  # so many distances
    (machine,) = made
    assert (len(machine.online), len(machine.nodes), len(machine.findings)) == (8192, 1024, MAX_FINDINGS + 1)
    assert machine.findings[-1].problem.endswith("more findings are not shown")


def test_lists_that_are_slow_to_read_are_not_read(sound_files: dict[str, str], calls: Calls) -> None:
    slow = {
        f"{CPU}/cpu{cpu}/cache/index{i}/shared_cpu_list": "0-65535:1/1," * 80_000 for cpu in range(8) for i in range(4)
    }
    masks_gone = {path: text for path, text in sound_files.items() if not path.endswith("shared_cpu_map")}
    assert calls(lambda: read(DictTree({**masks_gone, **slow}))) < 80_000
    machine = read(DictTree({**masks_gone, **slow}))
    assert len(machine.findings) == 32
