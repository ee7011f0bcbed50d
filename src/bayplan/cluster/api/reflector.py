"""A store kept as the API server has it: list once, then watch, and list again only when the server has forgotten.

What can go wrong is expected here and never ends `run`: watches that break, hang or end; versions that are too old
(410); a server that is gone, restarts, throttles or refuses; a definition that is not installed (yet); objects that
cannot be read. What the store itself raises is a fault of the program and does end it, except `InputError` for one
object, which is treated as an object that cannot be read.
Facts: KEP-365 (pages), KEP-956 (bookmarks), client-go tools/cache/reflector.go for what to expect of the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec
import structlog

from bayplan.cluster.api.backoff import Backoff
from bayplan.cluster.api.client import Api
from bayplan.cluster.api.decoding import Bookmark, Change, Codec, Unreadable, WatchEvent
from bayplan.cluster.api.errors import ApiError, GoneError, NotFoundError, UnavailableError
from bayplan.cluster.api.resource import KubernetesObject, ObjectRef, Resource
from bayplan.errors import InputError

T = TypeVar("T", bound=KubernetesObject)
S = TypeVar("S", bound=KubernetesObject, contravariant=True)

_log = structlog.get_logger("bayplan.cluster.api")

# A watch that ends this soon and has told nothing is a failure, or a broken proxy would be asked in a tight loop; one
# that lived this long has worked, told something or not.
_SHORT_WATCH_S = 1.0
_LONG_WATCH_S = 10.0
_MOST_NAMED = 1000


class Store(Protocol[S]):
    """What a reflector keeps up to date. Both are called from the event loop, one at a time, and must not block."""

    def replace(self, items: Sequence[S], /) -> None:
        """These are all objects there are; what is not among them is gone."""

    def apply(self, change: Change, item: S, /) -> None:
        """One object came, changed or went (`item` is its last state). ADDED may tell of one that is known."""


class Counters(msgspec.Struct):
    """What happened so far. Times are seconds since the epoch, None where it has not happened.

    lists: complete lists; relists: those of them that were needed again; events: objects told by watches;
    watches: watches begun; errors: calls and watches that failed; unreadable: objects skipped.
    last_contact_at: when the server last said anything, bookmarks included: its age is how far behind the store may be.
    """

    lists: int = 0
    relists: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    errors: int = 0
    unreadable: int = 0
    last_event_at: float | None = None
    last_contact_at: float | None = None
    last_error: str = ""


class Reflector(Generic[T]):
    """Keeps `store` as the server has `resource` while `run` runs.

    synced:  set once the first list is in the store (or the resource is known to be missing); never cleared.
    missing: the server does not know the resource; the store was told that there are none.
    rng:     spreads the tries of many processes; now: the wall clock, for the counters.
    missing_retry_s: how often a missing resource is looked for.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource[T],
        store: Store[T],
        *,
        rng: random.Random,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        missing_retry_s: float = 30.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.missing = False
        self.counters = Counters()
        self._api = api
        self._store = store
        self._namespace = namespace
        self._labels = label_selector
        self._fields = field_selector
        self._codec = Codec(resource)
        self._now = now
        self._rng = rng
        self._backoff = Backoff(rng)
        self._missing_retry_s = missing_retry_s
        self._page_objects = api.settings.page_objects
        self._version = ""
        self._told: set[str] = set()

    @property
    def resource_version(self) -> str:
        """Up to where the store is told; empty before the first list and while a new one is needed."""
        return self._version

    async def run(self) -> None:
        """Keep the store up to date until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except GoneError as error:
                await self._forget(error)
            except NotFoundError as error:
                await self._wait_for_definition(error)
            except ApiError as error:
                await self._recover(error)

    async def _list(self) -> None:
        items: list[T] = []
        version = ""
        pages = self._api.list_pages(
            self.resource,
            namespace=self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
            page_objects=self._page_objects,
            codec=self._codec,
        )
        async with contextlib.aclosing(pages):
            async for page in pages:
                items += page.items
                version = version or page.resource_version
                self._heard()
                for unreadable in page.unreadable:
                    self._skip(unreadable)
        if not version:
            raise UnavailableError("a list without a resourceVersion", verb="LIST", path=self.resource.path())
        self._store.replace(items)
        self._version = version
        self._page_objects = self._api.settings.page_objects
        self.counters.relists += self.counters.lists > 0
        self.counters.lists += 1
        self.missing = False
        self.synced.set()

    async def _watch(self) -> None:
        self.counters.watches += 1
        clock = asyncio.get_running_loop().time
        began, told = clock(), False
        events = self._api.watch(
            self.resource,
            self._version,
            namespace=self._namespace,
            label_selector=self._labels,
            field_selector=self._fields,
            codec=self._codec,
        )
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    told = True
                    self._take(event)
        finally:
            if told or clock() - began >= _LONG_WATCH_S:
                self._backoff.reset()
        if not told and clock() - began < _SHORT_WATCH_S:
            raise UnavailableError("the watch ended at once", verb="WATCH", path=self.resource.path())

    def _take(self, event: WatchEvent[T] | Bookmark | Unreadable) -> None:
        now = self._heard()
        if isinstance(event, WatchEvent):
            self.counters.events += 1
            self.counters.last_event_at = now
            self._apply(event)
        elif isinstance(event, Bookmark):
            self.counters.bookmarks += 1
        else:
            self._skip(event)
            if event.change == "DELETED":
                # Skipping it would keep what is gone in the store for ever, and only a list can take it out.
                raise GoneError(f"{event} was deleted in a form that cannot be read", verb="WATCH")
        self._version = event.resource_version or self._version

    def _apply(self, event: WatchEvent[T]) -> None:
        try:
            self._store.apply(event.change, event.item)
        except InputError as error:
            ref = ObjectRef.of(event.item)
            self._skip(
                Unreadable(
                    namespace=ref.namespace,
                    name=ref.name,
                    resource_version=event.resource_version,
                    change=event.change,
                    problem=str(error),
                )
            )

    def _heard(self) -> float:
        now = self._now()
        self.counters.last_contact_at = now
        return now

    def _skip(self, unreadable: Unreadable) -> None:
        """Count it; say it once per object, since an object that is written every second would fill the log."""
        self.counters.unreadable += 1
        name = str(unreadable)
        if name in self._told or len(self._told) >= _MOST_NAMED:
            return
        self._told.add(name)
        _log.warning("object skipped", resource=self.resource.plural, object=name, problem=unreadable.problem)

    async def _forget(self, error: GoneError) -> None:
        """List again: soon after a watch that worked, more slowly where listing or watching fails again at once.

        A list that took longer than the server keeps a version is asked for in larger pages.
        """
        was_listing = not self._version
        if was_listing:
            self._page_objects *= 4
        self._version = ""
        _log.info("listing again", resource=self.resource.plural, problem=str(error))
        await self._pause(error)

    async def _wait_for_definition(self, error: NotFoundError) -> None:
        if not self.missing:
            _log.warning("resource is not installed", resource=self.resource.plural, problem=str(error))
            self._store.replace(())
        self.missing = True
        self._version = ""
        self._heard()
        self.synced.set()
        await asyncio.sleep(self._missing_retry_s * (0.5 + 0.5 * self._rng.random()))

    async def _recover(self, error: ApiError) -> None:
        _log.warning("API server", resource=self.resource.plural, problem=str(error))
        await self._pause(error)

    async def _pause(self, error: ApiError) -> None:
        self.counters.errors += 1
        self.counters.last_error = str(error)
        await asyncio.sleep(max(self._backoff.next(), error.retry_after_s or 0.0))
