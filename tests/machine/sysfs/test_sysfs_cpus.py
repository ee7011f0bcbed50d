"""Which CPUs a machine has, and how they form cores, clusters, dies and packages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bayplan.errors import InputError
from bayplan.idset import CpuSet
from bayplan.machine import Machine
from bayplan.machine.sysfs import read
from bayplan.machine.tree import DictTree

CPU = "sys/devices/system/cpu"
Build = Callable[..., Machine]


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def test_threads_cores_and_packages_are_told_apart(made: Build) -> None:
    machine = made()
    assert [str(core.cpus) for core in machine.cores] == ["0-1", "2-3", "4-5", "6-7"]
    assert [(core.id, core.core_id, core.package) for core in machine.cores] == [
        (0, 0, 0),
        (2, 1, 0),
        (4, 0, 1),
        (6, 1, 1),
    ]
    assert [(package.id, str(package.cpus)) for package in machine.packages] == [(0, "0-3"), (1, "4-7")]
    assert machine.dies == ()
    assert machine.clusters == ()
    assert machine.findings == ()


def test_an_offline_cpu_leaves_its_core_to_the_other_thread(made: Build) -> None:
    machine = made({f"{CPU}/online": "0-4,6-7\n"})
    assert machine.offline == cpus("5")
    assert str(machine.core_of[4].cpus) == "4"
    assert 5 not in machine.core_of
    assert str(machine.packages[1].cpus) == "4,6-7"


def test_an_old_kernel_without_lists_of_cpus_says_online_cpu_by_cpu(made: Build) -> None:
    machine = made({f"{CPU}/online": None, f"{CPU}/present": None, f"{CPU}/cpu3/online": "0\n"})
    assert machine.online == cpus("0-2,4-7")
    assert machine.offline == cpus("3")


def test_numbers_may_have_gaps() -> None:
    files = {f"{CPU}/online": "0,88,8191\n"}
    files |= {f"{CPU}/cpu{cpu}/topology/core_id": f"{cpu}\n" for cpu in (0, 88, 8191)}
    assert [core.id for core in read(DictTree(files)).cores] == [0, 88, 8191]


def test_isolated_and_tickless_cpus_are_known(made: Build) -> None:
    machine = made({f"{CPU}/isolated": "2-3\n", f"{CPU}/nohz_full": "  (null)\n"})
    assert machine.isolated == cpus("2-3")
    assert machine.nohz_full == CpuSet()
    assert machine.findings == ()
    assert made({f"{CPU}/nohz_full": "1,7,12\n"}).nohz_full == cpus("1,7")


def test_without_a_topology_folder_each_cpu_is_its_own_core(made: Build) -> None:
    machine = made(gone=tuple(f"{CPU}/cpu{cpu}/topology" for cpu in range(8)))
    assert [str(core.cpus) for core in machine.cores] == [str(cpu) for cpu in range(8)]
    assert {(core.core_id, core.package) for core in machine.cores} == {(-1, 0)}
    assert machine.packages == ()


def test_packages_that_the_kernel_gives_no_number_are_counted_in_order(made: Build) -> None:
    machine = made({f"{CPU}/cpu{cpu}/topology/physical_package_id": "-1\n" for cpu in range(8)})
    assert [(package.id, str(package.cpus)) for package in machine.packages] == [(0, "0-3"), (1, "4-7")]
    assert machine.core_of[6].package == 1


def test_packages_without_siblings_are_told_by_number(made: Build) -> None:
    machine = made({f"{CPU}/cpu{cpu}/topology/core_siblings": None for cpu in range(8)})
    assert [(package.id, str(package.cpus)) for package in machine.packages] == [(0, "0-3"), (1, "4-7")]


def test_dies_count_where_a_package_has_more_than_one(made: Build) -> None:
    one = {f"{CPU}/cpu{cpu}/topology/die_id": "0\n" for cpu in range(8)}
    assert made(one).dies == ()
    two = {f"{CPU}/cpu{cpu}/topology/die_id": f"{cpu // 2 % 2}\n" for cpu in range(8)}
    machine = made(two)
    assert [(die.package, die.id, str(die.cpus)) for die in machine.dies] == [
        (0, 0, "0-1"),
        (0, 1, "2-3"),
        (1, 0, "4-5"),
        (1, 1, "6-7"),
    ]
    assert machine.core_of[7].die == 1


def test_clusters_divide_a_package_and_hold_more_than_a_core(made: Build) -> None:
    def clustered(mask_of: Callable[[int], int]) -> Machine:
        siblings = {f"{CPU}/cpu{cpu}/topology/core_siblings": "000000ff\n" for cpu in range(8)}
        clusters = {f"{CPU}/cpu{cpu}/topology/cluster_cpus": f"{mask_of(cpu):08x}\n" for cpu in range(8)}
        return made(siblings | clusters)

    halves = clustered(lambda cpu: 0b1111 << cpu // 4 * 4)
    assert [(cluster.id, str(cluster.cpus)) for cluster in halves.clusters] == [(0, "0-3"), (4, "4-7")]
    assert [core.cluster for core in halves.cores] == [0, 0, 4, 4]
    assert clustered(lambda cpu: 0b11 << cpu // 2 * 2).clusters == ()
    assert clustered(lambda _: 0xFF).clusters == ()


def test_thread_siblings_with_different_core_numbers_are_cores(made: Build) -> None:
    machine = made({f"{CPU}/cpu{cpu}/topology/core_id": f"{cpu}\n" for cpu in range(4)})
    assert [str(core.cpus) for core in machine.cores] == ["0", "1", "2", "3", "4-5", "6-7"]
    assert len(machine.findings) == 2


def test_contradictory_siblings_are_found_and_the_first_is_believed(made: Build) -> None:
    machine = made({f"{CPU}/cpu3/topology/thread_siblings": "00000018\n"})
    assert [str(core.cpus) for core in machine.cores] == ["0-1", "2-3", "4-5", "6-7"]
    assert [finding.place for finding in machine.findings] == [f"{CPU}/cpu3/topology"]


def test_a_mask_is_believed_over_a_list_that_contradicts_it(made: Build) -> None:
    machine = made({f"{CPU}/cpu0/topology/thread_siblings_list": "0,4\n"})
    assert str(machine.core_of[0].cpus) == "0-1"
    assert [finding.place for finding in machine.findings] == [f"{CPU}/cpu0/topology/thread_siblings_list"]


@pytest.mark.parametrize("online", ["", "9999999\n", "7-0\n", "eight\n", "0-65535\n", "0-7:1/2\n", "\0\0\0"])
def test_a_nonsensical_list_of_online_cpus_is_replaced_by_the_folders(made: Build, online: str) -> None:
    machine = made({f"{CPU}/online": online})
    assert machine.online == cpus("0-7")
    assert bool(machine.findings) == bool(online.strip("\0"))


def test_no_cpus_at_all_is_an_error_that_names_the_source() -> None:
    with pytest.raises(InputError, match=r"^x\.tar: sys/devices/system/cpu: no CPUs in this tree"):
        read(DictTree({"sys/devices/system/cpu/kernel_max": "8191"}), source="x.tar")
