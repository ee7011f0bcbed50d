"""What standard output can take: how wide, which letters, colour or not.

Pictures suit themselves to the terminal. Documents (JSON, YAML, SVG, HTML) do not: they are UTF-8, whatever the locale.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import NamedTuple

MAX_WIDTH = 200


class Look(NamedTuple):
    """How to draw in the terminal."""

    color: bool
    unicode: bool
    width: int

    @staticmethod
    def of(color: bool | None, ascii_only: bool, width: int | None) -> Look:
        """What was asked for, and what the terminal and NO_COLOR (no-color.org) say where nothing was."""
        terminal = sys.stdout.isatty()
        if color is None:
            color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        encoding = (sys.stdout.encoding or "").lower().replace("-", "")
        columns = width or min(shutil.get_terminal_size((100, 24)).columns, MAX_WIDTH)
        return Look(color, not ascii_only and encoding.startswith("utf"), columns)


def write_document(text: str) -> None:
    """Write a whole document to standard output, as UTF-8."""
    write_bytes(text.encode("utf-8", "backslashreplace"))


def write_bytes(content: bytes) -> None:
    """Write bytes to standard output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
