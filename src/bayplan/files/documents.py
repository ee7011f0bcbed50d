"""Documents from files, folders and standard input, as a person names them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from bayplan.errors import InputError
from bayplan.workload.documents import MAX_BYTES, Document, read_documents

ENDINGS = (".yaml", ".yml", ".json")
STDIN = "-"
MAX_FILES = 100_000


def open_documents(paths: Iterable[str]) -> Iterator[Document]:
    """All documents of the files and of the folders' `*.yaml`, `*.yml` and `*.json`, in order of path; `-` is stdin.

    Raises `InputError` that names the file.
    """
    for path in paths:
        for name in _files(path):
            yield from read_documents(read_bytes(name), name)


def read_bytes(path: str) -> bytes:
    """The bytes of one file or of standard input (`-`)."""
    try:
        if path == STDIN:
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read ({reason})", source=path) from error
    if len(content) > MAX_BYTES:
        raise InputError("too large", source=path, expected=f"at most {MAX_BYTES} bytes")
    return content


def _files(path: str) -> list[str]:
    if path == STDIN or not os.path.isdir(path):
        return [path]
    found: list[str] = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [os.path.join(folder, name) for name in sorted(names) if name.endswith(ENDINGS)]
        if len(found) > MAX_FILES:
            raise InputError("too many files", source=path, expected=f"at most {MAX_FILES}")
    if not found:
        raise InputError("no manifests in this folder", source=path, expected=f"files ending in {', '.join(ENDINGS)}")
    return found
