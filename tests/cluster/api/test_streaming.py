"""The connection under a watch: any framing, TLS, breaks and silence."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2
import pytest
import trustme

from bayplan.cluster.api.streaming import StreamTransport

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
Talk = Callable[[asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def talking(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that says the same to everyone; the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            await reader.readuntil(b"\r\n\r\n")
            await talk(writer)
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    served: list[asyncio.Task[None] | None] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
    await asyncio.gather(*(task for task in served if task))


def saying(*data: bytes) -> Talk:
    async def talk(writer: asyncio.StreamWriter) -> None:
        for piece in data:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.001)

    return talk


def client(tls: ssl.SSLContext | None = None) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=StreamTransport(tls or ssl.create_default_context()), timeout=5)


async def read(port: int, scheme: str = "http", tls: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    async with client(tls) as streams, streams.stream("GET", f"{scheme}://127.0.0.1:{port}/x?y=z") as answer:
        return answer.status_code, b"".join([piece async for piece in answer.aiter_raw()])


@pytest.mark.parametrize(
    "said",
    [
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n"),
        (HEAD + b"transfer-encoding: Chunked\r\n", b"\r\n", b"5", b"\r\nabcde", b"\r\n", b"0\r\n", b"\r\n"),
        (HEAD + b"Content-Length: 5\r\n\r\nab", b"cde"),
        (HEAD + b"Connection: close\r\n\r\nab", b"cde"),
        (b"HTTP/1.1 103 Early\r\n\r\n" + HEAD + b"Content-Length: 5\r\n\r\nabcde",),
    ],
    ids=["chunked", "chunked in bits", "length", "until closed", "after an interim answer"],
)
async def test_any_framing(said: tuple[bytes, ...]) -> None:
    async with talking(saying(*said)) as port:
        assert await read(port) == (200, b"abcde")


async def test_tls_holds_the_server_to_its_certificate() -> None:
    authority = trustme.CA()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    trusting, other = ssl.create_default_context(), ssl.create_default_context()
    authority.configure_trust(trusting)
    async with talking(saying(HEAD + b"Content-Length: 2\r\n\r\nab"), serving) as port:
        assert await read(port, "https", trusting) == (200, b"ab")
        with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await read(port, "https", other)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"", "closed"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "illegal|malformed"),
        (HEAD + b"Content-Length: 50\r\n\r\nab", "closed"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "closed the connection before the answer ended"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "not the size of a chunk"),
        (HEAD + b"X: " + b"x" * 200_000, "too long|too large|closed"),
    ],
)
async def test_an_answer_that_breaks(said: bytes, problem: str) -> None:
    async with talking(saying(said)) as port:
        with pytest.raises(httpx2.TransportError, match=f"(?i){problem}"):
            await read(port)


async def test_what_came_before_the_break_is_told_first() -> None:
    talk = saying(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    async with talking(talk) as port, client() as streams, streams.stream("GET", f"http://127.0.0.1:{port}/") as answer:
        pieces = answer.aiter_raw()
        assert await anext(pieces) == b"abc"
        with pytest.raises(httpx2.RemoteProtocolError):
            await anext(pieces)


@pytest.mark.parametrize("said", [b"", HEAD + b"Transfer-Encoding: chunked\r\n\r\n"], ids=["no head", "no body"])
async def test_silence_ends(said: bytes) -> None:
    over = asyncio.Event()

    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await over.wait()

    async with talking(talk) as port, client() as streams:
        request = streams.build_request("GET", f"http://127.0.0.1:{port}/", timeout=httpx2.Timeout(5, read=0.05))
        with pytest.raises(httpx2.ReadTimeout, match=r"nothing came for 0\.05 s"):
            await (await streams.send(request, stream=True)).aread()
        over.set()


async def test_a_reader_that_is_slow_slows_the_server() -> None:
    size, sent = 1 << 20, 0

    async def talk(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(64):
            writer.write(b"%x\r\n" % size + b"x" * size + b"\r\n")
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")

    async with talking(talk) as port, client() as streams, streams.stream("GET", f"http://127.0.0.1:{port}/") as answer:
        for _ in range(200):
            await asyncio.sleep(0.001)
        assert sent < 32
        assert sum([len(piece) async for piece in answer.aiter_raw()]) == 64 * size
