"""A tree of files in a tar archive, plain or compressed with gzip, bzip2 or xz: a capture of another machine.

Read once, front to back, into memory; nothing is ever unpacked to disk. Only small regular files and links below
`sys` and `proc` are kept. Limits hold for the number of members, for one file, for what is kept and for what comes
out of the decompressor, so that no archive, however made, takes more than bounded time and memory. An archive that is
cut off or damaged is refused as a whole: half a machine would be a wrong answer.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from bayplan.errors import InputError
from bayplan.files.directory import MAX_FILE_BYTES
from bayplan.files.paths import LinkedPaths

MAX_MEMBERS = 500_000
MAX_KEPT_BYTES = 64 * 2**20
MAX_UNPACKED_BYTES = 512 * 2**20
_UNPACKED_LIMIT = f"at most {MAX_UNPACKED_BYTES} bytes"
MAX_NAME_LENGTH = 1024
MAX_TOPS = 100
_CHUNK = 65_536
_TOPS = ("sys", "proc")
# Folders of which a machine has thousands of files and no reader any use.
_USELESS = frozenset(("power", "cpuidle", "microcode", "hotplug", "stats", "ondemand", "thermal_throttle", "memory"))
Readable = IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, OSError, ValueError, MemoryError, OverflowError)


class Archive:
    """A `bayplan.machine.tree.Tree` from the tar archive at `path`.

    `sys` and `proc` may stand at the top or in one folder at the top. Raises `InputError` for a file that cannot be
    opened, is no tar archive, is damaged or exceeds a limit, or holds no `sys` or several.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._source = str(Path(path))
        trees: dict[str, _Contents] = {}
        try:
            with _open(self._source) as stream:
                for top, inner, member, content in _members(stream):
                    trees.setdefault(top, _Contents()).add(inner, member, content)
                    if trees[top].cost > MAX_KEPT_BYTES or len(trees) > MAX_TOPS:
                        raise InputError(
                            "holds too much", expected=f"one machine's sys and proc, {MAX_KEPT_BYTES} bytes"
                        )
        except InputError as error:
            raise error.within(source=self._source) from error
        except _DAMAGE as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise InputError(
                f"cannot be read as a tar archive ({reason})",
                source=self._source,
                expected="a whole .tar, .tar.gz, .tar.bz2 or .tar.xz",
            ) from error
        self._contents = self._choose(trees)
        self._paths = LinkedPaths(self._contents.links.get)

    def read(self, path: str) -> str | None:
        """See `Tree.read`."""
        resolved = self._paths.resolve(path)
        content = None if resolved is None else self._contents.files.get(resolved)
        return None if content is None else content.decode("utf-8", "replace")

    def list(self, path: str) -> tuple[str, ...]:
        """See `Tree.list`."""
        resolved = self._paths.resolve(path)
        return () if resolved is None else tuple(sorted(self._contents.folders.get(resolved, ())))

    def link(self, path: str) -> str | None:
        """See `Tree.link`."""
        parent, _, name = path.rpartition("/")
        resolved = self._paths.resolve(parent)
        return None if resolved is None else self._contents.links.get(f"{resolved}/{name}" if resolved else name)

    def _choose(self, trees: dict[str, _Contents]) -> _Contents:
        whole = {top: tree for top, tree in trees.items() if "sys" in tree.folders.get("", ())}
        if "" in whole or len(whole) == 1:
            return whole.get("") or next(iter(whole.values()))
        raise InputError(
            "several machines in one archive" if whole else "no folder sys in this archive",
            source=self._source,
            expected="one folder sys at the top, or in one folder at the top",
        )


