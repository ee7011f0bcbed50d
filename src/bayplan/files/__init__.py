"""Trees of files, on disk and in archives: the only place that opens them."""

from __future__ import annotations

import os
from pathlib import Path

from bayplan.files.directory import Directory
from bayplan.machine.tree import Tree

__all__ = ["Directory", "open_tree"]


def open_tree(path: str | os.PathLike[str]) -> Tree:
    """The tree at `path`: a root folder (or the folder `sys` itself, or one around a root), or a tar archive of one.

    Raises `InputError` that names the path.
    """
    folder = Path(path)
    if not folder.is_dir():
        # Archives bring four modules of the standard library along, for which a plan for a live machine need not wait.
        from bayplan.files.archive import Archive

        return Archive(folder)
    if folder.name == "sys" and (folder / "devices/system").is_dir():
        return Directory(folder.parent)
    inner = [entry for entry in folder.iterdir() if (entry / "sys").is_dir()] if not (folder / "sys").is_dir() else []
    return Directory(inner[0] if len(inner) == 1 else folder)
