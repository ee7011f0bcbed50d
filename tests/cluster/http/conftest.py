"""A server in a thread of its own, and clients that speak to it byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import pytest

from bayplan.cluster.http import Handler, HttpServer, Limits, Request, Response, TlsFiles

# Nothing takes nearly as long: whoever waits that long has found a defect.
PATIENCE_S = 30
T = TypeVar("T")


class Answer(NamedTuple):
    """What a client got: status, headers by lower-case name, body."""

    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """One connection. Everything that waits fails after `PATIENCE_S`."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._got = bytearray()

    def send(self, *data: bytes) -> None:
        for part in data:
            self.socket.sendall(part)

    def post(self, body: bytes, *headers: str, path: str = "/") -> Answer:
        self.send(self.head("POST", f"content-length: {len(body)}", *headers, path=path), body)
        return self.answer()

    @staticmethod
    def head(method: str, *headers: str, path: str = "/", version: str = "1.1") -> bytes:
        return "\r\n".join([f"{method} {path} HTTP/{version}", "host: here", *headers, "\r\n"]).encode()

    def answer(self, *, to_head: bool = False) -> Answer:
        """The next answer, whole. Fails if the connection ends before."""
        lines = self._until(b"\r\n\r\n").decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:-2])}
        length = 0 if to_head else int(headers.get("content-length", "0"))
        while len(self._got) < length:
            self._more()
        body = bytes(self._got[:length])
        del self._got[:length]
        return Answer(int(lines[0].split(" ")[1]), headers, body)

    def rest(self) -> bytes:
        """What comes until the server closes, or resets, the connection."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while data := self.socket.recv(1 << 16):
                self._got += data
        got, self._got = self._got, bytearray()
        return bytes(got)

    def half_close(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Go away without a word."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def _until(self, end: bytes) -> bytes:
        while end not in self._got:
            self._more()
        found, _, self._got = self._got.partition(end)
        return bytes(found) + end

    def _more(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError(f"the connection ended after {bytes(self._got[:100])!r}")
        self._got += data


class Serving:
    """A server that runs. `failed`: the errors it told of; `stray`: those that nobody was told of."""

    def __init__(self, handler: Handler, limits: Limits | None, tls: TlsFiles | None) -> None:
        self.failed: list[BaseException] = []
        self.stray: list[dict[str, object]] = []
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda loop, context: self.stray.append(context))
        self.server = HttpServer(handler, limits=limits, failed=self.failed.append)
        self._clients: list[Client] = []
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self.wait_for(self.server.start("127.0.0.1", 0, tls))
        except BaseException:
            self._end_loop()
            raise
        self.port = self.server.port

    def client(self, context: ssl.SSLContext | None = None, name: str | None = None) -> Client:
        """A new connection; with TLS if there is a context, for a server of that name."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            try:
                connection = context.wrap_socket(connection, server_hostname=name)
            except BaseException:
                connection.close()
                raise
        self._clients.append(Client(connection))
        return self._clients[-1]

    def on_loop(self, work: Callable[[], T]) -> T:
        """Call it where the server runs."""

        async def call() -> T:
            return work()

        return self.wait_for(call())

    def wait_for(self, work: object) -> T:  # type: ignore[type-var]
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)  # type: ignore[arg-type]

    def until(self, true: Callable[[], bool]) -> None:
        """Wait for something that the server will come to."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.on_loop(true):
            assert time.monotonic() < deadline, "that did not come to pass"
            time.sleep(0.002)

    def end(self) -> None:
        """Stop it; nothing may be left over."""
        for client in self._clients:
            client.close()
        self.wait_for(self.server.stop(PATIENCE_S))
        bytes_out = self.server.memory.bytes_out
        left = self.on_loop(lambda: len(asyncio.all_tasks(self.loop)) - 1)
        self._end_loop()
        assert bytes_out == 0
        assert self.server.connections == 0
        assert left == 0
        assert self.stray == []

    def _end_loop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def echo(request: Request) -> Response:
    """The request's body, and what else there was of it in the headers."""
    headers = {"x-method": request.method, "x-path": request.path, "x-kind": request.headers.get("content-type", "")}
    return Response(content_type="text/plain", pieces=[request.body], headers=headers)


Serve = Callable[..., Serving]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Make a server: `serve(handler=echo, limits=None, tls=None)`. Each is stopped, and looked over, after the test."""
    servers: list[Serving] = []

    def make(handler: Handler = echo, limits: Limits | None = None, tls: TlsFiles | None = None) -> Serving:
        servers.append(Serving(handler, limits, tls))
        return servers[-1]

    yield make
    for server in servers:
        server.end()


@pytest.fixture(scope="session")
def echoing() -> Handler:
    """The handler that answers with what it was asked."""
    return echo