class _Contents:
    """Files, links and folders of one tree. Links to files inside the archive (hard links) become the files."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.folders: dict[str, dict[str, None]] = {}
        self.cost = 0

    def add(self, path: str, member: tarfile.TarInfo, content: bytes | None) -> None:
        """Take in a member; a later one of the same name replaces the former, as when unpacking."""
        self.cost += len(member.linkname)
        if member.issym():
            self.links[path] = member.linkname
            self.files.pop(path, None)
        elif member.islnk():
            original = _split(member.linkname)
            content = self.files.get(original[1]) if original else None
        if content is not None:
            self.files[path] = content
            self.cost += len(content)
            self.links.pop(path, None)
        if member.isdir():
            self.folders.setdefault(path, {})
        while path:
            folder, _, name = path.rpartition("/")
            names = self.folders.setdefault(folder, {})
            if name in names:
                break
            names[name] = None
            self.cost += len(path)
            path = folder


class _StrictTarInfo(tarfile.TarInfo):
    """A header reader to which a damaged header is an error rather than the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> _StrictTarInfo:
        try:
            member = super().fromtarfile(tarfile)
        except _BAD_HEADERS as error:
            raise InputError(
                f"damaged or cut off at byte {tarfile.offset} ({error})", expected="a whole tar archive"
            ) from error
        if not 0 <= member.size <= MAX_UNPACKED_BYTES:  # the library would go through all of it in empty steps
            raise InputError("impossible size", place=member.name, value=member.size, expected=_UNPACKED_LIMIT)
        return member


_BAD_HEADERS = tuple(
    getattr(tarfile, name) for name in ("InvalidHeaderError", "TruncatedHeaderError", "EmptyHeaderError")
)


class _Limited:
    """A stream of which no more than a fixed number of bytes can be read."""

    def __init__(self, stream: Readable, limit: int) -> None:
        self._stream = stream
        self._left = limit

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes; raises `InputError` at the limit."""
        content = self._stream.read(min(size, self._left + 1))
        self._left -= len(content)
        if self._left < 0:
            raise InputError("unpacks to too much", expected=_UNPACKED_LIMIT)
        return content


def _open(path: str) -> Readable:
    """The archive without its compression, which is told by its first bytes."""
    plain = Path(path)
    if not plain.is_file():
        raise InputError("no such file", source=path, expected="a tar archive of a machine's /sys")
    with plain.open("rb") as stream:
        magic = stream.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.open(path, "rb")
    if magic.startswith(b"BZh"):
        return bz2.open(path, "rb")
    if magic == b"\xfd7zXZ\0":
        return lzma.open(path, "rb")
    return plain.open("rb")


def _members(stream: Readable) -> Iterator[tuple[str, str, tarfile.TarInfo, bytes | None]]:
    """(top folder, path below it, member, content of a small regular file) for what is worth keeping."""
    limited = _Limited(stream, MAX_UNPACKED_BYTES)
    # typeshed wants more of a stream than the library uses, which is `read`.
    with tarfile.open(fileobj=limited, mode="r|", tarinfo=_StrictTarInfo) as archive:  # type: ignore[call-overload]
        for count, member in enumerate(archive, 1):
            archive.members.clear()  # it would remember every header
            if count > MAX_MEMBERS:
                raise InputError("too many members", expected=f"at most {MAX_MEMBERS}")
            place = _split(member.name)
            if place is None or len(member.linkname) > MAX_NAME_LENGTH:
                continue
            content = None
            if member.isreg() and member.size <= MAX_FILE_BYTES:
                opened = archive.extractfile(member)
                content = opened.read() if opened else None
                if content is None or len(content) < member.size:
                    raise InputError("cut off", place=member.name, expected="a whole tar archive")
            yield *place, member, content
    while limited.read(_CHUNK):  # to the end, where the checksums of compressed files are
        pass


def _split(name: str) -> tuple[str, str] | None:
    """The folder around `sys` or `proc` and the path from there; None for what is not worth keeping."""
    if len(name) > MAX_NAME_LENGTH:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    depth = 0 if parts and parts[0] in _TOPS else 1
    if len(parts) <= depth or parts[depth] not in _TOPS or ".." in parts or not _USELESS.isdisjoint(parts[2:]):
        return None
    return "/".join(parts[:depth]), "/".join(parts[depth:])
