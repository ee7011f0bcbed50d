"""One connection: requests one after the other, each with its whole body, and their responses.

Heads are read and written by h11. A body of known length is received straight into its buffer
(`asyncio.BufferedProtocol`); a chunked one goes through h11. Nothing is read while a request is being handled, so a
client cannot pile up work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from http import HTTPStatus
from typing import Protocol, cast

import h11

from bayplan.cluster.http.bodies import BodyMemory
from bayplan.cluster.http.messages import HttpError, Piece, Request, Response, json_error

MOST_HEAD_BYTES = 16 * 1024
# Pieces are gathered up to about this much for one write: a system call for each 7 KB node would cost more than a copy.
WRITE_BYTES = 256 * 1024
_END_OF_HEAD = b"\r\n\r\n"


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
        self._buffer: bytearray | None = None
        self._body = memoryview(b"")
        self._received = 0
        self._chunks: bytearray | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closing = False
        self._encrypted = False
        self._body_bytes = 0
        self.busy = False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is there."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES)
        self._encrypted = transport.get_extra_info("sslcontext") is not None
        self._host.opened(self)
        self._expect(self._host.idle_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, or was sent away."""
        self._closing = True
        self._writable.set()
        self._stop_timer()
        if self._task is not None:
            self._task.cancel()
        self._host.memory.withdraw(self._body_ready)
        self._release()
        self._host.closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        if self._buffer is not None:
            return self._body[self._received :]
        return self._head_view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        if self._buffer is not None:
            self._received += nbytes
            if self._received == len(self._body):
                self._begin(self._body)
            return
        self._filled += nbytes
        self._advance()

    def eof_received(self) -> bool:
        """The client sends no more; what it asked is still answered."""
        if not self.busy:
            return False
        self._closing = True
        # With TLS there is no half of a connection: asyncio closes it whatever is said here.
        return self._task is not None and not self._encrypted

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
        if not self.busy and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now."""
        if self._transport is not None:
            self._transport.abort()

    # Reading.

    def _advance(self) -> None:
        """Take what has come so far as far as it goes."""
        if self._chunks is not None:
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
        try:
            self._http.receive_data(bytes(self._head_view[:end]))
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._refuse(HttpError(error.error_status_hint or HTTPStatus.BAD_REQUEST, str(error)))
            return
        rest = bytes(self._head_view[end : self._filled])
        self._filled = 0
        if not isinstance(event, h11.Request):
            self._refuse(HttpError(HTTPStatus.BAD_REQUEST, "not a request"))
            return
        self._asked = event
        self._expect_body(event, rest)

    def _expect_body(self, asked: h11.Request, rest: bytes) -> None:
        if self._http.they_are_waiting_for_100_continue and self._transport is not None:
            go_on = self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
            self._transport.write(go_on or b"")
        headers = dict(reversed(asked.headers))
        if b"transfer-encoding" in headers:
            self._chunks = bytearray()
            self._feed_chunks(rest)
            return
        length = int(headers.get(b"content-length", b"0"))
        if length > self._host.most_body_bytes:
            self._refuse(_too_large(length, self._host.most_body_bytes))
            return
        self._head[: len(rest)] = rest
        self._filled = len(rest)
        if length == 0:
            self._begin(memoryview(b""))
            return
        self._body_bytes = length
        self._pause_reading()
        self._host.memory.take(length, self._body_ready)

    def _body_ready(self, buffer: bytearray) -> None:
        """There is memory for the body."""
        self._buffer = buffer
        self._body = memoryview(buffer)[: self._body_bytes]
        have = min(self._filled, self._body_bytes)
        self._body[:have] = self._head_view[:have]
        left = self._filled - have
        self._head[:left] = bytes(self._head_view[have : self._filled])
        self._filled = left
        self._received = have
        if have == self._body_bytes:
            self._begin(self._body)
        else:
            self._resume_reading()

    def _feed_chunks(self, data: bytes) -> None:
        chunks = self._chunks
        assert chunks is not None
        try:
            if data:
                self._http.receive_data(data)
            while True:
                event = self._http.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED:
                    return
                if isinstance(event, h11.Data):
                    chunks += event.data
                if len(chunks) > self._host.most_body_bytes:
                    self._refuse(_too_large(len(chunks), self._host.most_body_bytes))
                    return
                if isinstance(event, h11.EndOfMessage):
                    break
        except h11.RemoteProtocolError as error:
            self._refuse(HttpError(error.error_status_hint or HTTPStatus.BAD_REQUEST, str(error)))
            return
        rest = self._http.trailing_data[0]
        self._head[: len(rest)] = rest
        self._filled = len(rest)
        self._begin(memoryview(chunks))

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
        if _wants_to_close(asked, request):
            self._closing = True
        self._task = asyncio.get_running_loop().create_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        answer = self._host.handle(request)
        response = answer if isinstance(answer, Response) else await answer
        self._expect(self._host.write_timeout_s)
        await self._send(response)
        self._stop_timer()
        self._next()

    def _next(self) -> None:
        """The response has been sent: wait for another request, or take the one that has come already."""
        self._release()
        self._task = None
        self._asked = None
        self._chunks = None
        self._received = 0
        self.busy = False
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._closing:
            transport.close()
            return
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD_BYTES)
        self._expect(self._host.idle_timeout_s)
        self._resume_reading()
        if self._filled:
            self._advance()

    async def _send(self, response: Response) -> None:
        only_head = self._asked is not None and self._asked.method == b"HEAD"
        pieces = () if only_head else response.pieces
        for data in _gathered([self._response_head(response), *pieces]):
            transport = self._transport
            if transport is None or transport.is_closing():
                return
            transport.write(data)
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
        self._pause_reading()
        transport = self._transport
        if transport is None:
            return
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            transport.close()
            return
        response = json_error(error.status, error.reason, error.headers)
        transport.write(self._response_head(response) + b"".join(response.pieces))
        transport.close()

    # Time and memory.

    def _expect(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        """Waited long enough: for a request to begin or to come whole, or for the client to take the answer."""
        if self.busy and self._task is None:
            self._refuse(HttpError(HTTPStatus.REQUEST_TIMEOUT, "the request did not come whole in time"))
        else:
            self.abort()

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
        if self._transport is not None and not self._transport.is_closing() and not self._transport.is_reading():
            self._transport.resume_reading()


def _gathered(pieces: Iterable[Piece]) -> Iterator[bytes]:
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


def _wants_to_close(asked: h11.Request, request: Request) -> bool:
    return asked.http_version < b"1.1" or "close" in request.headers.get("connection", "").lower()


def _too_large(size: int, most: int) -> HttpError:
    return HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of {size} bytes; at most {most} are taken")
