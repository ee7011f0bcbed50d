"""Pieces of an answer, gathered into writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bayplan.cluster.http.messages import Piece

# About this much for one write: a system call for each 7 KB node would cost more than a copy.
WRITE_BYTES = 256 * 1024


def gathered(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """The pieces in amounts fit for one write, made one by one: memory that is used again costs no page faults."""
    gathered: list[Piece] = []
    size = 0
    for piece in pieces:
        if size + len(piece) <= WRITE_BYTES:
            gathered.append(piece)
            size += len(piece)
            continue
        for start in range(0, len(piece), WRITE_BYTES):
            part = memoryview(piece)[start : start + WRITE_BYTES]
            if size + len(part) > WRITE_BYTES:
                yield b"".join(gathered)
                gathered, size = [], 0
            gathered.append(part)
            size += len(part)
    yield b"".join(gathered)
