"""Connections: kept, closed, half closed, and clients that go away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bayplan.cluster.http import Limits, Request, Response

Serve = Any
"""Makes a `Serving` of conftest.py."""


def test_a_connection_serves_one_request_after_the_other(serve: Serve) -> None:
    client = serve().client()
    for body in (b"one", b"", b"x" * 300_000, b"four"):
        answer = client.post(body, path="/scheduler/filter?verbose=1")
        assert (answer.status, answer.body) == (200, body)
        assert answer.headers["x-path"] == "/scheduler/filter"
        assert "connection" not in answer.headers


def test_a_request_says_what_was_asked(serve: Serve) -> None:
    seen: list[Request] = []

    def handler(request: Request) -> Response:
        seen.append(request)
        return Response()

    client = serve(handler).client()
    client.send(b"PUT /a?b HTTP/1.1\r\nHost: here\r\nX-Twice: first\r\nX-Twice: second\r\nX-Latin: \xe9\r\n\r\n")
    assert client.answer().status == 200
    [request] = seen
    assert (request.method, request.path) == ("PUT", "/a")
    assert request.headers == {"host": "here", "x-twice": "first", "x-latin": "é"}


@pytest.mark.parametrize(
    ("content_type", "is_json"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/json-patch+json", False),
        ("text/plain", False),
    ],
)
def test_a_body_is_json_if_it_is_said_to_be(serve: Serve, content_type: str, is_json: bool) -> None:
    def handler(request: Request) -> Response:
        return Response(status=200 if request.is_json else 415)

    answer = serve(handler).client().post(b"{}", f"Content-Type: {content_type}")
    assert answer.status == (200 if is_json else 415)


def test_requests_that_come_in_one_packet_are_answered_in_their_order(serve: Serve) -> None:
    client = serve().client()
    head = client.head
    client.send(
        head("POST", "content-length: 3")
        + b"one"
        + head("GET")
        + head("POST", "transfer-encoding: chunked")
        + b"4\r\nfour\r\n0\r\n\r\n"
        + head("POST", "content-length: 4")
        + b"last"
    )
    assert [client.answer().body for _ in range(4)] == [b"one", b"", b"four", b"last"]


def test_the_next_request_may_come_while_a_body_is_being_read(serve: Serve) -> None:
    client = serve().client()
    first, second = b"a" * 100_000, b"b" * 50_000
    client.send(client.head("POST", "content-length: 100000"), first[:60_000])
    client.send(first[60_000:] + client.head("POST", "content-length: 50000") + second)
    assert client.answer().body == first
    assert client.answer().body == second


def test_the_next_request_waits_while_one_is_being_handled(serve: Serve) -> None:
    go_on, begun = asyncio.Event(), []

    async def handler(request: Request) -> Response:
        begun.append(bytes(request.body))
        if bytes(request.body) == b"first":
            await go_on.wait()
        return Response(pieces=[request.body])

    serving = serve(handler)
    client = serving.client()
    client.send(client.head("POST", "content-length: 5"), b"first")
    serving.until(lambda: begun == [b"first"])
    client.send(client.head("POST", "content-length: 6"), b"second")
    other = serving.client()
    assert other.post(b"other").body == b"other"
    assert begun == [b"first", b"other"]
    serving.on_loop(go_on.set)
    assert client.answer().body == b"first"
    assert client.answer().body == b"second"


@pytest.mark.parametrize(
    "headers", [["Connection: close"], ["connection: Upgrade,  CLOSE"], ["connection: x", "connection: close"]]
)
def test_who_asks_to_close_is_answered_and_left(serve: Serve, headers: list[str]) -> None:
    client = serve().client()
    answer = client.post(b"bye", *headers)
    assert (answer.body, answer.headers["connection"]) == (b"bye", "close")
    assert client.rest() == b""


def test_a_word_that_only_contains_close_does_not(serve: Serve) -> None:
    client = serve().client()
    assert client.post(b"one", "connection: not-close").body == b"one"
    assert client.post(b"two").body == b"two"


def test_http_1_0_gets_one_answer(serve: Serve) -> None:
    client = serve().client()
    client.send(b"POST /x HTTP/1.0\r\nContent-Length: 3\r\n\r\nold")
    answer = client.answer()
    assert (answer.body, answer.headers["connection"]) == (b"old", "close")
    assert client.rest() == b""


def test_head_is_answered_with_the_length_and_without_the_body(serve: Serve) -> None:
    client = serve(lambda request: Response(pieces=[b"12345", b"678"])).client()
    client.send(client.head("HEAD"))
    answer = client.answer(to_head=True)
    assert (answer.status, answer.headers["content-length"]) == (200, "8")
    client.send(client.head("GET"))
    assert client.answer().body == b"12345678"


def test_an_answer_may_come_in_pieces_of_any_size(serve: Serve) -> None:
    pieces: list[Any] = [
        b"a",
        b"b" * 1_000_000,
        memoryview(b"-c-" * 200_000)[1:-1],
        b"",
        bytearray(b"d"),
        *[b"1234567"] * 60_000,
    ]
    client = serve(lambda request: Response(pieces=pieces)).client()
    for _ in range(2):
        assert client.post(b"").body == b"".join(pieces)


def test_a_client_that_will_send_no_more_is_still_answered(serve: Serve) -> None:
    go_on, begun = asyncio.Event(), []

    async def handler(request: Request) -> Response:
        begun.append(1)
        await go_on.wait()
        return Response(pieces=[request.body])

    serving = serve(handler)
    client = serving.client()
    client.send(client.head("POST", "content-length: 5"), b"first", client.head("POST", "content-length: 4"), b"last")
    client.half_close()
    serving.until(lambda: bool(begun))
    serving.on_loop(go_on.set)
    assert client.answer().body == b"first"
    assert client.answer().body == b"last"
    assert client.rest() == b""


@pytest.mark.parametrize("sent", [b"", b"POST / HT", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n123"])
@pytest.mark.parametrize("leave", ["half_close", "close", "reset"])
def test_a_client_that_leaves_in_the_middle_is_let_go(serve: Serve, sent: bytes, leave: str) -> None:
    handled: list[Request] = []

    def handler(request: Request) -> Response:
        handled.append(request)
        return Response()

    serving = serve(handler)
    client = serving.client()
    client.send(sent)
    serving.until(lambda: serving.server.connections == 1)
    getattr(client, leave)()
    serving.until(lambda: serving.server.connections == 0 and serving.server.memory.bytes_out == 0)
    assert handled == []


def test_a_client_that_leaves_while_it_is_answered_frees_its_body(serve: Serve) -> None:
    serving = serve(lambda request: Response(pieces=[bytes(1 << 16)] * 1000))
    client = serving.client()
    client.send(client.head("POST", "content-length: 100000"), bytes(100_000))
    client.socket.recv(1000)
    assert serving.server.memory.bytes_out == 100_000
    client.reset()
    serving.until(lambda: serving.server.connections == 0 and serving.server.memory.bytes_out == 0)


def test_a_body_is_not_given_to_another_request_while_a_handler_that_was_broken_off_reads_it(serve: Serve) -> None:
    """The handler is told by cancelling it, and may have something to finish with."""
    go_on, asked = asyncio.Event(), asyncio.Event()
    after: list[bytes] = []

    async def handler(request: Request) -> Response:
        if request.path == "/other":
            return Response(pieces=[request.body])
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await go_on.wait()
            after.append(bytes(request.body))
            raise
        return Response()

    serving = serve(handler, Limits(read_timeout_s=0.05))
    serving.on_loop(lambda: serving.server.memory.give_back(_taken(serving, 200_000)))
    client = serving.client()
    client.send(client.head("POST", "content-length: 200000"), b"a" * 200_000)
    serving.until(asked.is_set)
    # Nothing is read from a client while it waits for its answer: only the server can end this.
    serving.on_loop(lambda: next(iter(serving.server._connections)).abort())
    serving.until(lambda: serving.server.connections == 0)
    assert serving.server.memory.bytes_out == 200_000
    other = serving.client()
    assert other.post(b"b" * 200_000, path="/other").status == 200
    serving.on_loop(go_on.set)
    serving.until(lambda: bool(after))
    assert after == [b"a" * 200_000]


def _taken(serving: Any, size: int) -> memoryview:
    taken: list[memoryview] = []
    serving.server.memory.take(size, taken.append)
    return taken[0]
