"""A controller against kmock's emulation of the API, with metrics that the test sets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import kmock
import pytest
from lightkube.config.kubeconfig import KubeConfig

from bayplan.cluster.api import Api, EventRecorder, Leadership, LeaseTimes, NotFoundError, Settings
from bayplan.cluster.controller.controller import Controller
from bayplan.cluster.stores import Sink
from bayplan.fleet.scheduling.events import Measured
from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import MetricKey, Sample
from bayplan.fleet.upkeep.upkeep import Upkeep, UpkeepSettings

RESOURCES = (
    "v1/nodes",
    "v1/pods",
    "telemetry.intel.com/v1alpha1/taspolicies",
    "bayplan.dev/v1alpha1/telemetrypolicies",
    "events.k8s.io/v1/events",
)


class OneLease:
    """A lease as an API keeps it, without conflicts: kmock knows no PUT. Elections have tests of their own."""

    def __init__(self) -> None:
        self._lease: Any = None

    async def get(self, path: str, **options: Any) -> bytes:
        if self._lease is None:
            raise NotFoundError("no such lease")
        return json.dumps(self._lease).encode()

    async def post(self, path: str, body: Any, **options: Any) -> None:
        self._lease = body

    put = post


class MadeFeed:
    """Metric -> node -> value, told again and again as a poll does."""

    def __init__(self) -> None:
        self.values: dict[str, Mapping[str, int]] = {}

    async def __call__(self, metrics: Callable[[], frozenset[MetricKey]], sink: Sink) -> None:
        while True:
            for metric in sorted(metrics()):
                now = time.time()
                values = self.values.get(metric.name, {})
                sink(Measured(metric=metric, samples={node: Sample.read(v, now) for node, v in values.items()}))
            await asyncio.sleep(0.02)


class World:
    """The emulated API, the feed, and controllers made for both."""

    def __init__(self, emulator: kmock.KubernetesEmulator, api: Api) -> None:
        self.emulator = emulator
        self.api = api
        self.feed = MadeFeed()
        self.leases: Any = OneLease()

    def controller(
        self, *, identity: str = "", dry_run: bool = False, settings: UpkeepSettings | None = None, cards: Any = None
    ) -> Controller:
        """A replica; with an identity it takes part in an election."""
        rng = random.Random(1)
        times = LeaseTimes(lease_s=2, renew_deadline_s=1.0, retry_s=0.1)
        leadership = Leadership(self.leases, namespace="ns", name="l", identity=identity, rng=rng, times=times)
        upkeep = Upkeep(TelemetryEngine(), settings or UpkeepSettings(period_s=0.2, status_every_s=0), cards)
        return Controller(
            self.api,
            upkeep,
            self.feed,
            recorder=EventRecorder(self.api, controller="bayplan.dev/controller", instance=identity, rng=rng),
            leadership=leadership if identity else None,
            rng=rng,
            now=time.time,
            dry_run=dry_run,
        )

    async def create(self, path: str, name: str, *, namespace: str = "", **fields: Any) -> None:
        metadata = {"name": name, "uid": f"uid-{name}", **fields.pop("metadata", {})}
        if namespace:
            metadata["namespace"] = namespace
        await self.api.post(path, {"metadata": metadata, **fields})

    async def node(self, name: str, **labels: str) -> None:
        await self.create("/api/v1/nodes", name, metadata={"labels": labels, "annotations": {}})

    async def policy(self, name: str, **strategies: Any) -> None:
        path = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies"
        await self.create(path, name, namespace="default", spec={"strategies": strategies})

    def asked(self, method: str, end: str = "") -> list[Any]:
        """Calls made so far, by method and by how their path ends."""
        return [r for r in self.emulator if r.method.value.lower() == method and r.url.path.endswith(end)]

    async def read(self, path: str) -> Any:
        return json.loads(await self.api.get(path))

    def refuse(self, what: str, status: int, body: Any, *, times: int) -> None:
        """Answer the next calls so instead of serving them."""
        left = iter(range(times))

        def answer() -> Any:
            next(left)
            return kmock.Response(status=status, payload=body)  # type: ignore[attr-defined]

        self.emulator[what] << answer


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with kmock.KubernetesEmulator() as emulator, kmock.Server(emulator):
        for resource in RESOURCES:
            emulator.resources[resource] = {}  # type: ignore[assignment]
        config = KubeConfig.from_server(str(emulator.servers[0].url)).get()
        assert config
        async with Api.connect(
            config, Settings(qps=10_000, burst=10_000), rng=random.Random(1), trust_env=False
        ) as api:
            yield World(emulator, api)


@pytest.fixture
def eventually() -> Callable[[Callable[[], Any]], Awaitable[None]]:
    """Waits until something holds, which may be awaitable; the test fails where it does not within ten seconds."""

    async def wait(holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(10):
            while True:
                found = holds()
                if await found if asyncio.iscoroutine(found) else found:
                    return
                await asyncio.sleep(0.01)

    return wait


@pytest.fixture
def running() -> Callable[..., Any]:
    """Runs controllers beside a block, and stops them at its end."""

    @contextlib.asynccontextmanager
    async def beside(*controllers: Controller) -> AsyncIterator[list[asyncio.Task[None]]]:
        tasks = [asyncio.ensure_future(each.run()) for each in controllers]
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [error for error in ended if error and not isinstance(error, asyncio.CancelledError)] == []

    return beside
