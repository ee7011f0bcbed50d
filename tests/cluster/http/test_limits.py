"""Slow clients, many clients, many bodies, handlers that fail, and stopping."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from bayplan.cluster.http import Handler, HttpError, HttpServer, Limits, Request, Response
from bayplan.errors import InputError

Serve = Any
"""Makes a `Serving` of conftest.py."""
SOON_S = 0.05


def error_of(body: bytes) -> str:
    return str(json.loads(body)["Error"])


class Held:
    """A handler whose answers wait for `go_on`."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.begun: list[bytes] = []

    async def __call__(self, request: Request) -> Response:
        self.begun.append(bytes(request.body[:10]))
        await self.go_on.wait()
        return Response(pieces=[request.body[:10]])


# Time.


@pytest.mark.parametrize(
    "sent",
    [
        b"P",
        b"POST / HTTP/1.1\r\nhost: x\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n123",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
    ],
)
def test_a_request_that_does_not_come_whole_in_time_is_told_so(serve: Serve, sent: bytes) -> None:
    serving = serve(limits=Limits(read_timeout_s=SOON_S))
    client = serving.client()
    client.send(sent)
    answer = client.answer()
    assert (answer.status, answer.headers["connection"]) == (408, "close")
    assert client.rest() == b""
    serving.until(lambda: serving.server.connections == 0 and serving.server.memory.bytes_out == 0)


def test_a_client_that_sends_a_byte_now_and_then_does_not_get_more_time(serve: Serve) -> None:
    serving = serve(limits=Limits(read_timeout_s=SOON_S))
    client = serving.client()
    client.send(client.head("POST", "content-length: 100000000"))

    def send_slowly() -> None:
        while True:
            client.send(b"x")
            serving.on_loop(lambda: None)

    with pytest.raises(ConnectionError):
        send_slowly()
    assert client.answer().status == 408


def test_a_connection_that_asks_nothing_is_closed_after_a_while(serve: Serve) -> None:
    serving = serve(limits=Limits(idle_timeout_s=SOON_S))
    fresh, used = serving.client(), serving.client()
    assert used.post(b"one").body == b"one"
    assert (fresh.rest(), used.rest()) == (b"", b"")
    serving.until(lambda: serving.server.connections == 0)


def answering(pieces: list[bytes], asked: list[Request]) -> Handler:
    """Answer with the pieces, and keep what was asked: before that, the server may not have seen the client at all."""

    def answer(request: Request) -> Response:
        asked.append(request)
        return Response(pieces=pieces)

    return answer


def test_a_client_that_does_not_take_its_answer_is_cut_off(serve: Serve) -> None:
    asked: list[Request] = []
    serving = serve(answering([bytes(1 << 20)] * 50, asked), Limits(write_timeout_s=SOON_S))
    client = serving.client()
    client.send(client.head("POST", "content-length: 100000"), bytes(100_000))
    serving.until(lambda: bool(asked))
    serving.until(lambda: serving.server.connections == 0 and serving.server.memory.bytes_out == 0)
    assert len(client.rest()) < 50 << 20


def test_nor_can_one_hold_a_connection_that_is_being_closed(serve: Serve) -> None:
    """The last of the answer, which fits in what asyncio buffers, is never taken; the client asked to close."""
    asked: list[Request] = []
    serving = serve(answering([bytes(1 << 16)], asked), Limits(write_timeout_s=SOON_S))
    client = serving.client()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    requests = client.head("GET") * 200 + client.head("GET", "connection: close")
    client.socket.setblocking(False)
    client.socket.send(requests)
    serving.until(lambda: bool(asked))
    serving.until(lambda: serving.server.connections == 0)


def test_a_handler_may_take_longer_than_reading_and_writing(serve: Serve) -> None:
    held = Held()
    serving = serve(held, Limits(read_timeout_s=SOON_S, write_timeout_s=SOON_S, idle_timeout_s=SOON_S))
    client = serving.client()
    client.send(client.head("POST", "content-length: 5"), b"hello")
    serving.until(lambda: bool(held.begun))
    serving.on_loop(lambda: serving.loop.call_later(4 * SOON_S, held.go_on.set))
    assert client.answer().body == b"hello"


# Memory for bodies.


