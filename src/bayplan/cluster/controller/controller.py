"""Reflectors, the feed of metrics, the election, and the loops of the replica that leads, wired together.

Every replica follows the cluster and the metrics; only the leader writes. Nothing here decides: what is to be written
comes from upkeep. What the API server does (restart, throttle, forget, refuse) ends no loop; an error of the program
ends the process, and whoever started it starts it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from bayplan.cluster.api import NODES, Api, EventRecorder, Leadership, Reflector, UnavailableError
from bayplan.cluster.controller.access import ENDED, PODS, POLICIES
from bayplan.cluster.controller.loops import Loop
from bayplan.cluster.controller.writes import Writes
from bayplan.cluster.logs import logger
from bayplan.cluster.stores import NodeStore, ObjectStore, PodStore, Sink
from bayplan.fleet.scheduling.events import Event
from bayplan.fleet.telemetry import own, tas
from bayplan.fleet.telemetry.model import MetricKey
from bayplan.fleet.upkeep.upkeep import Upkeep

Feed = Callable[[Callable[[], frozenset[MetricKey]], Sink], Awaitable[None]]
"""Fetches the metrics that the first argument names, for ever, and tells the second of each."""

_log = logger("controller")
_API_VERSIONS = {tas.KIND: tas.API_VERSION, own.KIND: own.API_VERSION}
_NODES_AT_ONCE = 200
_LAST_EVENTS_S = 2.0


class Controller:
    """One replica. `leadership` None: it writes without asking, as the only one.

    listeners: told of every event too. now: the wall clock.
    dry_run: nothing is written; the API server is asked whether it would evict.
    """

    def __init__(
        self,
        api: Api,
        upkeep: Upkeep,
        feed: Feed,
        *,
        recorder: EventRecorder,
        leadership: Leadership | None,
        rng: random.Random,
        now: Callable[[], float],
        dry_run: bool = False,
        listeners: Sequence[Sink] = (),
    ) -> None:
        self.upkeep = upkeep
        self._listeners = listeners
        self.writes = Writes(api, recorder, dry_run=dry_run)
        self.recorder = recorder
        self.leadership = leadership
        self._feed = feed
        self._now = now
        self.reflectors: dict[str, Reflector[Any]] = {
            "nodes": Reflector(api, NODES, NodeStore(self._happened), rng=rng),
            "pods": Reflector(
                api, PODS, PodStore(self._happened, lambda pod: not pod.has_ended), rng=rng, field_selector=ENDED
            ),
        }
        for kind, resource in POLICIES.items():
            store = ObjectStore(self._happened, f"{kind}.{resource.group}", _API_VERSIONS[kind])
            self.reflectors[resource.plural] = Reflector(api, resource, store, rng=rng)
        self.loops = self._make_loops(rng)
        self.is_leading = False

    @property
    def is_synced(self) -> bool:
        """Whether the cluster is known."""
        return all(reflector.synced.is_set() for reflector in self.reflectors.values())

    async def run(self) -> None:
        """Until cancelled; then what is being written is stopped, the lease given back, and the last events sent."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for reflector in self.reflectors.values():
                    tasks.create_task(reflector.run())
                tasks.create_task(_awaited(self._feed(self.upkeep.engine.metrics, self._happened)))
                tasks.create_task(self.recorder.run())
                tasks.create_task(self.leadership.run(self._lead) if self.leadership else self._lead())
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_EVENTS_S):
                    await self.recorder.flush()

    async def _lead(self) -> None:
        """What the leader does, until cancelled: nothing before the whole cluster is known."""
        for reflector in self.reflectors.values():
            await reflector.synced.wait()
        self.upkeep.begin()
        self.is_leading = True
        _log.info("leading", nodes=len(self.upkeep.nodes), pods=len(self.upkeep.pods))
        try:
            async with asyncio.TaskGroup() as tasks:
                for loop in self.loops:
                    tasks.create_task(loop.run())
        finally:
            self.is_leading = False
            _log.info("leading no more")

    def _happened(self, event: Event) -> None:
        self.upkeep.apply(event, self._now())
        for listener in self._listeners:
            listener(event)
        for loop in self.loops:
            loop.changed.set()

    def _make_loops(self, rng: random.Random) -> list[Loop]:
        upkeep = self.upkeep

        def loop(
            name: str, step: Callable[[], Awaitable[bool]], settle_s: float, due: Callable[[], float] | None = None
        ) -> Loop:
            period_s = upkeep.settings.period_s
            return Loop(name, step, period_s=period_s, settle_s=settle_s, rng=rng, now=self._now, due=due)

        return [
            loop("wakes", self._wake, 0.02, upkeep.next_at),
            loop("node labels", self._label_nodes, 0.2, lambda: upkeep.engine.next_change_at),
            loop("pod labels", self._label_pods, 0.5),
            loop("evictions", self._evict, 1.0),
            loop("policy statuses", self._write_statuses, 1.0),
            loop("events", self._tell, 0.5),
        ]

    async def _wake(self) -> bool:
        failed = await self.writes.nodes("wake", self.upkeep.wake_patches(self._now()))
        if failed:
            self.upkeep.wakes.again()
            raise UnavailableError("a node could not be touched to wake pods")
        return False

    async def _label_nodes(self) -> bool:
        """Some at a time: what is wanted of the rest may have changed until it is their turn."""
        patches = self.upkeep.node_patches(self._now())
        first, rest = patches[:_NODES_AT_ONCE], patches[_NODES_AT_ONCE:]
        self.upkeep.nodes.again([patch.node for patch in rest])
        failed = await self.writes.nodes("node labels", first)
        self.upkeep.nodes.again([patch.node for patch in failed])
        if failed:
            raise UnavailableError(f"{len(failed)} of {len(first)} nodes could not be labelled")
        return bool(rest)

    async def _label_pods(self) -> bool:
        patches = self.upkeep.pod_patches()
        failed = await self.writes.pods(patches)
        if failed:
            raise UnavailableError(f"{len(failed)} of {len(patches)} pods could not be labelled")
        return False

    async def _evict(self) -> bool:
        for eviction in self.upkeep.to_evict(self._now()):
            result, detail = await self.writes.evict(eviction, dry_run=self.upkeep.settings.evictions.dry_run)
            told = self.upkeep.evicted(eviction, result, detail, self._now())
            self.writes.tell([told] if told else [])
        return False

    async def _write_statuses(self) -> bool:
        patches = self.upkeep.status_patches(self._now())
        failed = await self.writes.statuses(patches)
        if failed:
            raise UnavailableError(f"{len(failed)} of {len(patches)} policies' statuses could not be written")
        return False

    async def _tell(self) -> bool:
        self.writes.tell(self.upkeep.announcements(self._now()))
        return False


async def _awaited(work: Awaitable[None]) -> None:
    await work
