"""Lines come out of plain and packed files alike; what is damaged, endless or no text is one clear error."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bayplan.errors import InputError
from bayplan.files import tables
from bayplan.files.tables import open_lines


def lines_of(path: Path) -> list[str]:
    with open_lines(str(path)) as lines:
        return list(lines.all)


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        lines_of(path)
    assert caught.value.source == str(path)
    return str(caught.value)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_packed_and_plain_lines_are_the_same(tmp_path: Path, pack: type[bytes]) -> None:
    file = tmp_path / "table.txt"  # its name says nothing
    file.write_bytes(pack("﻿a,b\r\n1,ü\n".encode()))
    with open_lines(str(file)) as lines:
        assert lines.first == "a,b\r\n"
        assert list(lines.all) == ["a,b\r\n", "1,ü\n"]


def test_the_first_line_is_the_first_that_is_not_blank(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("\n  \na\n")
    with open_lines(str(file)) as lines:
        assert lines.first == "a\n"


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.write_bytes(b"")
    assert lines_of(file) == []


def test_what_is_cut_off_or_damaged_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.csv.gz"
    packed = gzip.compress(b"a,b\n" * 10_000)
    file.write_bytes(packed[:-5])
    assert "cannot be read" in refused(file)
    file.write_bytes(packed[:-8] + b"\0\0\0\0" + packed[-4:])
    assert "CRC" in refused(file)
    file.write_bytes(packed[:20] + b"\xff" * 40 + packed[60:])
    assert "cannot be read" in refused(file)
    file.write_bytes(b"\x1f\x8b")
    assert "cannot be read" in refused(file)


def test_what_is_no_text_is_refused_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "latin"
    file.write_bytes(b"a,b\n" * 3 + b"\xe4\n")
    assert "expected UTF-8" in refused(file)


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_UNPACKED_BYTES", 1000)
    file = tmp_path / "bomb.gz"
    file.write_bytes(gzip.compress(b"a,b\n" * 1000))
    assert "too much" in refused(file)
    file.write_bytes(b"a,b\n" * 1000)
    assert "too much" in refused(file)


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "line.gz"
    file.write_bytes(gzip.compress(b"ok\n" + b"a" * (tables.MAX_LINE + 1)))
    assert "line 2: too long" in refused(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "none.csv")
    assert "Is a directory" in refused(tmp_path)
    with pytest.raises(InputError, match="cannot be read"), open_lines("a\0b"):
        pass


def test_an_error_of_the_reader_names_the_file_too(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a\n")
    with pytest.raises(InputError) as caught, open_lines(str(file)):
        raise InputError("odd", place="row 7")
    assert str(caught.value) == f"{file}: row 7: odd"


def test_files_that_come_along_are_read_by_the_name_of_their_preset() -> None:
    with open_lines("preset:small/nodes.csv") as lines:
        assert lines.first.startswith("sn,")
    with pytest.raises(InputError, match="preset:small/none: cannot be read"), open_lines("preset:small/none"):
        pass
