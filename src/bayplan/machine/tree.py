"""What a reader needs of a tree of files: `read` and `list`. `bayplan.files` has trees on disk and in tar archives.

Paths are relative to the root of the machine's file system, with `/` between parts and none at the front
(`sys/devices/system/cpu/online`). A tree never raises for a path that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Tree(Protocol):
    """Read access to a tree of small text files."""

    def read(self, path: str) -> str | None:
        """The text of a file, or None if it is missing, unreadable or no regular file."""

    def list(self, path: str) -> tuple[str, ...]:
        """Sorted names in a folder; empty if it is missing or no folder. Symbolic links to folders are followed."""

    def link(self, path: str) -> str | None:
        """The target of a symbolic link as it stands, or None if it is none."""


class DictTree:
    """A tree in memory, `{"sys/devices/system/cpu/online": "0-3\\n"}`; for tests and made machines."""

    def __init__(self, files: Mapping[str, str], links: Mapping[str, str] | None = None) -> None:
        self._files = dict(files)
        self._links = dict(links or {})
        self._folders: dict[str, set[str]] = {}
        for path in [*self._files, *self._links]:
            parts = path.split("/")
            for depth, name in enumerate(parts):
                self._folders.setdefault("/".join(parts[:depth]), set()).add(name)

    def read(self, path: str) -> str | None:
        """See `Tree.read`."""
        return self._files.get(path)

    def list(self, path: str) -> tuple[str, ...]:
        """See `Tree.list`."""
        return tuple(sorted(self._folders.get(path, ())))

    def link(self, path: str) -> str | None:
        """See `Tree.link`."""
        return self._links.get(path)
