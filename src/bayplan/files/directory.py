"""A tree of files in a folder: the root of a live machine, or of an unpacked capture.

Never leaves the folder: a symbolic link that leads out of it, absolute or by `..`, is read as if the folder were the
root of the file system, as it was where the tree was captured. Reads regular files only and no more than 1 MiB of
each, for the kernel's files are small and some special files would block for ever.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from bayplan.errors import InputError
from bayplan.files.paths import LinkedPaths

MAX_FILE_BYTES = 2**20
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Directory:
    """A `bayplan.machine.tree.Tree` under `path`. Raises `InputError` if that is no folder."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._root = str(Path(path))
        if not Path(self._root).is_dir():
            raise InputError("not a folder", source=self._root, expected="the root folder of a machine, such as /")
        self._paths = LinkedPaths(self._readlink)

    def read(self, path: str) -> str | None:
        """See `Tree.read`. The text beyond 1 MiB is cut off."""
        parent, _, name = path.rpartition("/")
        folder = self._paths.resolve(parent)
        if folder is None or name in ("", ".", ".."):
            return None
        place = f"{folder}/{name}" if folder else name
        # Few files are links themselves: asking each of them would double the cost of reading a large machine.
        content = _content(self._full(place))
        if content is None and self._readlink(place) is not None:
            resolved = self._paths.resolve(path)
            content = None if resolved is None else _content(self._full(resolved))
        return None if content is None else content.decode("utf-8", "replace")

    def list(self, path: str) -> tuple[str, ...]:
        """See `Tree.list`."""
        resolved = self._paths.resolve(path)
        if resolved is None:
            return ()
        try:
            return tuple(sorted(os.listdir(self._full(resolved))))
        except OSError:  # no such folder, no folder, or not ours to read: all the same to a reader
            return ()

    def link(self, path: str) -> str | None:
        """See `Tree.link`."""
        parent, _, name = path.rpartition("/")
        resolved = self._paths.resolve(parent)
        return None if resolved is None or not name else self._readlink(f"{resolved}/{name}" if resolved else name)

    def _full(self, resolved: str) -> str:
        return f"{self._root}/{resolved}"

    def _readlink(self, path: str) -> str | None:
        try:
            return os.readlink(self._full(path))
        except (OSError, ValueError):  # no link there; ValueError: a NUL in the name
            return None


def _content(path: str) -> bytes | None:
    try:
        handle = os.open(path, _FLAGS)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        return _read_up_to(handle, MAX_FILE_BYTES)
    except OSError:  # drivers answer EIO, EINVAL, ENODEV for what they do not have at the moment
        return None
    finally:
        os.close(handle)


def _read_up_to(handle: int, limit: int) -> bytes:
    # One call gets all of nearly every kernel file; the second tells that there is no more.
    pieces = []
    while limit > 0:
        piece = os.read(handle, min(limit, 65_536))
        if not piece:
            break
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)
