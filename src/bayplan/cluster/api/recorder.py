"""Events that people read with `kubectl describe`: each thing is said once and then counted, and never too often.

Telling costs the caller nothing: it never waits and never fails. What cannot be sent is counted and dropped, because
an Event is a courtesy. Facts: events.k8s.io/v1 Event (only `series` may change later), KEP-383.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from bayplan.cluster.api.client import Api
from bayplan.cluster.api.errors import ApiError
from bayplan.cluster.api.limiter import Priority, TokenBucket
from bayplan.cluster.api.moments import micro_time
from bayplan.cluster.api.resource import EVENTS, ObjectRef

_log = structlog.get_logger("bayplan.cluster.api")

LONGEST_NOTE = 1024
LONGEST_REASON = 128
_MOST_KNOWN = 4096
_MOST_WAITING = 1024


class EventCounters(msgspec.Struct):
    """sent: events made; repeated: told again within the window; dropped: over the rate; failed: refused or unsent."""

    sent: int = 0
    repeated: int = 0
    dropped: int = 0
    failed: int = 0


class _Told(msgspec.Struct):
    namespace: str
    name: str
    first_at: float
    last_at: float
    count: int = 1
    count_sent: int = 1


class EventRecorder:
    """Sends events in the name of `controller` (`bayplan.dev/extender`) and `instance` (the pod it runs in).

    window_s:     the same reason and action about the same object is one event for so long, with a count; its note is
                  the first one's.
    qps, burst:   how many events a second are made at most.
    now:          the wall clock.
    """

    def __init__(
        self,
        api: Api,
        *,
        controller: str,
        instance: str,
        rng: random.Random,
        window_s: float = 300.0,
        series_s: float = 60.0,
        qps: float = 5.0,
        burst: int = 50,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.counters = EventCounters()
        self._api = api
        self._controller = controller
        self._instance = instance
        self._rng = rng
        self._window_s = window_s
        self._series_s = series_s
        self._now = now
        self._bucket = TokenBucket(qps, burst, now())
        self._known: OrderedDict[tuple[str, ...], _Told] = OrderedDict()
        self._waiting: deque[dict[str, Any]] = deque()
        self._has_waiting = asyncio.Event()

    def tell(
        self,
        kind: str,
        ref: ObjectRef,
        *,
        reason: str,
        action: str,
        note: str,
        is_warning: bool = False,
        api_version: str = "v1",
    ) -> None:
        """Say of the object `kind` `ref` that `action` was done or refused (CamelCase), why (CamelCase), in words."""
        now = self._now()
        key = (api_version, kind, ref.namespace, ref.name, ref.uid, reason, action)
        told = self._known.get(key)
        if told and now - told.first_at < self._window_s:
            told.count += 1
            told.last_at = now
            self.counters.repeated += 1
            return
        if len(self._waiting) >= _MOST_WAITING or not self._bucket.take(now):
            self.counters.dropped += 1
            return
        regarding = {"apiVersion": api_version, "kind": kind, "name": ref.name}
        regarding |= {name: value for name, value in (("namespace", ref.namespace), ("uid", ref.uid)) if value}
        # Events about objects of the cluster are in `default`: the API server accepts no other.
        namespace = ref.namespace or "default"
        name = f"{ref.name[:200]}.{self._rng.getrandbits(64):016x}"
        self._waiting.append(
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"namespace": namespace, "name": name},
                "eventTime": micro_time(now),
                "reportingController": self._controller,
                "reportingInstance": self._instance[:LONGEST_REASON],
                "regarding": regarding,
                "reason": reason[:LONGEST_REASON],
                "action": action[:LONGEST_REASON],
                "note": note.encode()[:LONGEST_NOTE].decode(errors="ignore"),
                "type": "Warning" if is_warning else "Normal",
            }
        )
        self._remember(key, _Told(namespace=namespace, name=name, first_at=now, last_at=now))
        self._has_waiting.set()

    async def run(self) -> None:
        """Send until cancelled; what is to be sent after that, `flush` sends."""
        clock = asyncio.get_running_loop().time
        sweep_at = clock() + self._series_s
        while True:
            try:
                async with asyncio.timeout_at(sweep_at):
                    await self._has_waiting.wait()
                await self._send_waiting()
            except TimeoutError:
                await self.flush()
                sweep_at = clock() + self._series_s

    async def flush(self) -> None:
        """Send what waits, and the counts of what was told again; forget what was told a window ago."""
        await self._send_waiting()
        now = self._now()
        for key, told in list(self._known.items()):
            if told.count > told.count_sent:
                told.count_sent = told.count
                series = {"count": told.count, "lastObservedTime": micro_time(told.last_at)}
                await self._try(self._api.patch, EVENTS.path(told.namespace, told.name), {"series": series})
            if now - told.first_at >= self._window_s and self._known.get(key) is told:
                del self._known[key]

    async def _send_waiting(self) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            if await self._try(self._api.post, EVENTS.path(event["metadata"]["namespace"]), event):
                self.counters.sent += 1
        self._has_waiting.clear()

    async def _try(self, call: Callable[..., Any], path: str, body: dict[str, Any]) -> bool:
        try:
            await call(path, body, priority=Priority.BACKGROUND)
        except ApiError as error:
            self.counters.failed += 1
            _log.warning("event not sent", problem=str(error))
            return False
        return True

    def _remember(self, key: tuple[str, ...], told: _Told) -> None:
        self._known.pop(key, None)
        self._known[key] = told
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
