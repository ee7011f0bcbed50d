"""The payload of a chunked body comes out the same however its bytes are cut, and what is not chunks is refused."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.cluster.api.chunked import ChunkedBody, ChunkError


def encoded(chunks: list[bytes], extension: bytes = b"") -> bytes:
    return b"".join(b"%x%s\r\n%s\r\n" % (len(chunk), extension, chunk) for chunk in chunks) + b"0\r\n\r\n"


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    st.lists(st.integers(0, 400), max_size=12),
    st.sampled_from([b"", b";x=y", b' ; quoted="a"']),
)
def test_however_it_is_cut(chunks: list[bytes], cuts: list[int], extension: bytes) -> None:
    data = encoded(chunks, extension)
    body = ChunkedBody()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [piece for begin, end in itertools.pairwise(places) for piece in body.feed(data[begin:end])]
    assert b"".join(pieces) == b"".join(chunks)
    assert body.ended


def test_it_is_not_ended_before_the_last_chunk() -> None:
    body = ChunkedBody()
    assert body.feed(b"3\r\nabc\r\n0\r") == [b"abc"]
    assert not body.ended
    assert body.feed(b"\n") == []
    assert body.ended


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"x\r\n", "not the size of a chunk: b'x'"),
        (b"-1\r\nabc", "not the size"),
        (b"1_0\r\n", "not the size"),
        (b"\r\n", "not the size of a chunk: b''"),
        (b"123456789\r\n", "not the size"),
        (b"2\r\nabc\r\n", "longer than its size says"),
        (b"2;" + b"x" * 5000, "a chunk without a size"),
    ],
)
def test_what_is_not_chunks(data: bytes, problem: str) -> None:
    with pytest.raises(ChunkError, match=problem):
        ChunkedBody().feed(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_chunks_or_refused(data: bytes) -> None:
    body = ChunkedBody()
    try:
        pieces = body.feed(data)
    except ChunkError:
        return
    assert sum(map(len, pieces)) <= len(data)
