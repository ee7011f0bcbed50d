"""Values from Prometheus's HTTP API, each with the time at which it was measured.

An instant query is asked with the times of its series beside it (`bayplan.protocols.promql`): a series that nobody
feeds any more is served on for five minutes as if it were new. Where an expression stands for a value, it is as old as
the oldest series that it reads of the node; where none of them is there any more, the value is not used, because
`rate(x[5m])` goes on for minutes after the last sample. Times are moved to our clock by what the server's clock is off.
Facts: prometheus.io querying/api; `timestamp()` in querying/functions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from bayplan.cluster.sources.access import HttpAccess, HttpSource
from bayplan.cluster.sources.dated import MetricQuery, ask_for, samples_of
from bayplan.cluster.sources.nodes import ClusterNodes, NodeNaming
from bayplan.cluster.sources.source import Polled, SourceError
from bayplan.errors import InputError
from bayplan.fleet.telemetry.model import MetricKey
from bayplan.protocols.prometheus import LARGEST_ANSWER, QueryRefusedError, Vector, read_vector

QUERY_PATH = "/api/v1/query"
_LEAST_SKEW_S = 2.0
_SHOWN_BODY = 200


class PrometheusSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A Prometheus, or what speaks its API (Thanos, Mimir, VictoriaMetrics).

    `metric` says how metrics are asked for, `metrics` how those are that need something of their own: by the name in
    the policy, or by the PromQL text in it (then only `time` and `duplicates` are used).
    """

    access: HttpAccess
    name: str = "prometheus"
    metric: MetricQuery = MetricQuery()
    metrics: dict[str, MetricQuery] = {}
    nodes: NodeNaming = NodeNaming()


class PrometheusSource:
    """One Prometheus. `skew_s` is how far its clock is ahead of ours, as far as that was worth a correction."""

    def __init__(self, settings: PrometheusSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.skew_s = 0.0
        self._clock = clock
        self._http = HttpSource(settings.access)
        # A thread of its own: reading 5,000 series takes long enough to be felt by requests, and the threads of the
        # event loop may all be waiting for a name server.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix=f"metrics-{settings.name}")

    @property
    def name(self) -> str:
        """What it is called."""
        return self.settings.name

    def serves(self, metric: MetricKey) -> bool:
        """Any metric could be there."""
        return bool(metric.name or metric.promql)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()
        self._reader.shutdown(wait=False, cancel_futures=True)

    async def poll(self, metric: MetricKey, nodes: ClusterNodes) -> Polled:
        """The newest values of all nodes. Raises `SourceError` or `InputError`."""
        how = self.settings.metrics.get(str(metric), self.settings.metric)
        ask = ask_for(metric, how, self.settings.nodes)
        sent = self._clock()
        status, body = await self._http.post(QUERY_PATH, {"query": ask.text}, largest=LARGEST_ANSWER)
        received = self._clock()
        loop = asyncio.get_running_loop()
        vector = await loop.run_in_executor(self._reader, _read, status, body)
        if not vector.series:
            raise SourceError("Prometheus has no series for it")
        self._set_clock(vector, sent, received)
        polled = await loop.run_in_executor(
            self._reader, samples_of, vector, metric.part, ask, self.settings.nodes, nodes, self.skew_s
        )
        if not polled.samples:
            raise SourceError(f"no value of a node among {len(vector.series)} series: {polled.left_out}")
        return polled

    def _set_clock(self, vector: Vector, sent: float, received: float) -> None:
        """The correction stays as it is while it is good enough: a sample must not seem new at every poll."""
        evaluated = max(series.at for series in vector.series)
        if not sent - _LEAST_SKEW_S <= evaluated - self.skew_s <= received + _LEAST_SKEW_S:
            skew = evaluated - (sent + received) / 2
            self.skew_s = skew if abs(skew) > _LEAST_SKEW_S else 0.0


def _read(status: int, body: bytes) -> Vector:
    try:
        return read_vector(body)
    except QueryRefusedError as error:
        raise SourceError(str(error), is_down=not error.blames_query) from error
    except InputError as error:
        if 200 <= status < 300:
            raise
        shown = body[:_SHOWN_BODY].decode(errors="replace").strip()
        raise SourceError(f"HTTP status {status}: {shown}", is_down=status != 404) from error
