"""Caches, each once, with the CPUs that share it."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.machine import Machine

CPU = "sys/devices/system/cpu"
Build = Callable[..., Machine]


def test_a_shared_cache_is_one_cache(made: Build) -> None:
    machine = made()
    assert [(c.level, c.kind, str(c.cpus), c.bytes) for c in machine.caches if c.level == 3] == [
        (3, "unified", "0-3", 16 * 2**20),
        (3, "unified", "4-7", 16 * 2**20),
    ]
    assert [(str(c.cpus), c.bytes, c.line_bytes, c.ways) for c in machine.caches_at(2)] == [
        (text, 2**20, 64, 8) for text in ("0-1", "2-3", "4-5", "6-7")
    ]
    assert [c.kind for c in machine.caches if c.level == 1] == ["data"] * 4 + ["instruction"] * 4


def test_a_cache_is_shared_by_online_cpus_only(made: Build) -> None:
    machine = made({f"{CPU}/online": "1-7\n"})
    assert [str(c.cpus) for c in machine.caches_at(2)] == ["1", "2-3", "4-5", "6-7"]


def test_an_empty_map_leaves_a_cache_to_the_core(made: Build) -> None:
    empty = {f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_map": "00000000,00000000\n" for cpu in range(8)}
    assert [str(c.cpus) for c in made(empty).caches_at(3)] == ["0-1", "2-3", "4-5", "6-7"]


def test_a_list_serves_where_there_is_no_mask(made: Build) -> None:
    changes: dict[str, str | None] = {}
    for cpu in range(8):
        changes[f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_map"] = None
        changes[f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_list"] = "0-7\n"
    assert [str(c.cpus) for c in made(changes).caches_at(3)] == ["0-7"]


def test_overlapping_caches_are_found_and_one_is_left_out(made: Build) -> None:
    machine = made({f"{CPU}/cpu3/cache/index3/shared_cpu_map": "00000018\n"})
    assert [str(c.cpus) for c in machine.caches_at(3)] == ["0-3", "4-7"]
    assert ["overlaps another" in finding.problem for finding in machine.findings] == [True]


def test_a_cache_of_other_cpus_is_found_and_taken_as_the_cores_own(made: Build) -> None:
    machine = made({f"{CPU}/cpu{cpu}/cache/index2/shared_cpu_map": "00000003\n" for cpu in (2, 3)})
    assert [str(c.cpus) for c in machine.caches_at(2)] == ["0-1", "2-3", "4-5", "6-7"]
    assert len(machine.findings) == 2


def test_a_cache_without_level_is_left_out_and_one_without_size_is_kept(made: Build) -> None:
    machine = made(
        {
            f"{CPU}/cpu0/cache/index2/level": None,
            f"{CPU}/cpu1/cache/index2/level": "0\n",
            f"{CPU}/cpu2/cache/index2/size": "big\n",
        }
    )
    assert [(str(c.cpus), c.bytes) for c in machine.caches_at(2)] == [("2-3", 0), ("4-5", 2**20), ("6-7", 2**20)]
    assert len(machine.findings) == 2


def test_a_machine_may_tell_no_caches(made: Build) -> None:
    machine = made(gone=tuple(f"{CPU}/cpu{cpu}/cache" for cpu in range(8)))
    assert machine.caches == ()
    assert machine.findings == ()
