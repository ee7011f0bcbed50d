"""What holds for every tree of files, on disk or in an archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bayplan.files import Directory
from bayplan.files.archive import Archive
from bayplan.machine.tree import Tree

Make = Callable[..., Path]
MEMBERS = {
    "sys/devices/system/cpu/online": "0-3\n",
    "sys/devices/system/cpu/cpu0/cpufreq": "->../cpufreq/policy0",
    "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq": "3000000\n",
    "sys/devices/system/cpu/cpufreq/policy0/again": "->/sys/devices/system/cpu/online",
    "sys/devices/system/cpu/empty": None,
    "sys/bus/cpu": "->../devices/system/cpu/",
    "sys/out": "->../../../../../../../../../../../../../../../../etc",
    "sys/passwd": "->/etc/passwd",
    "sys/round": "->about",
    "sys/about": "->round",
    "sys/self": "->self/self/self",
    "sys/binary": b"\xff\xfe\n",
    "sys/large": "x" * (2**20 + 1),
    "proc/meminfo": "MemTotal: 1 kB\n",
}


@pytest.fixture(params=["folder", "tar", "tar.gz", "tar.bz2", "tar.xz"])
def tree(request: pytest.FixtureRequest, make_tar: Make, make_folder: Make) -> Tree:
    if request.param == "folder":
        return Directory(make_folder(MEMBERS))
    return Archive(make_tar(MEMBERS, f"capture.{request.param}"))


def test_files_are_read_and_what_is_none_is_none(tree: Tree) -> None:
    assert tree.read("sys/devices/system/cpu/online") == "0-3\n"
    assert tree.read("proc/meminfo") == "MemTotal: 1 kB\n"
    for path in ("sys/devices/system/cpu", "sys/devices/system/cpu/online/x", "sys/nothing", "", "sys", "\0"):
        assert tree.read(path) is None


def test_folders_are_listed_in_order(tree: Tree) -> None:
    assert tree.list("sys/devices/system/cpu") == ("cpu0", "cpufreq", "empty", "online")
    assert tree.list("sys/devices/system/cpu/empty") == ()
    assert tree.list("sys/devices/system/cpu/online") == ()
    assert tree.list("sys/nothing") == ()


def test_links_are_followed_on_the_way_and_at_the_end(tree: Tree) -> None:
    assert tree.read("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq") == "3000000\n"
    assert tree.read("sys/bus/cpu/cpu0/cpufreq/again") == "0-3\n"
    assert tree.list("sys/bus/cpu/cpu0/cpufreq") == ("again", "cpuinfo_max_freq")


def test_a_link_is_told_as_it_stands(tree: Tree) -> None:
    assert tree.link("sys/bus/cpu/cpu0/cpufreq") == "../cpufreq/policy0"
    assert tree.link("sys/devices/system/cpu/online") is None
    assert tree.link("sys/nothing") is None
    assert tree.link("") is None


def test_links_never_lead_out(tree: Tree) -> None:
    assert Path("/etc/passwd").is_file()
    assert tree.read("sys/passwd") is None
    assert tree.read("sys/out/passwd") is None
    assert tree.list("sys/out") == ()
    assert tree.read("../../../../../../../../etc/passwd") is None
    assert tree.read("sys/../../../../../../../../etc/passwd") is None


@pytest.mark.parametrize("path", ["sys/round", "sys/about/x", "sys/self", "sys/self/x"])
def test_links_in_a_circle_lead_nowhere(tree: Tree, path: str) -> None:
    assert tree.read(path) is None
    assert tree.list(path) == ()


def test_bytes_that_are_no_text_are_no_error(tree: Tree) -> None:
    assert tree.read("sys/binary") == "\ufffd\ufffd\n"


def test_a_path_of_any_depth_is_answered(tree: Tree) -> None:
    assert tree.read("/".join(["a"] * 100_000)) is None
    assert tree.read("sys/" + "a" * 100_000) is None
