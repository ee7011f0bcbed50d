"""Listens, keeps to its limits, and stops without dropping what it has begun to answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus

import msgspec

from bayplan.cluster.http.bodies import BodyMemory
from bayplan.cluster.http.connection import Connection
from bayplan.cluster.http.messages import Handler, HttpError, Request, Response, json_error
from bayplan.cluster.http.tls import FreshContext, TlsFiles
from bayplan.errors import InputError

BACKLOG = 128
# How long to wait before accepting again when there was no file descriptor for a connection.
NO_DESCRIPTOR_S = 0.2


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What one server takes. `bodies_bytes`: of all bodies being received or answered; beyond it requests wait.

    `connections` counts those whose TLS handshake is under way. `body_bytes`: of one body (15,000 nodes of 7 KB are
    110 MB); a larger one is refused before it is read. A chunked body, whose size is not told, takes as much of
    `bodies_bytes` as the largest.
    `read_timeout_s` is for a TLS handshake, for memory for a body, and for a request to come whole once it has begun;
    `write_timeout_s` for the client to take the whole answer; `idle_timeout_s` for a request to begin.
    """

    connections: int = 256
    body_bytes: int = 128 << 20
    bodies_bytes: int = 256 << 20
    spare_bytes: int = 64 << 20
    read_timeout_s: float = 10
    write_timeout_s: float = 10
    idle_timeout_s: float = 120


class HttpServer:
    """One listening address and what answers there.

    `handler` answers a request, at once or as a coroutine; an `HttpError` that it raises becomes the answer, whatever
    else it raises a 500 that `failed` is told of. `failed` must not raise.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits | None = None,
        failed: Callable[[BaseException], None],
    ) -> None:
        limits = limits or Limits()
        self.memory = BodyMemory(limits.bodies_bytes, limits.spare_bytes)
        self.most_body_bytes = limits.body_bytes
        self.read_timeout_s = limits.read_timeout_s
        self.write_timeout_s = limits.write_timeout_s
        self.idle_timeout_s = limits.idle_timeout_s
        self.failed = failed
        self._most_connections = limits.connections
        self._handler = handler
        self._tls: FreshContext | None = None
        self._connections: set[Connection] = set()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def connections(self) -> int:
        """How many there are, those included whose TLS handshake is under way."""
        return len(self._connections)

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    async def start(self, host: str, port: int, tls: TlsFiles | None = None) -> None:
        """Listen at an address, or at all if `host` is empty. Returns when connections are taken.

        Raises `InputError` for an address that cannot be had, and for TLS files that cannot be used.
        """
        self._tls = FreshContext(tls, self.failed) if tls else None
        place = f"{host or '*'}:{port}"
        if not 0 <= port < 1 << 16:
            raise InputError("cannot listen: no such port", place=place, expected="0 to 65535")
        try:
            self._listener = _listening(host, port)
        except OSError as error:
            raise InputError(f"cannot listen: {error.strerror}", place=place) from error
        self._accepting = asyncio.get_running_loop().create_task(self._accept(self._listener))

    async def stop(self, grace_s: float) -> None:
        """Take no new connections, answer what has begun, close; after `grace_s` seconds close all the same."""
        self._stopping = True
        if self._accepting is not None and self._listener is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
            self._listener.close()
        for handshake in tuple(self._handshakes):
            handshake.cancel()
        for connection in tuple(self._connections):
            connection.close()
        deadline = asyncio.get_running_loop().time() + grace_s
        while self._connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        for connection in tuple(self._connections):
            connection.abort()
        while self._connections or self._handshakes:
            await asyncio.sleep(0)

    # Why not asyncio's own server: it tells of a connection after its TLS handshake, so that connections which only
    # begin one, 256 KB each, could not be counted; and it has one TLS context for all.

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except ConnectionError:  # it has gone already
                continue
            except OSError as error:
                self.failed(error)
                await asyncio.sleep(NO_DESCRIPTOR_S)
                continue
            if len(self._connections) >= self._most_connections:
                client.close()
                continue
            connection = Connection(self)
            self._connections.add(connection)
            handshake = loop.create_task(self._begin(connection, client))
            self._handshakes.add(handshake)
            handshake.add_done_callback(partial(self._begun, connection, client))

    async def _begin(self, connection: Connection, client: socket.socket) -> None:
        timeout_s = self.read_timeout_s if self._tls else None
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: connection,
            client,
            ssl=self._tls.now() if self._tls else None,
            ssl_handshake_timeout=timeout_s,
            ssl_shutdown_timeout=timeout_s,
        )

    def _begun(self, connection: Connection, client: socket.socket, handshake: asyncio.Task[None]) -> None:
        self._handshakes.discard(handshake)
        error = None if handshake.cancelled() else handshake.exception()
        if error is None and not handshake.cancelled():
            return
        self._connections.discard(connection)
        client.close()
        # An OSError is of the client's making: no or a bad certificate, not TLS, too slow, gone.
        if error is not None and not isinstance(error, OSError):
            self.failed(error)

    def opened(self, connection: Connection) -> None:
        """A client is there."""
        if self._stopping:
            connection.abort()

    def closed(self, connection: Connection) -> None:
        """A client is gone."""
        self._connections.discard(connection)

    def handle(self, request: Request) -> Awaitable[Response] | Response:
        """The handler's answer, or the error it ended with as one."""
        try:
            answer = self._handler(request)
        except Exception as error:  # noqa: BLE001 - whatever a handler ends with, its client gets an answer
            return self._told(error)
        return answer if isinstance(answer, Response) else self._awaited(answer)

    async def _awaited(self, answer: Awaitable[Response]) -> Response:
        try:
            return await answer
        except Exception as error:  # noqa: BLE001 - whatever a handler ends with, its client gets an answer
            return self._told(error)

    def _told(self, error: Exception) -> Response:
        if isinstance(error, HttpError):
            return error.response
        if isinstance(error, InputError):
            return json_error(HTTPStatus.BAD_REQUEST, str(error))
        self.failed(error)
        return json_error(HTTPStatus.INTERNAL_SERVER_ERROR, "an error of the server's own; its log tells more")


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens, for IPv4 and IPv6 both where no address says which."""
    if not host and socket.has_dualstack_ipv6():
        listener = socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
    else:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    listener.setblocking(False)
    return listener
