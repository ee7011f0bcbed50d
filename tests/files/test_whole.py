"""A file is there whole, or as it was before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bayplan.errors import InputError
from bayplan.files.whole import write_whole


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    out = tmp_path / "a"
    write_whole(out, b"one")
    write_whole(out, b"two")
    assert out.read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_that_is_there_stays_where_it_must(tmp_path: Path) -> None:
    out = tmp_path / "a"
    out.write_bytes(b"old")
    with pytest.raises(InputError, match="exists already"):
        write_whole(out, b"new", overwrite=False)
    assert out.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_a_killed_process_of_the_same_number_left_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / f".a.{os.getpid()}.partial").write_bytes(b"half")
    write_whole(tmp_path / "a", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_is_not_there_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        write_whole(tmp_path / "none" / "a", b"")
    assert list(tmp_path.iterdir()) == []
