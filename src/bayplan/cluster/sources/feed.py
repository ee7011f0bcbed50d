"""Polls every metric that policies want, from the source that serves it, and tells what came of it as events.

No source can hold up another, and none can hold up a request: every poll has its own task and its own time, each source
only so many at once, and what nobody answers in time is given up. A metric that fails is asked for less and less often;
when a source that was down answers again, everything that it failed is asked for at once. What is known stays known
meanwhile, and grows old: that is for the rules to judge.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Sequence
from fnmatch import fnmatchcase

import msgspec

from bayplan.cluster.logs import logger
from bayplan.cluster.sources.nodes import ClusterNodes
from bayplan.cluster.sources.source import NOTHING_LEFT_OUT, LateError, LeftOut, Polled, Source, SourceError
from bayplan.errors import InputError
from bayplan.fleet.scheduling.events import Event, Measured, NotMeasured
from bayplan.fleet.telemetry.model import MetricKey, Sample

_LOG = logger("metrics")


class Route(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Metrics whose name or PromQL matches a pattern (`*`, `?`, `[...]`) come from a source."""

    metrics: str
    source: str


class FeedSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """How metrics are polled.

    interval_s:         from the beginning of one poll of a metric to that of the next.
    timeout_s:          until a poll has failed.
    at_once:            how many polls a source has to bear at the same time.
    longest_backoff_s:  how long a metric that fails is left alone at most.
    routes:             the first that fits counts; a metric that none fits comes from the first source that serves it.
    """

    interval_s: float = 5.0
    timeout_s: float = 5.0
    at_once: int = 4
    longest_backoff_s: float = 60.0
    routes: tuple[Route, ...] = ()

    def __post_init__(self) -> None:
        for place in ("interval_s", "timeout_s", "longest_backoff_s"):
            value = getattr(self, place)
            if not 0.01 <= value <= 86_400:
                raise InputError("out of range", place=place, value=value, expected="0.01..86400 seconds")
        if not 1 <= self.at_once <= 1000:
            raise InputError("out of range", place="at_once", value=self.at_once, expected="1..1000")


class MetricState:
    """How the polling of one metric goes; read by whoever makes metrics of it.

    Times are seconds since 1970, None: never. `why` is empty after a poll that worked. `oldest_at` and `newest_at` are
    of the samples of the last one that did. `failures` are in a row.
    """

    def __init__(self, metric: MetricKey, source: Source | None) -> None:
        self.metric = metric
        self.source = source.name if source is not None else ""
        self.polls = 0
        self.failed_polls = 0
        self.failures = 0
        self.why = ""
        self.tried_at: float | None = None
        self.worked_at: float | None = None
        self.took_s: float | None = None
        self.nodes = 0
        self.oldest_at: float | None = None
        self.newest_at: float | None = None
        self.left_out: LeftOut = NOTHING_LEFT_OUT


