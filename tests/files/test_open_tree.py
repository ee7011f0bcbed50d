"""How a path is taken for a tree of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bayplan.files import Directory, open_tree
from bayplan.files.archive import Archive

Make = Callable[..., Path]
ONLINE = "sys/devices/system/cpu/online"


def test_a_root_its_sys_and_a_folder_around_it_are_the_same(make_folder: Make) -> None:
    root = make_folder({ONLINE: "0"})
    for path in (root, root / "sys", root.parent):
        tree = open_tree(path)
        assert isinstance(tree, Directory)
        assert tree.read(ONLINE) == "0"


def test_a_file_is_an_archive(make_tar: Make) -> None:
    assert isinstance(open_tree(make_tar({ONLINE: "0"}, "odd-name.gz")), Archive)
