"""Calls to the API server: bytes in, bytes out, every one limited in rate and in time, every failure a type.

Objects are never built here beyond the parts that a `Resource` names. A call is made again only where the server said
that it did not serve it and when to come again (429, or 5xx with `Retry-After`); everything else is for the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Final, Literal, Self, TypeVar

import httpx2
import msgspec
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ConfigError

from bayplan.cluster.api.connection import open_clients
from bayplan.cluster.api.decoding import Bookmark, Codec, Page, Unreadable, WatchEvent
from bayplan.cluster.api.errors import ApiError, TooManyRequestsError, UnavailableError, error_from_answer
from bayplan.cluster.api.limiter import Limiter, Priority
from bayplan.cluster.api.resource import KubernetesObject, Resource, query

PatchKind = Literal["merge", "json", "strategic"]

T = TypeVar("T", bound=KubernetesObject)

_PATCH_TYPES: Final[Mapping[PatchKind, str]] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_NO_ANSWER = (httpx2.TransportError, httpx2.DecodingError, ConfigError, OSError)
_LONGEST_LINE = 16 << 20
_MOST_ATTEMPTS = 10


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How hard and how long the API server is asked.

    qps, burst:     calls a second on average, and at once.
    call_s:         until a call has failed, waiting for its turn included.
    page_s:         the same for a page of a list.
    page_objects:   how many objects a page has.
    watch_s:        how long the server keeps one watch; up to twice that, so that not all end at once.
    watch_idle_s:   how long a watch may be silent (the server sends a bookmark a minute) before it is given up.
    """

    qps: float = 50.0
    burst: int = 100
    call_s: float = 10.0
    page_s: float = 60.0
    page_objects: int = 500
    watch_s: float = 300.0
    watch_idle_s: float = 150.0


