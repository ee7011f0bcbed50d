"""The connection under a watch: a transport for httpx2 that streams the answer to one GET and then is closed.

Why not httpx2's own: it takes 190 us of CPU per event that comes alone, this 60 us, and the cluster's every pod event
comes this way (`benchmarks/watch.py`). TLS, credentials and headers stay httpx2's and lightkube's. Heads, and bodies
that are not chunked, are read by h11.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator

import h11
import httpx2

from bayplan.cluster.api.chunked import ChunkedBody, ChunkError

# So much may wait to be consumed before the server is no longer read from.
_MOST_WAITING_BYTES = 8 << 20


class StreamTransport(httpx2.AsyncBaseTransport):
    """Opens a connection per request; the request must have no body."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The head of the answer; its body as it comes. Raises httpx2's `TransportError`s."""
        seconds = request.extensions.get("timeout", {})
        url = request.url
        is_tls = url.scheme == "https"
        receiver = _Receiver(seconds.get("read"))
        try:
            async with asyncio.timeout(seconds.get("connect")):
                await asyncio.get_running_loop().create_connection(
                    lambda: receiver, url.host, url.port or (443 if is_tls else 80), ssl=self._tls if is_tls else None
                )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("no connection in time", request=request) from error
        except OSError as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        try:
            head = await receiver.ask(request)
        except BaseException:
            receiver.close()
            raise
        return httpx2.Response(head.status_code, headers=head.headers.raw_items(), stream=_Body(receiver))


class _Body(httpx2.AsyncByteStream):
    def __init__(self, receiver: _Receiver) -> None:
        self._receiver = receiver

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self._receiver.next():
            yield data

    async def aclose(self) -> None:
        self._receiver.close()


class _Receiver(asyncio.Protocol):
    """The client's side of one connection."""

    def __init__(self, idle_s: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle_s = idle_s
        self._heard_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._http = h11.Connection(h11.CLIENT)
        self._head: h11.Response | None = None
        self._chunked: ChunkedBody | None = None
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._is_paused = False
        self._ended = False
        self._failure: httpx2.TransportError | None = None
        self._wake: asyncio.Future[None] | None = None

    async def ask(self, request: httpx2.Request) -> h11.Response:
        """Send the request; the head of the answer."""
        assert self._transport, "asked before there is a connection"
        asked = h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
        self._transport.write((self._http.send(asked) or b"") + (self._http.send(h11.EndOfMessage()) or b""))
        self._watch_the_clock()
        while not self._head:
            await self._more()
        return self._head

    async def next(self) -> bytes:
        """What has come of the body since, at least a byte; empty at its end."""
        while not self._pieces:
            if self._ended:
                return b""
            await self._more()
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._waiting_bytes = 0
        if self._is_paused and self._transport:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    def close(self) -> None:
        """Nothing more is wanted."""
        if self._timer:
            self._timer.cancel()
        if self._transport:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._heard_at = self._loop.time()
        try:
            pieces = self._chunked.feed(data) if self._chunked else self._read(data)
        except (h11.RemoteProtocolError, ChunkError) as error:
            self._fail(httpx2.RemoteProtocolError(str(error)))
            return
        self._take(pieces)
        if self._chunked and self._chunked.ended:
            self._ended = True
        self._wake_up()

    def connection_lost(self, error: Exception | None) -> None:
        """The server has gone, or we have closed."""
        if self._timer:
            self._timer.cancel()
        if self._chunked is None and error is None:
            self._read_to_the_end()
        if not self._ended:
            said = str(error) if error else "the server closed the connection before the answer ended"
            self._fail(httpx2.ReadError(said) if error else httpx2.RemoteProtocolError(said))
        self._wake_up()

    def _read(self, data: bytes) -> list[bytes]:
        """The head, and bodies that are not chunked; the rest of what came with a head that says so is chunks."""
        self._http.receive_data(data)
        pieces: list[bytes] = []
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Response):
                self._head = event
                if (b"transfer-encoding", b"chunked") in [(name, value.lower()) for name, value in event.headers]:
                    self._chunked = ChunkedBody()
                    return self._chunked.feed(self._http.trailing_data[0])
            elif isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._ended = True
                return pieces
            elif not isinstance(event, h11.InformationalResponse):
                return pieces

    def _read_to_the_end(self) -> None:
        """A body without a length ends with the connection."""
        try:
            self._take(self._read(b""))
        except h11.RemoteProtocolError as error:
            self._fail(httpx2.RemoteProtocolError(str(error)))

    def _take(self, pieces: list[bytes]) -> None:
        self._pieces += pieces
        self._waiting_bytes += sum(map(len, pieces))
        if self._waiting_bytes > _MOST_WAITING_BYTES and self._transport and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    async def _more(self) -> None:
        if self._failure:
            raise self._failure
        self._wake = self._loop.create_future()
        await self._wake

    def _wake_up(self) -> None:
        if self._wake and not self._wake.done():
            self._wake.set_result(None)

    def _fail(self, failure: httpx2.TransportError) -> None:
        self._failure = self._failure or failure
        if self._transport:
            self._transport.abort()
        self._wake_up()

    def _watch_the_clock(self) -> None:
        """One timer for the whole stream: setting one per event would cost as much as decoding it."""
        if self._idle_s is None:
            return
        left = self._heard_at + self._idle_s - self._loop.time()
        if left <= 0:
            self._fail(httpx2.ReadTimeout(f"nothing came for {self._idle_s:g} s"))
            return
        self._timer = self._loop.call_later(left, self._watch_the_clock)
