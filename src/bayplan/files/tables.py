"""Lines of text from large files: tables of pods and nodes, plain or compressed with gzip, one line at a time.

Told by content, not by name. Bounded: what comes out of the decompressor, and one line; what is damaged, cut off or no
UTF-8 is refused where it is met. Facts: RFC 1952 (a gzip file begins with 1f 8b).
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import IO, NamedTuple

from bayplan.errors import InputError
from bayplan.files.documents import STDIN

MAX_UNPACKED_BYTES = 1 << 30
MAX_LINE = 100_000
PRESET = "preset:"
_GZIP = b"\x1f\x8b"
_DAMAGE = (EOFError, zlib.error, OSError, UnicodeError)


class Lines(NamedTuple):
    """`first` is the first line that is not blank (empty: there is none); `all` gives it again, with those after it."""

    first: str
    all: Iterator[str]


@contextmanager
def open_lines(path: str) -> Iterator[Lines]:
    """The lines of a file, of standard input (`-`) or of a file that comes with Bayplan (`preset:small/pods.csv`).

    An `InputError` that is raised here, while the lines are read or by who reads them, names the file.
    """
    try:
        with _open(path) as stream:
            lines = _lines(stream)
            first = next((line for line in lines if line.strip()), "")
            yield Lines(first, _again(first, lines))
    except InputError as error:
        raise error.within(source=path) from error


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    if first:
        yield first
    yield from rest


def _open(path: str) -> IO[bytes]:
    try:
        if path == STDIN:
            return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
        if path.startswith(PRESET):
            name, _, file = path.removeprefix(PRESET).partition("/")
            return (resources.files("bayplan.simulate") / "presets" / name / file).open("rb")
        return open(path, "rb")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read ({reason})", source=path) from error


def _lines(stream: IO[bytes]) -> Iterator[str]:
    number = 0
    try:
        buffered = io.BufferedReader(_Limited(stream))
        packed = buffered.peek(2)[:2] == _GZIP
        bare = io.BufferedReader(_Limited(gzip.GzipFile(fileobj=buffered))) if packed else buffered
        text = io.TextIOWrapper(bare, encoding="utf-8-sig", newline="")
        while line := text.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise InputError("too long", place=f"line {number}", expected=f"at most {MAX_LINE} characters")
            yield line
    except _DAMAGE as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(
            f"cannot be read ({reason})", place=f"after line {number}", expected="UTF-8 text, or that in gzip"
        ) from error


class _Limited(io.RawIOBase):
    """A stream of which no more than a fixed number of bytes can be read."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile) -> None:
        self._stream = stream
        self._left = MAX_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        content = self._stream.read(min(len(buffer), self._left + 1))
        self._left -= len(content)
        if self._left < 0:
            raise InputError("too much", expected=f"at most {MAX_UNPACKED_BYTES} bytes, unpacked")
        buffer[: len(content)] = content
        return len(content)
