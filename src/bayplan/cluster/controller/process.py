"""The controller as a process: it serves its health from the start, runs until it is told to stop, and stops in order.

On SIGTERM or SIGINT: no new writes, the lease given back so that the next one leads at once, the last events sent, the
health endpoint closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import Callable, Sequence

import msgspec

from bayplan.cluster.api import Api, EventRecorder, Leadership, LeaseTimes
from bayplan.cluster.controller.controller import Controller, Feed
from bayplan.cluster.controller.exposition import Exposition
from bayplan.cluster.http import HttpServer, TlsFiles
from bayplan.cluster.logs import logger
from bayplan.cluster.stores import Sink
from bayplan.fleet.upkeep.upkeep import Upkeep

LEASE = "bayplan-controller"
REPORTER = "bayplan.dev/controller"
_GRACE_S = 2.0
_log = logger("controller")


class ProcessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one replica runs.

    identity: differs between replicas (the pod's name). namespace: where the lease is. elects: whether it takes part
    in an election; a dry run, which writes nothing, does not. port: of /metrics, /healthz and /readyz; zero: any.
    """

    identity: str
    namespace: str
    host: str = ""
    port: int = 9002
    tls: TlsFiles | None = None
    elects: bool = True
    dry_run: bool = False
    times: LeaseTimes = LeaseTimes()


async def serve(
    api: Api,
    upkeep: Upkeep,
    feed: Feed,
    settings: ProcessSettings,
    *,
    stop: asyncio.Event,
    listeners: Sequence[Sink] = (),
    listening: Callable[[int], None] = lambda port: None,
) -> None:
    """Run until `stop` is set; raises what ends the controller before. `listening` is told the port."""
    rng = random.Random()
    leadership = Leadership(
        api,
        namespace=settings.namespace,
        name=LEASE,
        identity=settings.identity,
        rng=rng,
        times=settings.times,
    )
    controller = Controller(
        api,
        upkeep,
        feed,
        recorder=EventRecorder(api, controller=REPORTER, instance=settings.identity, rng=rng),
        leadership=leadership if settings.elects and not settings.dry_run else None,
        rng=rng,
        now=time.time,
        dry_run=settings.dry_run,
        listeners=listeners,
    )
    server = HttpServer(Exposition(controller, time.time).handle, failed=_failed)
    await server.start(settings.host, settings.port, settings.tls)
    listening(server.port)
    try:
        await _until(stop, controller)
    finally:
        await server.stop(_GRACE_S)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set `stop` on SIGTERM and SIGINT."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


async def _until(stop: asyncio.Event, controller: Controller) -> None:
    running = asyncio.ensure_future(controller.run())
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def _failed(error: BaseException) -> None:
    _log.error("http", problem=str(error), exc_info=error)
