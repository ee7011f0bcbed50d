"""Whatever bytes an archive is made of, it is read or refused with an `InputError`."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.files.archive import Archive

PACKERS: tuple[Callable[[bytes], bytes], ...] = (bytes, gzip.compress, bz2.compress, lzma.compress)
names = st.one_of(
    st.sampled_from(
        ["sys", "sys/a", "sys/a/b", "m/sys/a", "proc/cpuinfo", "./sys/../../x", "/sys/a", "sys//a", "sys/a\0b"]
    ),
    st.text(max_size=40).map(lambda text: f"sys/{text}"),
    st.sampled_from(["sys/" + "x" * 300, "sys/" + "d/" * 200, "sys/" + "x" * 5000]),
)
kinds = st.sampled_from(
    [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
members = st.lists(st.tuples(names, kinds, names, st.binary(max_size=40)), max_size=12)
fuzz = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def packed(entries: list[tuple[str, bytes, str, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", errors="surrogateescape") as archive:
        for name, kind, target, content in entries:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            member.size = len(content) if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def read_or_refuse(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        tree = Archive(path)
    except InputError as error:
        if error.source != str(path):
            raise
        return
    for name in ("sys", "sys/a", "sys/a/b/c", *tree.list("sys")):
        assert isinstance(tree.read(name), str | None)
        assert list(tree.list(name)) == sorted(tree.list(name))
        assert isinstance(tree.link(name), str | None)


@settings(fuzz, max_examples=150)
@given(entries=members, packer=st.sampled_from(PACKERS))
def test_any_members(
    entries: list[tuple[str, bytes, str, bytes]], packer: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    read_or_refuse(tmp_path / "x", packer(packed(entries)))


@settings(fuzz, max_examples=150)
@given(
    entries=members,
    packer=st.sampled_from(PACKERS),
    flips=st.lists(st.tuples(st.integers(0, 2**14), st.integers(1, 255)), min_size=1, max_size=8),
    late=st.booleans(),
    cut=st.integers(0, 2**14),
)
def test_any_damage(
    entries: list[tuple[str, bytes, str, bytes]],
    packer: Callable[[bytes], bytes],
    flips: list[tuple[int, int]],
    late: bool,
    cut: int,
    tmp_path: Path,
) -> None:
    content = bytearray(packed(entries) if not late else packer(packed(entries)))
    for place, change in flips:
        content[place % len(content)] ^= change
    damaged = bytes(content[: len(content) - cut % (len(content) // 2 + 1)])
    read_or_refuse(tmp_path / "x", damaged if late else packer(damaged))


@settings(fuzz, max_examples=60)
@given(
    content=st.binary(max_size=2000), magic=st.sampled_from([b"", b"\x1f\x8b\x08\0", b"BZh91AY&SY", b"\xfd7zXZ\0\0\4"])
)
def test_any_bytes(content: bytes, magic: bytes, tmp_path: Path) -> None:
    read_or_refuse(tmp_path / "x", magic + content)


def test_numbers_in_headers_may_be_anything(tmp_path: Path) -> None:
    header = bytearray(packed([("sys/a", tarfile.REGTYPE, "", b"x")]))
    for size in (b"\x80" + b"\xff" * 11, b"\xff" * 12, b"77777777777\0", b"not a number", b"-1\0" + bytes(9)):
        header[124:136] = size
        checked = tarfile.calc_chksums(bytes(header[:512]))[0]  # type: ignore[attr-defined]
        header[148:156] = b"%06o\0 " % checked
        with pytest.raises(InputError):
            Archive(_written(tmp_path / "x", bytes(header)))


def test_extended_headers_may_say_anything(tmp_path: Path) -> None:
    for record in (
        b"99999999999999999999 path=x\n",
        b"0 path=\n",
        b"12 size=-99\n",
        b"20 size=9999999999\n",
        b"x",
        b"9" * 400,
    ):
        out = io.BytesIO()
        member = tarfile.TarInfo("pax")
        member.type, member.size = tarfile.XHDTYPE, len(record)
        out.write(member.tobuf(tarfile.USTAR_FORMAT) + record.ljust(512, b"\0"))
        out.write(packed([("sys/a", tarfile.REGTYPE, "", b"x")]))
        read_or_refuse(tmp_path / "x", out.getvalue())


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
