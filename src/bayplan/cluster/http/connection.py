"""One connection: requests one after the other, each with its whole body, and their responses.

Heads are read and written by h11. A body of known length is received straight into its buffer
(`asyncio.BufferedProtocol`); a chunked one goes through h11. Nothing is read while a request is being handled, so a
client cannot pile up work. What two readers of a request could take to end in two places is refused, though RFC 9112
lets some of it pass: lines that end in a bare line feed, a length beside chunks, chunks in HTTP/1.0.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Protocol, cast

import h11

from bayplan.cluster.http.bodies import BodyMemory
from bayplan.cluster.http.messages import HttpError, Request, Response, json_error
from bayplan.cluster.http.writes import WRITE_BYTES, gathered

MOST_HEAD_BYTES = 16 * 1024
# How long a client that was refused has to read why, before the rest of what it sends is answered with a reset.
LINGER_S = 0.5
# struct linger (socket(7)): on, and no time.
_RESET = struct.pack("ii", 1, 0)
_END_OF_HEAD = b"\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 \r\n\r\n"


class Host(Protocol):
    """What a connection needs of its server."""

    memory: BodyMemory
    most_body_bytes: int
    read_timeout_s: float
    write_timeout_s: float
    idle_timeout_s: float

    def opened(self, connection: Connection) -> None:
        """The connection is there."""

    def closed(self, connection: Connection) -> None:
        """The connection is gone."""

    def handle(self, request: Request) -> Awaitable[Response] | Response:
        """Answer a request; does not raise."""

    def failed(self, error: BaseException) -> None:
        """An answer could not be sent for a reason of the server's own."""


