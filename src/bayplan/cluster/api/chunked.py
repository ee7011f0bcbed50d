"""HTTP's chunked transfer coding, of which a watch sends one chunk per event: bytes in, payload out. Pure.

h11 does this too and is used for everything else; per chunk it costs several times what decoding a whole pod does,
and at 150,000 pods a watch is nothing but chunks. Facts: RFC 9112, section 7.1.
"""

from __future__ import annotations

import re
from typing import Final

_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_LONGEST_SIZE_LINE: Final = 4096


class ChunkError(ValueError):
    """Bytes that are not chunks."""


class ChunkedBody:
    """The body of one answer. `ended`: the last chunk has come; what follows it (trailers) is not looked at."""

    __slots__ = ("_at_end_of_chunk", "_left", "_rest", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._rest = b""
        self._left = 0
        self._at_end_of_chunk = False

    def feed(self, data: bytes) -> list[bytes]:
        """The payload in the bytes that came, as the pieces it came in. Raises `ChunkError`."""
        if self._rest:
            data = self._rest + data
        at = 0
        pieces: list[bytes] = []
        while not self.ended:
            if self._left:
                piece = data[at : at + self._left]
                if not piece:
                    break
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._at_end_of_chunk = not self._left
                continue
            begin = at + 2 if self._at_end_of_chunk else at
            if self._at_end_of_chunk and not b"\r\n".startswith(data[at:begin]):
                raise ChunkError("a chunk is longer than its size says")
            end = data.find(b"\r\n", begin, begin + _LONGEST_SIZE_LINE)
            if end < 0:
                if len(data) - begin >= _LONGEST_SIZE_LINE:
                    raise ChunkError("a chunk without a size")
                break
            self._left = _size(data[begin:end])
            self._at_end_of_chunk = False
            self.ended = not self._left
            at = end + 2
        self._rest = data[at:]
        return pieces


def _size(line: bytes) -> int:
    found = _SIZE_LINE.fullmatch(line)
    if not found:
        raise ChunkError(f"not the size of a chunk: {line[:40]!r}")
    return int(found[1], 16)
