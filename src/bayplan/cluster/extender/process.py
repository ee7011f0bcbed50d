"""The extender as a process: it follows the cluster and the metrics, answers the scheduler, and stops in order.

Two addresses: one for the scheduler (TLS, client certificates), one for whoever watches over the process (/metrics,
/healthz, /readyz), as a kubelet has no client certificate. Where it binds, one replica leads and only that one is
ready, so that a Service sends every request to it; the others follow and take over.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from bayplan.cluster.api import NODES, PODS, Api, Leadership, LeaseTimes, ObjectRef, Priority, Reflector, Resource, bind
from bayplan.cluster.configuration import Configuration
from bayplan.cluster.extender.app import ExtenderApp
from bayplan.cluster.extender.binding import Binder
from bayplan.cluster.extender.exposition import CONTENT_TYPE, Exposition
from bayplan.cluster.extender.recorder import Recorder
from bayplan.cluster.http import HttpError, HttpServer, Request, Response, TlsFiles
from bayplan.cluster.logs import logger
from bayplan.cluster.sources.feed import MetricFeed
from bayplan.cluster.sources.nodes import NodeBook
from bayplan.cluster.stores import NodeStore, ObjectStore, PodStore, WholeObject
from bayplan.fleet.scheduling.events import Event
from bayplan.fleet.scheduling.setup import Setup, written
from bayplan.protocols.kubernetes import PodObject, read_pod

LEASE = "bayplan-extender"
_log = logger("extender")
_OBJECTS = {
    f"{kind}.{group}": Resource(group=group, version=version, plural=plural, type=WholeObject)
    for kind, group, version, plural in (
        ("TASPolicy", "telemetry.intel.com", "v1alpha1", "taspolicies"),
        ("TelemetryPolicy", "bayplan.dev", "v1alpha1", "telemetrypolicies"),
        ("NodeLayout", "bayplan.dev", "v1alpha1", "nodelayouts"),
        ("NodeResourceTopology", "topology.node.k8s.io", "v1alpha2", "noderesourcetopologies"),
    )
}
# How often time alone is let pass: values grow old, promises run out, nodes' hubs are worked out ahead of requests.
_TICK_S = 1.0
_SETTLED_AT_ONCE = 20
_POLL_S = 0.02


class ProcessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one replica runs. `identity` differs between replicas; `namespace` is where the lease is.

    `tls` None: plain HTTP, for tests and for behind a proxy. `watch_port`: of /metrics, /healthz and /readyz; -1: not
    served; zero for either port: any. `binds`: whether the bind verb is answered, which needs an election.
    """

    identity: str
    namespace: str
    host: str = ""
    port: int = 9001
    watch_port: int = 9002
    tls: TlsFiles | None = None
    binds: bool = True
    elects: bool = True
    grace_s: float = 10.0
    times: LeaseTimes = LeaseTimes()


