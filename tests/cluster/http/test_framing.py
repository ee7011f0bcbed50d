"""Where a request begins and ends: cut anywhere, chunked, too long, and all that would have two readings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.cluster.http import Handler, HttpServer, Limits, Request, Response
from bayplan.cluster.http.connection import MOST_HEAD_BYTES, Connection

Serve = Any
"""Makes a `Serving` of conftest.py."""


class Wire(asyncio.Transport):
    """A connection whose every packet is ours to cut. Holds what was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.ended = False
        self._reading = True

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def is_closing(self) -> bool:
        return self.ended

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.written += data

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.ended = True

    abort = close


async def written(handler: Handler, packets: Sequence[bytes]) -> bytes:
    """What a server writes to a client that sends these packets, until it has nothing more to do."""
    wire = Wire()
    connection = Connection(HttpServer(handler, failed=_raise))
    connection.connection_made(wire)
    for packet in packets:
        left = memoryview(packet)
        while left and not wire.ended:
            while not wire.is_reading():
                await asyncio.sleep(0)
            room = connection.get_buffer(-1)
            taken = left[: len(room)]
            room[: len(taken)] = taken
            connection.buffer_updated(len(taken))
            left = left[len(taken) :]
    while connection.busy and wire.is_reading() is False:
        await asyncio.sleep(0)
    connection.connection_lost(None)
    return wire.written


def _raise(error: BaseException) -> None:
    raise error


def framed(body: bytes, chunks: Sequence[int] | None) -> bytes:
    """A POST of a body, with its length or in chunks of these sizes and a last one of what is left."""
    if chunks is None:
        return Head.of(f"content-length: {len(body)}") + body
    parts, start = [], 0
    for size in [*chunks, len(body)]:
        if part := body[start : start + size]:
            parts.append(b"%x;name=value\r\n%s\r\n" % (len(part), part))
        start += size
    return Head.of("transfer-encoding: Chunked") + b"".join(parts) + b"0\r\nx-trailer: there\r\n\r\n"


class Head:
    @staticmethod
    def of(*headers: str) -> bytes:
        return "\r\n".join(["POST / HTTP/1.1", "host: here", *headers, "\r\n"]).encode()


BODIES = st.one_of(st.binary(max_size=100), st.builds(bytes, st.integers(0, 70_000)))
CHUNKS = st.none() | st.lists(st.integers(1, 3_000), max_size=5)


@settings(max_examples=200)
@given(st.lists(st.tuples(BODIES, CHUNKS), min_size=1, max_size=4), st.data())
def test_requests_are_the_same_however_their_bytes_are_cut(
    requests: list[tuple[bytes, list[int] | None]], data: st.DataObject
) -> None:
    seen: list[bytes] = []

    def handler(request: Request) -> Response:
        seen.append(bytes(request.body))
        return Response(pieces=[b"%d" % len(seen)])

    stream = b"".join(framed(*request) for request in requests)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    packets = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    answers = asyncio.run(written(handler, packets))
    assert seen == [body for body, _ in requests]
    assert [part[-1:] for part in answers.split(b"HTTP/1.1 200 ")[1:]] == [b"%d" % (i + 1) for i in range(len(seen))]


def test_a_request_may_come_byte_by_byte(echoing: Handler) -> None:
    stream = framed(b"hello", None) + framed(b"chunky", [1, 2]) + framed(b"", None)
    answers = asyncio.run(written(echoing, [bytes([byte]) for byte in stream]))
    assert [answer.rpartition(b"\r\n\r\n")[2] for answer in answers.split(b"HTTP/1.1 200 ")[1:]] == [
        b"hello",
        b"chunky",
        b"",
    ]


def test_a_body_is_asked_for_if_the_client_waits_to_be_asked(serve: Serve) -> None:
    client = serve().client()
    client.send(client.head("POST", "content-length: 5", "Expect: 100-continue"))
    assert client.answer().status == 100
    client.send(b"hello")
    assert client.answer().body == b"hello"
    client.send(client.head("POST", "transfer-encoding: chunked", "Expect: 100-continue"))
    assert client.answer().status == 100
    client.send(b"2\r\nhi\r\n0\r\n\r\n")
    assert client.answer().body == b"hi"


def test_a_body_that_is_refused_is_not_asked_for(serve: Serve) -> None:
    client = serve(limits=Limits(body_bytes=4)).client()
    client.send(client.head("POST", "content-length: 5", "Expect: 100-continue"))
    assert client.answer().status == 413


def refused(client: Any, *data: bytes) -> tuple[int, str]:
    """The status and the reason; after those the server has closed the connection."""
    client.send(*data)
    answer = client.answer()
    assert answer.headers["connection"] == "close"
    assert client.rest() == b""
    return answer.status, json.loads(answer.body)["Error"]


def test_a_body_over_the_limit_is_refused_before_it_is_read(serve: Serve) -> None:
    serving = serve(limits=Limits(body_bytes=100_000))
    assert serving.client().post(bytes(100_000)).status == 200
    status, reason = refused(serving.client(), Head.of("content-length: 100001"))
    assert (status, reason) == (413, "a body of 100001 bytes; at most 100000 are taken")


