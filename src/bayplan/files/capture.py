"""Take a machine along: a small archive from which it is read elsewhere just as it would be read here.

What goes in is what the reader asked for while it read this very machine, recorded on the way, so the two can never
drift apart; of files that mix in identities, the lines that the reader uses. No serial number, no address of a network
card, no host name. The archive appears under its name when it is whole, or not at all.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

from bayplan.errors import InputError
from bayplan.files import open_tree
from bayplan.files.whole import write_whole
from bayplan.machine.model import Machine
from bayplan.machine.sysfs import read, told_lines
from bayplan.machine.tree import Tree


def capture(root: str | os.PathLike[str], out_path: str | os.PathLike[str], *, overwrite: bool = False) -> Machine:
    """Write what is needed of the machine at `root` (`/`, a folder, another capture) to `out_path`, a .tar.gz.

    Returns the machine as read. The same machine gives the same bytes. Raises `InputError` if there is no machine, if
    `out_path` exists and `overwrite` is not set, or if it cannot be written.
    """
    out = Path(out_path)
    if not overwrite and os.path.lexists(out):
        raise InputError("exists already", source=str(out), expected="a new file, or --force to replace it")
    recorder = Recorder(open_tree(root))
    machine = read(recorder, source=str(root))
    try:
        write_whole(out, pack(recorder), overwrite=overwrite)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror or error})", source=str(out)) from error
    return machine


class Recorder:
    """A `Tree` that remembers what was asked of it and what it answered."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.files: dict[str, str] = {}
        self.folders: dict[str, tuple[str, ...]] = {}
        self.links: dict[str, str] = {}

    def read(self, path: str) -> str | None:
        """See `Tree.read`."""
        content = self._tree.read(path)
        if content is not None:
            self.files[path] = content
        return content

    def list(self, path: str) -> tuple[str, ...]:
        """See `Tree.list`."""
        names = self._tree.list(path)
        self.folders[path] = names
        return names

    def link(self, path: str) -> str | None:
        """See `Tree.link`."""
        target = self._tree.link(path)
        if target is not None:
            self.links[path] = target
        return target


def pack(recorder: Recorder) -> bytes:
    """A .tar.gz of what was recorded: files that were read, links that were followed, and the names in folders.

    A numbered name (`cpu7`, `node2`) of which no more than its presence was asked becomes an empty folder; the presence
    of others means nothing to the reader.
    """
    names = {f"{folder}/{name}" for folder, entries in recorder.folders.items() for name in entries if _numbered(name)}
    parents = {path.rpartition("/")[0] for path in (*recorder.files, *recorder.links, *names)}
    empty = {name for name in names if not any((name in recorder.files, name in recorder.links, name in parents))}
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted({*recorder.files, *recorder.links, *empty}):
            member, content = _member(path, recorder)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _numbered(name: str) -> bool:
    return name[-1:].isdigit()


def _member(path: str, recorder: Recorder) -> tuple[tarfile.TarInfo, bytes]:
    """A member without owner, time or anything else that two captures of one machine could differ in."""
    member = tarfile.TarInfo(path)
    content = b""
    if path in recorder.links:
        member.type = tarfile.SYMTYPE
        member.linkname = recorder.links[path]
    elif path in recorder.files:
        content = told_lines(path, recorder.files[path]).encode()
        member.size = len(content)
    else:
        member.type = tarfile.DIRTYPE
        member.mode = 0o755
    return member, content