class Extender:
    """One replica: what it knows, and what answers."""

    def __init__(
        self,
        api: Api,
        setup: Setup,
        configuration: Configuration,
        settings: ProcessSettings,
        *,
        rng: random.Random,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.setup = setup
        self.settings = settings
        self.exposition = Exposition()
        self._now = now
        self._api = api
        self._book = NodeBook()
        self._recorder = Recorder(written(configuration.scheduling), now)
        self._limits = configuration.limits
        self.leadership: Leadership | None = None
        if settings.binds and settings.elects:
            self.leadership = Leadership(
                api,
                namespace=settings.namespace,
                name=LEASE,
                identity=settings.identity,
                rng=rng,
                times=settings.times,
            )
        self._may_bind = False
        self._rng = rng
        self._anew = asyncio.Event()
        self._pod_store = PodStore(self._happened, setup.scheduling.wants)
        self.reflectors = self._make_reflectors(rng)
        self.feed = MetricFeed(
            setup.telemetry.engine.metrics,
            configuration.sources.make(api),
            self._happened,
            lambda: self._book.current,
            configuration.sources.polling,
            clock=now,
            rng=rng,
        )
        binder = Binder(
            setup.scheduling, _ApiBinding(api), self._recorder.happened, now=now, may_bind=self._why_not_bind
        )
        self.app = ExtenderApp(
            setup.scheduling,
            self.exposition,
            bind=binder if settings.binds else None,
            now=now,
            recorder=self._recorder,
        )
        self._expose()

    @property
    def waits_for(self) -> list[str]:
        """What is not known yet, so that an answer would be a guess."""
        missing = [name for name, each in self.reflectors.items() if not each.synced.is_set()]
        missing += [f"metric {state.metric}" for state in self.feed.metrics if state.tried_at is None]
        if not missing and self.settings.binds and not self._may_bind:
            holder = self.leadership.holder if self.leadership is not None else ""
            missing.append(f"the lead, which {holder or 'nobody'} has")
        return missing

    async def run(self, listening: Callable[[int, int], None] = lambda port, watch_port: None) -> None:
        """Follow and answer until cancelled. `listening` is told the ports. Raises what the program does wrong."""
        server = HttpServer(self.app.handle, limits=self._limits, failed=self._failed)
        watching = HttpServer(self._watched, failed=self._failed)
        settings = self.settings
        await server.start(settings.host, settings.port, settings.tls)
        try:
            if settings.watch_port >= 0:
                await watching.start(settings.host, settings.watch_port)
            listening(server.port, watching.port if settings.watch_port >= 0 else -1)
            async with asyncio.TaskGroup() as tasks:
                for name in self.reflectors:
                    tasks.create_task(self._follow(name))
                tasks.create_task(self.feed.run())
                tasks.create_task(self._let_time_pass())
                tasks.create_task(self.leadership.run(self._lead) if self.leadership is not None else self._lead())
        finally:
            await server.stop(settings.grace_s)
            if settings.watch_port >= 0:
                await watching.stop(0.5)

    async def _follow(self, name: str) -> None:
        """Keep one resource as the API server has it. Set `self._anew` to have pods read anew."""
        while True:
            following = asyncio.ensure_future(self.reflectors[name].run())
            anew = asyncio.ensure_future(self._anew.wait() if name == "pods" else asyncio.Event().wait())
            try:
                await asyncio.wait({following, anew}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (following, anew):
                    task.cancel()
                await asyncio.wait({following, anew})
            if not following.cancelled():
                following.result()
            self._anew.clear()
            self.reflectors[name] = self._pods()

    async def _lead(self) -> None:
        """Bind, once all pods have been read anew: what a former leader bound last may be on its way to us else."""
        for name in self.reflectors:
            await self.reflectors[name].synced.wait()
        if self.leadership is not None:
            before = self.reflectors["pods"]
            self._anew.set()
            while self.reflectors["pods"] is before:
                await asyncio.sleep(_POLL_S)
            await self.reflectors["pods"].synced.wait()
        self._may_bind = True
        _log.info("binds pods from now on", identity=self.settings.identity)
        try:
            await asyncio.Event().wait()
        finally:
            self._may_bind = False

    async def _let_time_pass(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.setup.telemetry.engine.advance(self._now())
            self.setup.telemetry.flips.clear()
            self.setup.zones.zones.settle(_SETTLED_AT_ONCE)

    def _happened(self, event: Event) -> None:
        now = self._now()
        self._book.take(event)
        self.setup.scheduling.apply(event, now)
        # Waking pods is the controller's; here nobody takes what flipped.
        self.setup.telemetry.flips.clear()
        self._recorder.happened(event, now)
        self.feed.look()

    def _make_reflectors(self, rng: random.Random) -> dict[str, Reflector[Any]]:
        reflectors: dict[str, Reflector[Any]] = {
            "nodes": Reflector(self._api, NODES, NodeStore(self._happened), rng=rng),
            "pods": self._pods(),
        }
        for kind, resource in _OBJECTS.items():
            store = ObjectStore(self._happened, kind, f"{resource.group}/{resource.version}")
            reflectors[resource.plural] = Reflector(self._api, resource, store, rng=rng)
        return reflectors

    def _pods(self) -> Reflector[PodObject]:
        return Reflector(self._api, PODS, self._pod_store, rng=self._rng)

    def _why_not_bind(self) -> str:
        if self._may_bind:
            return ""
        holder = self.leadership.holder if self.leadership is not None else ""
        return f"this replica of the extender does not bind; the one that does is {holder or 'not known yet'}"

    def _watched(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered here", {"allow": "GET, HEAD"})
        match request.path:
            case "/metrics":
                return Response(content_type=CONTENT_TYPE, pieces=[self.exposition.text()])
            case "/healthz" | "/livez":
                return _said(HTTPStatus.OK, "ok")
            case "/readyz":
                waits_for = self.waits_for
                if waits_for:
                    return _said(HTTPStatus.SERVICE_UNAVAILABLE, f"waits for {', '.join(waits_for)}")
                return _said(HTTPStatus.OK, "ready")
        raise HttpError(HTTPStatus.NOT_FOUND, "there is /metrics, /healthz, /livez and /readyz")

    def _failed(self, error: BaseException) -> None:
        self.exposition.error()
        _log.error("error", problem=str(error), exc_info=error)

    def _expose(self) -> None:
        engine, exposition = self.setup.telemetry.engine, self.exposition
        exposition.gauge("bayplan_extender_ready", "Whether it answers from all it should know.", self._is_ready)
        exposition.gauges(
            "bayplan_metric_age_seconds",
            "Age of the oldest value of a metric.",
            "metric",
            lambda: [(str(age.metric), age.oldest_s) for age in engine.ages(self._now()) if age.oldest_s is not None],
        )
        exposition.gauges(
            "bayplan_metric_failures",
            "Polls of a metric that failed in a row.",
            "metric",
            lambda: [(str(state.metric), float(state.failures)) for state in self.feed.metrics],
        )
        exposition.gauges(
            "bayplan_watch_age_seconds",
            "How long ago the API server last said anything of a resource.",
            "resource",
            self._watch_ages,
        )

    def _is_ready(self) -> float:
        return float(not self.waits_for)

    def _watch_ages(self) -> list[tuple[str, float]]:
        told = ((name, each.counters.last_contact_at) for name, each in self.reflectors.items())
        return [(name, self._now() - at) for name, at in told if at is not None]


async def serve(extender: Extender, stop: asyncio.Event, listening: Callable[[int, int], None]) -> None:
    """Run until `stop` is set; raises what ends it before."""
    running = asyncio.ensure_future(extender.run(listening))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


class _ApiBinding:
    """Binds at the API server."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def pod(self, namespace: str, name: str) -> PodObject:
        return read_pod(await self._api.get(PODS.path(namespace, name), priority=Priority.URGENT))

    async def bind(self, pod: PodObject, node: str, annotations: Mapping[str, str]) -> None:
        await bind(self._api, ObjectRef.of(pod), node, annotations)


def _said(status: HTTPStatus, text: str) -> Response:
    return Response(status=status, content_type="text/plain; charset=utf-8", pieces=[text.encode(), b"\n"])
