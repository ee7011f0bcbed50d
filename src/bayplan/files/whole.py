"""Files that appear under their names when they are whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from bayplan.errors import InputError


def write_whole(out: Path, content: bytes, *, overwrite: bool = True) -> None:
    """Write beside the place, then move there in one step; whatever interrupts it leaves nothing behind.

    Raises `OSError`, and `InputError` for a file that is there and is not to be replaced.
    """
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)  # of a process of this number that was killed: in a container they often are equal
    try:
        with partial.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if not overwrite and os.path.lexists(out):
            raise InputError("exists already", source=str(out), expected="a new file, or --force to replace it")
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
