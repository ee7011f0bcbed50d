"""Two API servers on loopback: kmock's emulation, and one that forgets, hangs, breaks and restarts.

kmock keeps objects but knows neither resourceVersions nor conflicts, and does not page; what a reflector or an election
must get right is exactly that, so it is made here, small, in the way of the real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kmock
import pytest
from lightkube.config.kubeconfig import KubeConfig

from bayplan.cluster.api import Api, Settings

Json = dict[str, Any]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def emulator() -> AsyncIterator[kmock.KubernetesEmulator]:
    """kmock's stateful emulation of the API."""
    async with kmock.KubernetesEmulator() as handler, kmock.Server(handler):
        yield handler


@pytest.fixture
def answer(emulator: kmock.KubernetesEmulator) -> Callable[..., None]:
    """Scripts the emulation: `answer("post /path", (429, body, headers), ...)` for the next calls, one each."""

    def script(what: str, *answers: tuple[Any, ...]) -> None:
        left = iter(answers)

        def next_answer() -> Any:
            status, body, headers = (*next(left), None)[:3]
            return kmock.Response(status=status, payload=body, headers=headers)  # type: ignore[attr-defined]

        emulator[what] << next_answer

    return script


@pytest.fixture
async def emulated(emulator: kmock.KubernetesEmulator) -> AsyncIterator[Api]:
    """The API that the emulation serves."""
    async with connect(str(emulator.servers[0].url)) as api:
        yield api


def connect(url: str, settings: Settings | None = None) -> Api:
    config = KubeConfig.from_server(url).get()
    assert config
    return Api.connect(config, settings or Settings(qps=10_000, burst=10_000), rng=random.Random(1), trust_env=False)


class MadeServer:
    """One resource, of the cluster, at any path: versions, pages, watches, conflicts, compaction; and faults.

    refusals: answers to give to the next calls instead of serving them, as (status, body, headers).
    log:      what was asked, as `LIST`, `WATCH 7`, `PUT`, ...
    """

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.version = 1
        self.compacted = 0
        self.refusals: list[tuple[int, Json, str]] = []
        self.log: list[str] = []
        self.is_hung = False
        self.sends_bookmarks = False
        self.before_page: Callable[[], None] | None = None
        self._history: list[tuple[int, str, Json]] = []
        self._changed = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """As a crash: nobody answers, every connection breaks."""
        assert self._server
        self._server.close()
        self.break_connections()
        await self._server.wait_closed()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving)
        self._serving.clear()

    def break_connections(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    def compact(self) -> None:
        """Forget all versions but the present one."""
        self.compacted = self.version
        self._history.clear()

    def put(self, name: str, **fields: Any) -> None:
        """Create or change an object."""
        change = "MODIFIED" if name in self.objects else "ADDED"
        self.version += 1
        meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self.version)}
        self.objects[name] = {"metadata": meta, **fields}
        self._tell(change, self.objects[name])

    def remove(self, name: str) -> None:
        self.version += 1
        item = self.objects.pop(name)
        self._tell("DELETED", {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}})

    async def settle(self) -> None:
        """Wake up the watches."""
        async with self._changed:
            self._changed.notify_all()

    def _tell(self, change: str, item: Json) -> None:
        self._history.append((self.version, change, item))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._serving.add(task)
        self._open.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                verb, target, _ = head[0].split(" ")
                place = urlsplit(target)
                query = {name: values[0] for name, values in parse_qs(place.query).items()}
                await self._answer(writer, verb, place.path, query, json.loads(body or b"null"))
        self._open.discard(writer)
        writer.close()

    async def _answer(
        self, writer: asyncio.StreamWriter, verb: str, path: str, query: dict[str, str], body: Json
    ) -> None:
        is_watch = "watch" in query
        name = path.rsplit("/", 1)[1] if path.rsplit("/", 1)[1] in self.objects else ""
        kind = "WATCH" if is_watch else "LIST" if verb == "GET" and not name else verb
        self.log.append(f"{kind} {query['resourceVersion']}" if is_watch else kind)
        if self.refusals:
            status, said, more = self.refusals.pop(0)
            _send(writer, status, said, more)
        elif is_watch:
            await self._watch(writer, int(query["resourceVersion"]))
        elif kind == "LIST" and path.endswith(("leases/l",)):
            _send(writer, 404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "no such lease"})
        elif kind == "LIST":
            self._list(writer, query)
        else:
            self._one(writer, verb, name or str(body["metadata"]["name"]), body)
        await writer.drain()

    def _list(self, writer: asyncio.StreamWriter, query: dict[str, str]) -> None:
        if self.before_page:
            self.before_page()
        begin, version = map(int, query.get("continue", f"0-{self.version}").split("-"))
        if version < self.compacted:
            _send(writer, 410, {"kind": "Status", "code": 410, "reason": "Expired", "message": "the token is too old"})
            return
        names = sorted(self.objects)
        end = begin + int(query.get("limit", len(names) or 1))
        meta = {"resourceVersion": str(version), "continue": f"{end}-{version}" if end < len(names) else ""}
        _send(writer, 200, {"metadata": meta, "items": [self.objects[name] for name in names[begin:end]]})

    async def _watch(self, writer: asyncio.StreamWriter, version: int) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        while writer in self._open and not writer.transport.is_closing():
            if self.is_hung:
                await asyncio.sleep(3600)
            if version < self.compacted:
                said = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
                _chunk(writer, {"type": "ERROR", "object": said})
                break
            news = [entry for entry in self._history if entry[0] > version]
            for version, change, item in news:  # noqa: B007
                _chunk(writer, {"type": change, "object": item})
            if self.sends_bookmarks and version < self.version:
                version = self.version
                _chunk(writer, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}})
            await writer.drain()
            async with self._changed:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 0.01)
        writer.write(b"0\r\n\r\n")

    def _one(self, writer: asyncio.StreamWriter, verb: str, name: str, body: Json) -> None:
        found = self.objects.get(name)
        if verb == "POST" and found:
            _send(writer, 409, {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "it exists"})
        elif verb == "PUT" and found and body["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            _send(writer, 409, {"kind": "Status", "code": 409, "reason": "Conflict", "message": "it was modified"})
        else:
            if verb in ("POST", "PUT"):
                self.put(name, spec=body["spec"])
            _send(writer, 200, self.objects[name])


def _send(writer: asyncio.StreamWriter, status: int, body: Json, more: str = "") -> None:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n{more}\r\n"
    writer.write(head.encode() + content)


def _chunk(writer: asyncio.StreamWriter, event: Json) -> None:
    line = json.dumps(event).encode() + b"\n"
    writer.write(b"%x\r\n%s\r\n" % (len(line), line))


@pytest.fixture
async def server() -> AsyncIterator[MadeServer]:
    made = MadeServer()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def unused_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def api_of() -> Callable[..., Api]:
    """Makes the API of a URL, with settings if they matter."""
    return connect


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Waits until something holds; the test fails where it does not within ten seconds."""

    async def wait(holds: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                await asyncio.sleep(0.005)

    return wait


@pytest.fixture
def running() -> Callable[..., Any]:
    """Runs coroutines beside a block, and cancels them at its end."""

    @contextlib.asynccontextmanager
    async def beside(*work: Awaitable[None]) -> AsyncIterator[None]:
        tasks = [asyncio.ensure_future(each) for each in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [error for error in ended if error and not isinstance(error, asyncio.CancelledError)] == []

    return beside