def test_bodies_beyond_the_memory_for_them_wait_in_line_and_go_on(serve: Serve) -> None:
    held = Held()
    serving = serve(held, Limits(bodies_bytes=100_000))
    clients = []
    for name in (b"a", b"b", b"c"):
        client = serving.client()
        client.send(client.head("POST", "content-length: 80000"), name * 80_000)
        clients.append(client)
        serving.until(lambda: len(held.begun) == 1)
    small = serving.client()
    small.send(small.head("POST", "content-length: 1"), b"s")
    serving.until(lambda: len(serving.server.memory._waiting) == 3)
    assert held.begun == [b"a" * 10]
    assert serving.server.memory.bytes_out == 80_000
    serving.on_loop(held.go_on.set)
    assert [client.answer().body for client in clients] == [b"a" * 10, b"b" * 10, b"c" * 10]
    assert small.answer().body == b"s"


def test_who_waits_for_memory_too_long_is_told_so(serve: Serve) -> None:
    held = Held()
    serving = serve(held, Limits(bodies_bytes=100_000, read_timeout_s=SOON_S))
    first, second = serving.client(), serving.client()
    first.send(first.head("POST", "content-length: 80000"), b"a" * 80_000)
    serving.until(lambda: bool(held.begun))
    second.send(second.head("POST", "content-length: 80000"), b"b" * 80_000)
    answer = second.answer()
    assert (answer.status, error_of(answer.body)) == (503, "too many bodies at once")
    serving.on_loop(held.go_on.set)
    assert first.answer().body == b"a" * 10
    serving.until(lambda: serving.server.memory.bytes_out == 0)
    assert held.begun == [b"a" * 10]


def test_chunked_bodies_are_counted_as_the_largest(serve: Serve) -> None:
    held = Held()
    serving = serve(held, Limits(body_bytes=80_000, bodies_bytes=100_000))
    clients = [serving.client() for _ in range(2)]
    for client in clients:
        client.send(client.head("POST", "transfer-encoding: chunked"), b"5\r\nhello\r\n0\r\n\r\n")
    serving.until(lambda: len(held.begun) == 1 and len(serving.server.memory._waiting) == 1)
    serving.on_loop(held.go_on.set)
    assert [client.answer().body for client in clients] == [b"hello", b"hello"]


def test_a_body_that_is_only_announced_costs_no_memory(serve: Serve, calls: Callable[[Any], int]) -> None:
    serving = serve()
    before = _resident_bytes()
    clients = [serving.client() for _ in range(2)]
    for client in clients:
        client.send(client.head("POST", f"content-length: {128 << 20}"), b"x")
    serving.until(lambda: serving.server.memory.bytes_out == 256 << 20)
    assert _resident_bytes() - before < 32 << 20


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


# Connections.


def test_a_connection_too_many_is_closed_and_a_place_that_is_free_is_given(serve: Serve) -> None:
    serving = serve(limits=Limits(connections=2))
    first, second = serving.client(), serving.client()
    assert [first.post(b"1").body, second.post(b"2").body] == [b"1", b"2"]
    third = serving.client()
    assert third.rest() == b""
    assert [first.post(b"1").body, second.post(b"2").body] == [b"1", b"2"]
    first.close()
    serving.until(lambda: serving.server.connections == 1)
    assert serving.client().post(b"4").body == b"4"


def test_many_connections_come_and_go(serve: Serve) -> None:
    serving = serve(limits=Limits(connections=5))
    for _ in range(60):
        client = serving.client()
        assert client.post(b"x", "connection: close").body == b"x"
        assert client.rest() == b""
        serving.until(lambda: serving.server.connections == 0)


# Stopping.


def test_stopping_closes_idle_connections_and_takes_no_new_ones(serve: Serve) -> None:
    serving = serve()
    fresh, used = serving.client(), serving.client()
    assert used.post(b"one").body == b"one"
    serving.until(lambda: serving.server.connections == 2)
    serving.wait_for(serving.server.stop(30))
    assert (fresh.rest(), used.rest()) == (b"", b"")
    with pytest.raises(ConnectionRefusedError):
        serving.client()


def test_stopping_answers_what_has_begun(serve: Serve) -> None:
    held = Held()
    serving = serve(held)
    asked, asking = serving.client(), serving.client()
    asked.send(asked.head("POST", "content-length: 5"), b"asked")
    asking.send(asking.head("POST", "content-length: 6"), b"ask")
    serving.until(lambda: bool(held.begun) and serving.server.memory.bytes_out == 11)
    stopping = asyncio.run_coroutine_threadsafe(serving.server.stop(30), serving.loop)
    serving.until(lambda: serving.server._stopping)
    asking.send(b"ing")
    serving.until(lambda: len(held.begun) == 2)
    assert not stopping.done()
    serving.on_loop(held.go_on.set)
    for client, body in ((asked, b"asked"), (asking, b"asking")):
        answer = client.answer()
        assert (answer.body, answer.headers["connection"]) == (body, "close")
        assert client.rest() == b""
    stopping.result(30)


