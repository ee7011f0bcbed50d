"""Listens, keeps to its limits, and stops without dropping what it has begun to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec

from bayplan.cluster.http.bodies import BodyMemory
from bayplan.cluster.http.connection import Connection
from bayplan.cluster.http.messages import Handler, HttpError, Request, Response, json_error
from bayplan.cluster.http.tls import FreshContext, TlsFiles
from bayplan.errors import InputError


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one server takes. `bodies_bytes`: of all bodies being received or answered; beyond it requests wait.

    `body_bytes`: of one body (15,000 nodes of 7 KB are 110 MB); a larger one is refused before it is read.
    `read_timeout_s` is for a request to come whole once it has begun, `idle_timeout_s` for one to begin.
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
    else it raises a 500 that `failed` is told of.
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
        self._most_connections = limits.connections
        self._handler = handler
        self._failed = failed
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._stopping = False

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._connections)

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self, host: str, port: int, tls: TlsFiles | None = None) -> None:
        """Listen. Raises `InputError` for an address that cannot be had, and for TLS files that cannot be used."""
        context = FreshContext(tls, self._failed).listening if tls else None
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: Connection(self),
                host or None,
                port,
                ssl=context,
                ssl_handshake_timeout=self.read_timeout_s if tls else None,
                reuse_address=True,
                backlog=128,
            )
        except OSError as error:
            raise InputError(f"cannot listen: {error.strerror}", place=f"{host or '*'}:{port}") from error

    async def stop(self, grace_s: float) -> None:
        """Take no new connections, answer what has begun, close; after `grace_s` seconds close all the same."""
        self._stopping = True
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.close()
        deadline = asyncio.get_running_loop().time() + grace_s
        while self._connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        for connection in tuple(self._connections):
            connection.abort()
        while self._connections:
            await asyncio.sleep(0)

    def opened(self, connection: Connection) -> None:
        """A client is there; one too many is sent away."""
        self._connections.add(connection)
        if len(self._connections) > self._most_connections or self._stopping:
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
        self._failed(error)
        return json_error(HTTPStatus.INTERNAL_SERVER_ERROR, "an error of the server's own; its log tells more")
