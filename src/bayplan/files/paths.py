"""Paths through symbolic links, inside of a root that is never left.

The same rules for folders on disk and for archives: an absolute target starts at the root, `..` at the root stays
there, and more than 40 links on one path lead nowhere (as in path_resolution(7)).
"""

from __future__ import annotations

from collections.abc import Callable

MAX_LINKS = 40
MAX_PARTS = 256
_MAX_KNOWN = 500_000


class LinkedPaths:
    """Resolves paths, given what tells the target of a link (by a path without links before its last part)."""

    def __init__(self, readlink: Callable[[str], str | None]) -> None:
        self._readlink = readlink
        self._known: dict[str, str | None] = {"": ""}

    def resolve(self, path: str) -> str | None:
        """The path without links and dots, relative to the root; None if its links go round in circles."""
        resolved = self._known.get(path)
        if resolved is None and path not in self._known:
            resolved = self._walk(path)
            if len(self._known) < _MAX_KNOWN:
                self._known[path] = resolved
        return resolved

    def _walk(self, path: str) -> str | None:
        parent, _, name = path.rpartition("/")
        start = self.resolve(parent) if parent.count("/") < MAX_PARTS else None
        if start is None:
            return None
        todo = [name]
        done = start
        links = 0
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            step = f"{done}/{part}" if done else part
            target = self._readlink(step)
            if target is None:
                done = step
                continue
            links += 1
            parts = target.split("/")
            if links > MAX_LINKS or len(parts) + len(todo) > MAX_PARTS:
                return None
            done = "" if target.startswith("/") else done
            todo.extend(reversed(parts))
        return done