class Connection(asyncio.BufferedProtocol):
    """The server's side of one connection. `busy`: a request has begun and its response has not been sent."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._head = bytearray(MOST_HEAD_BYTES)
        self._head_view = memoryview(self._head)
        self._filled = 0
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD_BYTES)
        self._asked: h11.Request | None = None
        self._buffer: memoryview | None = None
        self._body = memoryview(b"")
        self._body_bytes = 0
        self._received = 0
        self._chunked = False
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closing = False
        self._waits_for_memory = False
        self._lingers = False
        self.busy = False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is there."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES)
        self._expect(self._host.idle_timeout_s)
        self._host.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, or was sent away."""
        self._closing = True
        self._writable.set()
        self._stop_timer()
        self._host.memory.withdraw(self._body_ready)
        if self._task is None:
            self._release()
        else:
            self._task.cancel()
        self._transport = None
        self._host.closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        if self._closed:
            return memoryview(bytearray(len(self._head)))
        if self._buffer is not None and not self._chunked:
            return self._body[self._received :]
        return self._head_view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        if self._closed:
            return
        if self._buffer is not None and not self._chunked:
            self._received += nbytes
            if self._received == len(self._body):
                self._begin(self._body)
            return
        self._filled += nbytes
        self._advance()

    def eof_received(self) -> bool:
        """The client sends no more: what it asked has been answered, since nothing is read before it is."""
        return False

    def pause_writing(self) -> None:
        """The client does not read as fast as it is written to."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It has read."""
        self._writable.set()

    # What the server calls.

    def close(self) -> None:
        """Close now if nothing is being answered, else after the answer."""
        self._closing = True
        if not self.busy:
            self._hang_up()

    def abort(self) -> None:
        """Close now. An answer that is under way ends in a reset.

        A plain close would leave what was written of it to the kernel, which goes on sending it, and holds it for as
        long as the client takes nothing.
        """
        if self._transport is None:
            return
        under_way = self.busy or self._transport.get_write_buffer_size() > 0
        connection = self._transport.get_extra_info("socket")
        if under_way and connection is not None and connection.fileno() >= 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    @property
    def _closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    # Reading.

    def _advance(self) -> None:
        """Take what has come so far as far as it goes."""
        if self._chunked:
            data = bytes(self._head_view[: self._filled])
            self._filled = 0
            self._feed_chunks(data)
        elif self._asked is None:
            self._read_head()

    def _read_head(self) -> None:
        if self._filled and not self.busy:
            self.busy = True
            self._expect(self._host.read_timeout_s)
        end = self._head.find(_END_OF_HEAD, 0, self._filled)
        if end < 0:
            if self._filled == MOST_HEAD_BYTES:
                self._refuse(HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too long"))
            return
        end += len(_END_OF_HEAD)
        head = bytes(self._head_view[:end])
        try:
            self._http.receive_data(head)
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._refuse(_not_http(error))
            return
        if not isinstance(event, h11.Request) or head.count(b"\n") != head.count(b"\r\n"):
            self._refuse(HttpError(HTTPStatus.BAD_REQUEST, "not the head of a request"))
            return
        if not event.http_version.startswith(b"1."):
            self._refuse(HttpError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.0 and HTTP/1.1 are spoken here"))
            return
        rest = bytes(self._head_view[end : self._filled])
        self._head[: len(rest)] = rest
        self._filled = len(rest)
        self._asked = event
        self._expect_body(event)

    def _expect_body(self, asked: h11.Request) -> None:
        headers = dict(reversed(asked.headers))
        self._chunked = b"transfer-encoding" in headers
        if self._chunked and (b"content-length" in headers or asked.http_version < b"1.1"):
            self._refuse(HttpError(HTTPStatus.BAD_REQUEST, "a chunked body, but also a length, or HTTP/1.0"))
            return
        most = self._host.most_body_bytes
        length = most if self._chunked else int(headers.get(b"content-length", b"0"))
        if length > most:
            self._refuse(_too_large(length, most))
            return
        if length == 0:
            self._begin(memoryview(b""))
            return
        self._body_bytes = length
        self._pause_reading()
        self._waits_for_memory = True
        self._host.memory.take(length, self._body_ready)

    def _body_ready(self, buffer: memoryview) -> None:
        """There is memory for the body."""
        self._waits_for_memory = False
        self._buffer = buffer
        self._body = buffer[: self._body_bytes]
        self._received = 0
        if self._closed:
            return
        self._expect(self._host.read_timeout_s)
        if self._http.they_are_waiting_for_100_continue and self._transport is not None:
            self._transport.write(_CONTINUE)
        if self._chunked:
            self._resume_reading()
            self._advance()
            return
        have = min(self._filled, self._body_bytes)
        self._body[:have] = self._head_view[:have]
        left = bytes(self._head_view[have : self._filled])
        self._head[: len(left)] = left
        self._filled = len(left)
        self._received = have
        if have == self._body_bytes:
            self._begin(self._body)
        else:
            self._resume_reading()

    def _feed_chunks(self, data: bytes) -> None:
        try:
            if data:
                self._http.receive_data(data)
            while not isinstance(event := self._http.next_event(), h11.EndOfMessage):
                if not isinstance(event, h11.Data):
                    return
                have = self._received + len(event.data)
                if have > self._body_bytes:
                    self._refuse(_too_large(have, self._body_bytes))
                    return
                self._body[self._received : have] = event.data
                self._received = have
        except h11.RemoteProtocolError as error:
            self._refuse(_not_http(error))
            return
        rest = self._http.trailing_data[0]
        self._head[: len(rest)] = rest
        self._filled = len(rest)
        self._begin(self._body[: self._received])

    # Answering.

    def _begin(self, body: memoryview) -> None:
        """The request is whole."""
        self._pause_reading()
        self._stop_timer()
        asked = self._asked
        assert asked is not None
        request = Request(
            method=asked.method.decode("ascii"),
            path=asked.target.decode("ascii").partition("?")[0],
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(asked.headers)},
            body=body,
        )
        if _wants_to_close(asked):
            self._closing = True
        self._task = asyncio.get_running_loop().create_task(self._answer(request))
        self._task.add_done_callback(self._answered)

    async def _answer(self, request: Request) -> None:
        answer = self._host.handle(request)
        response = answer if isinstance(answer, Response) else await answer
        self._expect(self._host.write_timeout_s)
        await self._send(response)

    def _answered(self, task: asyncio.Task[None]) -> None:
        """Also told of an answer that was broken off: only now does nobody read the body any more."""
        self._task = None
        self._release()
        if task.cancelled():
            self.abort()
        elif (error := task.exception()) is not None:
            self._host.failed(error)
            self.abort()
        else:
            self._next()

    def _next(self) -> None:
        """The response has been sent: wait for another request, or take the one that has come already."""
        self._asked = None
        self._chunked = False
        self._received = 0
        self.busy = False
        if self._closing:
            self._hang_up()
            return
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD_BYTES)
        self._expect(self._host.idle_timeout_s)
        self._resume_reading()
        if self._filled:
            self._advance()

    async def _send(self, response: Response) -> None:
        only_head = self._asked is not None and self._asked.method == b"HEAD"
        pieces = () if only_head else response.pieces
        for data in gathered([self._response_head(response), *pieces]):
            if self._transport is None or self._closed:
                return
            self._transport.write(data)
            await self._writable.wait()

    def _response_head(self, response: Response) -> bytes:
        headers = [
            ("content-type", response.content_type),
            ("content-length", str(sum(map(len, response.pieces)))),
            *response.headers.items(),
        ]
        if self._closing:
            headers.append(("connection", "close"))
        return self._http.send(h11.Response(status_code=response.status, headers=headers)) or b""

    def _refuse(self, error: HttpError) -> None:
        """Answer without having read the request to its end; then the connection is of no more use."""
        self._closing = True
        self.busy = True
        self._lingers = True
        self._waits_for_memory = False
        self._pause_reading()
        self._host.memory.withdraw(self._body_ready)
        self._release()
        if self._transport is None or self._closed:
            return
        response = json_error(error.status, error.reason, error.headers)
        self._transport.write(self._response_head(response) + b"".join(response.pieces))
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._expect(LINGER_S)

    # Time and memory.

    def _expect(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        """Waited long enough: for a request to begin or to come whole, or for the client to take the answer."""
        if self._closed or self._task is not None or not self.busy:
            self.abort()
        elif self._lingers:
            self._hang_up()
        elif self._waits_for_memory:
            self._refuse(HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too many bodies at once"))
        else:
            self._refuse(HttpError(HTTPStatus.REQUEST_TIMEOUT, "the request did not come whole in time"))

    def _hang_up(self) -> None:
        """Close when what has been written is sent; a client that does not take it has its time."""
        # Twice would be too often: the second time, asyncio's TLS forgets what there is to abort.
        if self._transport is None or self._closed:
            return
        self._expect(self._host.write_timeout_s)
        # With TLS, a client that has gone is only noticed while reading.
        self._resume_reading()
        self._transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _release(self) -> None:
        """The body will not be read any more."""
        self._body = memoryview(b"")
        if self._buffer is not None:
            buffer, self._buffer = self._buffer, None
            self._host.memory.give_back(buffer)

    def _pause_reading(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._transport is not None and not self._closed and not self._transport.is_reading():
            self._transport.resume_reading()


def _wants_to_close(asked: h11.Request) -> bool:
    options = (value for name, value in asked.headers if name == b"connection")
    close = any(option.strip().lower() == b"close" for value in options for option in value.split(b","))
    return close or asked.http_version < b"1.1"


def _not_http(error: h11.RemoteProtocolError) -> HttpError:
    return HttpError(error.error_status_hint or HTTPStatus.BAD_REQUEST, str(error))


def _too_large(size: int, most: int) -> HttpError:
    return HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of {size} bytes; at most {most} are taken")