class SourceState:
    """How a source does: whether it is `down` (and `why`), and how many polls of it are on their way."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name = source.name
        self.is_down = False
        self.why = ""
        self.in_flight = 0


class _Entry:
    """A metric that is wanted: when it is due (the loop's clock), and its poll where one is on its way."""

    def __init__(self, state: MetricState, source: SourceState | None) -> None:
        self.state = state
        self.source = source
        self.due = 0.0
        self.began = 0.0
        self.task: asyncio.Task[Polled] | None = None


class MetricFeed:
    """Call `run` in a task of its own. `metrics` and `sources` show how it goes.

    wanted:  the metrics to be polled now; looked at whenever something happens, and at least every interval.
    sink:    takes the events. nodes: the nodes as they are known now.
    """

    def __init__(
        self,
        wanted: Callable[[], Collection[MetricKey]],
        sources: Sequence[Source],
        sink: Callable[[Event], None],
        nodes: Callable[[], ClusterNodes] = ClusterNodes.unknown,
        settings: FeedSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        self.settings = settings or FeedSettings()
        self.sources = {source.name: SourceState(source) for source in sources}
        self._check_routes(len(sources))
        self._wanted = wanted
        self._sink = sink
        self._nodes = nodes
        self._clock = clock
        self._rng = rng or random.Random()
        self._entries: dict[MetricKey, _Entry] = {}
        self._changed = asyncio.Event()

    @property
    def metrics(self) -> tuple[MetricState, ...]:
        """The metrics that are wanted, in order."""
        return tuple(self._entries[metric].state for metric in sorted(self._entries))

    def look(self) -> None:
        """Policies have changed: poll what is new without waiting."""
        self._changed.set()

    async def run(self) -> None:
        """Poll until cancelled, then close the sources."""
        try:
            while True:
                self._changed.clear()
                self._take_finished()
                self._follow_wanted()
                wait_s = self._start_due()
                try:
                    async with asyncio.timeout(wait_s):
                        await self._changed.wait()
                except TimeoutError:
                    continue
        finally:
            tasks = [entry.task for entry in self._entries.values() if entry.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for state in self.sources.values():
                await state.source.aclose()

    def _check_routes(self, count: int) -> None:
        if len(self.sources) != count:
            raise InputError("two sources of one name", place="sources")
        for number, route in enumerate(self.settings.routes):
            if route.source not in self.sources:
                known = ", ".join(self.sources)
                raise InputError("no such source", place=f"routes[{number}]", value=route.source, expected=known)

    def _source_of(self, metric: MetricKey) -> SourceState | None:
        routed = [route.source for route in self.settings.routes if fnmatchcase(str(metric), route.metrics)]
        states = [self.sources[routed[0]]] if routed else list(self.sources.values())
        return next((state for state in states if state.source.serves(metric)), None)

    def _follow_wanted(self) -> None:
        wanted = set(self._wanted())
        for metric in self._entries.keys() - wanted:
            entry = self._entries.pop(metric)
            if entry.task is not None:
                entry.task.cancel()
        for metric in sorted(wanted - self._entries.keys()):
            source = self._source_of(metric)
            entry = self._entries[metric] = _Entry(MetricState(metric, source.source if source else None), source)
            if source is None:
                entry.state.why = "no source has such a metric"
                self._sink(NotMeasured(metric=metric, why=entry.state.why))

    def _start_due(self) -> float:
        """Begin what is due, as far as sources have room; how long until something else will be."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        soonest = now + self.settings.interval_s
        for entry in sorted(self._entries.values(), key=lambda each: each.due):
            if entry.task is not None or entry.source is None:
                continue
            if entry.due > now:
                soonest = min(soonest, entry.due)
            elif entry.source.in_flight < self.settings.at_once:
                self._start(entry, entry.source, now)
        return soonest - now

    def _start(self, entry: _Entry, source: SourceState, now: float) -> None:
        entry.began = now
        entry.state.polls += 1
        entry.state.tried_at = self._clock()
        source.in_flight += 1
        entry.task = asyncio.create_task(self._poll(source.source, entry.state.metric))
        entry.task.add_done_callback(lambda task: self._ended(task, source))

    def _ended(self, task: asyncio.Task[Polled], source: SourceState) -> None:
        if not task.cancelled():
            task.exception()  # looked at, also where the metric is not wanted any more
        source.in_flight -= 1
        self._changed.set()

    async def _poll(self, source: Source, metric: MetricKey) -> Polled:
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                return await source.poll(metric, self._nodes())
        except TimeoutError as error:
            raise LateError(f"no answer within {self.settings.timeout_s:g} s") from error

    def _take_finished(self) -> None:
        for entry in list(self._entries.values()):
            if entry.task is not None and entry.task.done():
                task, entry.task = entry.task, None
                entry.state.took_s = asyncio.get_running_loop().time() - entry.began
                try:
                    self._worked(entry, task.result())
                except (SourceError, InputError) as error:
                    self._failed(entry, error)

    def _worked(self, entry: _Entry, polled: Polled) -> None:
        state, source = entry.state, entry.source
        self._sink(Measured(metric=state.metric, samples=polled.samples))
        if state.why:
            _LOG.info("metric is back", metric=str(state.metric), source=state.source)
        state.why, state.failures = "", 0
        state.worked_at = self._clock()
        state.nodes = len(polled.samples)
        times = _times(polled)
        state.oldest_at, state.newest_at = min(times, default=None), max(times, default=None)
        if polled.left_out.kinds != state.left_out.kinds:
            _LOG.warning("series left out", metric=str(state.metric), source=state.source, what=str(polled.left_out))
        state.left_out = polled.left_out
        entry.due = entry.began + self.settings.interval_s
        self._answered(source)

    def _failed(self, entry: _Entry, error: SourceError | InputError) -> None:
        state, source = entry.state, entry.source
        why = str(error)
        if state.why != why:
            _LOG.warning("metric cannot be had", metric=str(state.metric), source=state.source, why=why)
        state.failed_polls += 1
        state.failures += 1
        state.why = why
        self._sink(NotMeasured(metric=state.metric, why=why))
        longest = max(self.settings.longest_backoff_s, self.settings.interval_s)
        pause = min(self.settings.interval_s * 2.0 ** min(state.failures - 1, 30), longest)
        entry.due = entry.began + pause * (0.75 + 0.25 * self._rng.random())
        if isinstance(error, LateError):
            return
        if source is not None and isinstance(error, SourceError) and error.is_down:
            source.is_down, source.why = True, why
        else:
            self._answered(source)

    def _answered(self, source: SourceState | None) -> None:
        """The source works. What failed while it was down need not wait any longer."""
        if source is None or not source.is_down:
            return
        source.is_down, source.why = False, ""
        for entry in self._entries.values():
            if entry.source is source and entry.state.why:
                entry.due = 0.0


def _times(polled: Polled) -> list[float]:
    times: list[float] = []
    for found in polled.samples.values():
        times += [found.at] if isinstance(found, Sample) else [sample.at for sample in found.values()]
    return times