def test_a_chunked_body_is_refused_when_it_comes_over_the_limit(serve: Serve) -> None:
    serving = serve(limits=Limits(body_bytes=100_000))
    client = serving.client()
    client.send(framed(bytes(100_000), [40_000, 30_000]))
    assert client.answer().body == bytes(100_000)
    status, reason = refused(serving.client(), Head.of("transfer-encoding: chunked"), b"fffffff\r\n", bytes(100_001))
    assert status == 413
    assert "at most 100000 are taken" in reason


def test_who_sends_on_without_looking_can_still_read_why_it_was_refused(serve: Serve) -> None:
    client = serve(limits=Limits(body_bytes=1000)).client()
    client.send(Head.of("content-length: 100000000"))
    with pytest.raises(ConnectionError):
        client.send(bytes(100_000_000))
    assert client.answer().status == 413


@pytest.mark.parametrize("size", [MOST_HEAD_BYTES, 10 * MOST_HEAD_BYTES])
def test_a_head_that_is_too_long_is_refused(serve: Serve, size: int) -> None:
    client = serve().client()
    client.send(b"GET / HTTP/1.1\r\nhost: here\r\nx: " + b"x" * size)
    answer = client.answer()
    assert answer.status == 431


def test_a_long_head_is_taken(serve: Serve) -> None:
    client = serve().client()
    head = client.head("POST", "content-length: 2", "x-long: " + "x" * (MOST_HEAD_BYTES - 100))
    assert MOST_HEAD_BYTES - 60 < len(head) <= MOST_HEAD_BYTES
    client.send(head + b"ab" + client.head("GET"))
    assert [client.answer().body, client.answer().body] == [b"ab", b""]


@pytest.mark.parametrize(
    "length",
    [
        "-1",
        "+5",
        "5, 6",
        "five",
        "",
        "0x5",
        "5 5",
        "5.0",
        "1e3",
        "٥",
        str(10**30),
        "9" * 5000,
        "5\r\ncontent-length: 6",
    ],
)
def test_a_length_that_is_none_is_refused(serve: Serve, length: str) -> None:
    status, reason = refused(
        serve().client(), f"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n".encode()
    )
    assert status in (400, 413)
    assert reason


def test_a_length_that_is_said_twice_is_taken(serve: Serve) -> None:
    client = serve().client()
    assert client.post(b"12345", "content-length: 5").body == b"12345"
    client.send(client.head("POST", "content-length: 5, 5"), b"67890")
    assert client.answer().body == b"67890"


SMUGGLED = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"
SMUGGLING = {
    "a length beside chunks": Head.of("content-length: 4", "transfer-encoding: chunked"),
    "chunks beside a length": Head.of("transfer-encoding: chunked", "content-length: 4"),
    "chunks twice": Head.of("transfer-encoding: chunked", "transfer-encoding: chunked"),
    "chunks of chunks": Head.of("transfer-encoding: chunked, chunked"),
    "another coding": Head.of("transfer-encoding: gzip, chunked"),
    "no coding": Head.of("transfer-encoding: identity", "content-length: 4"),
    "a word like chunked": Head.of("transfer-encoding: xchunked"),
    "a quoted coding": Head.of('transfer-encoding: "chunked"'),
    "a vertical tab": Head.of("transfer-encoding: \x0bchunked"),
    "a blank before the colon": Head.of("transfer-encoding : chunked"),
    "a name that continues": Head.of("x: y", "transfer-encoding", " : chunked"),
    "old HTTP": b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
    "a bare line feed": b"POST / HTTP/1.1\r\nhost: x\r\nx: y\ntransfer-encoding: chunked\r\n\r\n",
    "a bare line feed at the end": b"GET / HTTP/1.1\r\nhost: x\n\n",
    "a bare carriage return": b"POST / HTTP/1.1\r\nhost: x\r\nx: y\rtransfer-encoding: chunked\r\n\r\n",
    "a NUL": b"POST / HTTP/1.1\r\nhost: x\r\nx: \x00\r\n\r\n",
}


@pytest.mark.parametrize("kind", SMUGGLING)
def test_what_could_be_read_in_two_ways_is_refused_and_nothing_behind_it_is_read(serve: Serve, kind: str) -> None:
    handled: list[Request] = []

    def handler(request: Request) -> Response:
        handled.append(request)
        return Response()

    status, _ = refused(serve(handler).client(), SMUGGLING[kind] + SMUGGLED)
    assert status in (400, 501)
    assert handled == []


@pytest.mark.parametrize(
    "chunks",
    [b"x\r\n", b"-1\r\n", b"5\r\nhelloX", b"5\r\nhello0\r\n\r\n", b"f" * 21 + b"\r\n", b"5" + b";x" * 20_000, b"5\n"],
)
def test_chunks_that_are_none_are_refused(serve: Serve, chunks: bytes) -> None:
    client = serve().client()
    client.send(Head.of("transfer-encoding: chunked") + chunks + b"\r\n" * 10)
    assert client.answer().status in (400, 413, 431)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET  / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n",
        bytes(range(256)) + b"\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(serve: Serve, garbage: bytes) -> None:
    status, reason = refused(serve().client(), garbage)
    assert status in (400, 405, 505)
    assert reason


@pytest.mark.parametrize("size", [1, 1 << 16, (1 << 16) + 1, 3_000_000])
def test_a_body_is_what_was_sent(serve: Serve, size: int) -> None:
    body = bytes(range(251)) * (size // 251 + 1)
    client = serve().client()
    for sent in (body[:size], body[1 : size + 1]):
        assert client.post(sent).body == sent