def test_stopping_breaks_off_what_takes_longer_than_the_grace(serve: Serve) -> None:
    held = Held()
    serving = serve(held)
    client = serving.client()
    client.send(client.head("POST", "content-length: 5"), b"hello")
    serving.until(lambda: bool(held.begun))
    serving.wait_for(serving.server.stop(SOON_S))
    assert client.rest() == b""
    assert serving.server.connections == 0


def test_a_server_may_be_stopped_at_once_and_twice(serve: Serve) -> None:
    serving = serve()
    serving.wait_for(serving.server.stop(0))
    serving.wait_for(serving.server.stop(0))


def test_a_server_that_was_never_started_may_be_stopped() -> None:
    asyncio.run(HttpServer(lambda request: Response(), failed=print).stop(0))


# Addresses.


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", -1), ("127.0.0.1", 70_000), ("203.0.113.1", 0), ("no-such-host.invalid", 0)]
)
def test_an_address_that_cannot_be_had_is_an_error_of_the_input(host: str, port: int) -> None:
    server = HttpServer(lambda request: Response(), failed=print)
    with pytest.raises(InputError, match=f"^{host}:{port}: cannot listen: ."):
        asyncio.run(server.start(host, port))


def test_a_port_that_is_taken_is_an_error_of_the_input(serve: Serve) -> None:
    port = serve().port
    server = HttpServer(lambda request: Response(), failed=print)
    with pytest.raises(InputError, match="cannot listen: Address already in use"):
        asyncio.run(server.start("127.0.0.1", port))


def test_without_a_host_it_listens_at_every_address() -> None:
    async def ask() -> bytes:
        server = HttpServer(lambda request: Response(), failed=print)
        await server.start("", 0)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer
        finally:
            await server.stop(1)

    assert asyncio.run(ask()).startswith(b"HTTP/1.1 200 ")


# Handlers.


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (HttpError(404, "no such path", {"x-why": "gone"}), 404, "no such path"),
        (InputError("not a Pod", place="Pod", value="\udcff\x1b"), 400, r"Pod: not a Pod: '\udcff\x1b'"),
        (RecursionError("deep"), 500, "an error of the server's own; its log tells more"),
        (KeyError("x"), 500, "an error of the server's own; its log tells more"),
    ],
)
def test_what_a_handler_raises_is_answered(
    serve: Serve, error: Exception, status: int, reason: str, awaited: bool
) -> None:
    def at_once(request: Request) -> Response:
        raise error

    async def later(request: Request) -> Response:
        await asyncio.sleep(0)
        raise error

    serving = serve(later if awaited else at_once)
    client = serving.client()
    for _ in range(2):
        answer = client.post(b"x")
        assert (answer.status, error_of(answer.body)) == (status, reason)
    assert serving.failed == ([error, error] if status == 500 else [])
    assert answer.headers.get("x-why") == ("gone" if status == 404 else None)


BAD_ANSWERS: dict[str, Any] = {
    "no response": lambda request: None,
    "a body": lambda request: b"body",
    "a status that is none": lambda request: Response(status=99),
    "a header of two lines": lambda request: Response(headers={"x": "a\r\nb: c"}),
    "pieces that are none": lambda request: Response(pieces=["text"]),  # type: ignore[list-item]
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
@pytest.mark.parametrize("awaited", [False, True])
def test_a_handler_that_answers_nonsense_is_told_of_and_holds_nothing(serve: Serve, kind: str, awaited: bool) -> None:
    async def later(request: Request) -> Any:
        return BAD_ANSWERS[kind](request)

    serving = serve(later if awaited else BAD_ANSWERS[kind])
    client = serving.client()
    client.send(client.head("POST", "content-length: 5", "connection: close"), b"hello")
    got = client.rest()
    assert got == b"" or got.startswith((b"HTTP/1.1 500 ", b"HTTP/1.1 200 "))
    client.close()
    serving.until(lambda: serving.server.connections == 0)
    assert len(serving.failed) == 1
    assert serving.server.memory.bytes_out == 0


def test_a_handler_that_is_cancelled_from_within_ends_its_connection(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        raise asyncio.CancelledError

    serving = serve(handler)
    client = serving.client()
    client.send(client.head("POST", "content-length: 5"), b"hello")
    assert client.rest() == b""
    serving.until(lambda: serving.server.connections == 0)