class Api:
    """The API server, for one event loop. Close it (`async with`, `aclose`) when nothing uses it any more.

    client:  makes the calls. streams: makes the watches; the same unless said otherwise.
    rng:     spreads what many processes would do at the same moment.
    """

    def __init__(
        self,
        client: httpx2.AsyncClient,
        settings: Settings | None = None,
        *,
        streams: httpx2.AsyncClient | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.rng = rng or random.Random()
        self._client = client
        self._streams = streams or client
        self._limiter = Limiter(self.settings.qps, self.settings.burst)

    @classmethod
    def connect(
        cls,
        config: SingleConfig,
        settings: Settings | None = None,
        *,
        rng: random.Random | None = None,
        trust_env: bool = True,
    ) -> Api:
        """The API server that a configuration names (`find_config`); nothing is sent yet. Raises `InputError`."""
        clients = open_clients(config, trust_env=trust_env)
        return cls(clients.calls, settings, streams=clients.streams, rng=rng)

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()
        await self._streams.aclose()

    async def get(
        self, path: str, params: Mapping[str, str] | None = None, *, priority: Priority = Priority.NORMAL
    ) -> bytes:
        """What is at a path. Raises `ApiError`."""
        return await self._call("GET", path, params=params, priority=priority)

    async def post(self, path: str, body: object, *, priority: Priority = Priority.NORMAL) -> bytes:
        """Create; `body` is encoded as JSON. Raises `ApiError`."""
        return await self._call("POST", path, body=body, priority=priority)

    async def put(self, path: str, body: object, *, priority: Priority = Priority.NORMAL) -> bytes:
        """Replace. Raises `ApiError`."""
        return await self._call("PUT", path, body=body, priority=priority)

    async def patch(
        self, path: str, body: object, kind: PatchKind = "merge", *, priority: Priority = Priority.NORMAL
    ) -> bytes:
        """Change. Raises `ApiError`."""
        return await self._call("PATCH", path, body=body, content_type=_PATCH_TYPES[kind], priority=priority)

    async def delete(self, path: str, body: object = None, *, priority: Priority = Priority.NORMAL) -> bytes:
        """Delete; `body` may be DeleteOptions. Raises `ApiError`."""
        return await self._call("DELETE", path, body=body, priority=priority)

    async def list_pages(
        self,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        page_objects: int | None = None,
        codec: Codec[T] | None = None,
    ) -> AsyncGenerator[Page[T], None]:
        """All objects, some at a time and all of one resourceVersion.

        Raises `GoneError` where listing took longer than the server keeps that version; begin again then.
        """
        codec = codec or Codec(resource)
        path, token = resource.path(namespace), ""
        while True:
            params = query(
                limit=page_objects or self.settings.page_objects,
                labelSelector=label_selector,
                fieldSelector=field_selector,
                **{"continue": token},
            )
            page = codec.page(await self._call("GET", path, params=params, seconds=self.settings.page_s))
            yield page
            token = page.next
            if not token:
                return

    async def watch(
        self,
        resource: Resource[T],
        resource_version: str,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        codec: Codec[T] | None = None,
    ) -> AsyncGenerator[WatchEvent[T] | Bookmark | Unreadable, None]:
        """What changes after a resourceVersion, until the server ends the watch.

        Close it (`contextlib.aclosing`) when leaving early. Raises `GoneError` where the version is too old, another
        `ApiError` where the stream breaks or is silent for too long.
        """
        codec = codec or Codec(resource)
        settings = self.settings
        params = query(
            watch=True,
            allowWatchBookmarks=True,
            resourceVersion=resource_version,
            timeoutSeconds=round(settings.watch_s * (1 + self.rng.random())) or 1,
            labelSelector=label_selector,
            fieldSelector=field_selector,
        )
        async with contextlib.aclosing(self._lines(resource.path(namespace), params)) as batches:
            async for lines in batches:
                for line in lines:
                    yield codec.event(line)

    async def _lines(self, path: str, params: Mapping[str, str]) -> AsyncGenerator[list[bytes], None]:
        """The whole lines of a streamed answer, as many at a time as came together."""
        answer = await self._open_stream(path, params)
        rest = b""
        try:
            async for chunk in answer.aiter_raw():
                *lines, last = chunk.split(b"\n")
                if lines:
                    lines[0] = rest + lines[0]
                    rest = last
                    yield [line for line in lines if line]
                else:
                    rest += last
                if len(rest) > _LONGEST_LINE:
                    raise UnavailableError(f"an event of more than {_LONGEST_LINE} bytes", verb="WATCH", path=path)
        except _NO_ANSWER as error:
            raise _unavailable("WATCH", path, error) from error
        finally:
            await answer.aclose()

    async def _open_stream(self, path: str, params: Mapping[str, str]) -> httpx2.Response:
        """The head of a streamed answer has come in; its body has not."""
        settings = self.settings
        timeout = httpx2.Timeout(settings.call_s, read=settings.watch_idle_s)
        request = self._streams.build_request("GET", path, params=params, timeout=timeout)
        try:
            async with asyncio.timeout(settings.call_s):
                await self._limiter.take()
                answer = await self._streams.send(request, stream=True)
                if answer.is_success:
                    return answer
                raise _refusal("WATCH", path, answer, await answer.aread())
        except TimeoutError as error:
            raise UnavailableError(f"no answer within {settings.call_s:g} s", verb="WATCH", path=path) from error
        except _NO_ANSWER as error:
            raise _unavailable("WATCH", path, error) from error

    async def _call(
        self,
        verb: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        priority: Priority = Priority.NORMAL,
        seconds: float | None = None,
    ) -> bytes:
        seconds = seconds or self.settings.call_s
        content = None if body is None else msgspec.json.encode(body)
        headers = {"Accept": "application/json"} | ({"Content-Type": content_type} if content else {})
        request = self._client.build_request(
            verb, path, params=params, content=content, headers=headers, timeout=httpx2.Timeout(seconds)
        )
        ends = asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(ends):
                return await self._answer(request, path, priority, ends)
        except TimeoutError as error:
            raise UnavailableError(f"no answer within {seconds:g} s", verb=verb, path=path) from error
        except _NO_ANSWER as error:
            raise _unavailable(verb, path, error) from error

    async def _answer(self, request: httpx2.Request, path: str, priority: Priority, ends: float) -> bytes:
        clock = asyncio.get_running_loop().time
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            await self._limiter.take(priority)
            answer = await self._client.send(request)
            if answer.is_success:
                return answer.content
            error = _refusal(request.method, path, answer, answer.content)
            wait = _to_wait(error) * (1 + 0.2 * self.rng.random())
            if not _comes_again(error) or attempt == _MOST_ATTEMPTS or clock() + wait >= ends:
                raise error
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")


def _comes_again(error: ApiError) -> bool:
    """Whether the server did not serve the call and will later. An eviction refused by a budget was served."""
    if isinstance(error, TooManyRequestsError):
        return not error.is_disruption_budget
    return isinstance(error, UnavailableError) and error.retry_after_s is not None


def _to_wait(error: ApiError) -> float:
    return 1.0 if error.retry_after_s is None else error.retry_after_s


def _refusal(verb: str, path: str, answer: httpx2.Response, body: bytes) -> ApiError:
    return error_from_answer(verb, path, answer.status_code, body, answer.headers.get("Retry-After"))


def _unavailable(verb: str, path: str, error: BaseException) -> UnavailableError:
    said = str(error) or type(error).__name__
    return UnavailableError(f"{type(error).__name__}: {said}", verb=verb, path=path)
