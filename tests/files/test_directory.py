"""Trees on disk: what is special about them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bayplan.errors import InputError
from bayplan.files import Directory
from bayplan.files.directory import MAX_FILE_BYTES


def test_no_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: not a folder"):
        Directory(tmp_path / "nowhere")


def test_no_more_than_the_limit_is_read(make_folder: Callable[..., Path]) -> None:
    tree = Directory(make_folder({"sys/large": b"x" * (MAX_FILE_BYTES + 7)}))
    assert len(tree.read("sys/large") or "") == MAX_FILE_BYTES


def test_a_pipe_is_no_file_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert Directory(tmp_path).read("pipe") is None


def test_a_file_that_may_not_be_read_is_none(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0)
    readable = os.access(secret, os.R_OK)  # root may read it all the same
    assert Directory(tmp_path).read("secret") == ("x" if readable else None)
