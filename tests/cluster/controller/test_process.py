"""The controller as a process: health, metrics, and stopping in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bayplan.cluster.controller.process import ProcessSettings, serve
from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.upkeep.upkeep import Upkeep, UpkeepSettings

pytestmark = pytest.mark.anyio
HOT = {"rules": [{"metricname": "heat", "operator": "GreaterThan", "target": 80}]}


async def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), body


class Running:
    """A process in a task."""

    def __init__(self, world: Any, **settings: Any) -> None:
        self.stop = asyncio.Event()
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        process = ProcessSettings(
            identity="one", namespace="ns", host="127.0.0.1", port=0, **{"elects": False, **settings}
        )
        upkeep = Upkeep(TelemetryEngine(), UpkeepSettings(period_s=0.2, status_every_s=0))
        self.task = asyncio.ensure_future(
            serve(world.api, upkeep, world.feed, process, stop=self.stop, listening=self.port.set_result)
        )

    async def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        return await get(await self.port, path, method)


async def test_it_is_alive_at_once_and_ready_when_it_knows_the_cluster(world: Any, eventually: Any) -> None:
    await world.node("a")
    await world.policy("p", deschedule=HOT)
    world.feed.values["heat"] = {"a": 95}
    running = Running(world)
    assert await running.get("/healthz") == (200, "ok\n")

    async def leads() -> bool:
        return await running.get("/readyz") == (200, "leading\n")

    async def counted() -> bool:
        _, text = await running.get("/metrics")
        wanted = (
            "bayplan_controller_leader 1.0",
            'bayplan_controller_objects{kind="nodes"} 1.0',
            'bayplan_controller_violating_nodes{namespace="default",policy="p"} 1.0',
            'bayplan_controller_writes_total{result="written",what="node labels"} 1.0',
            'bayplan_controller_metric_age_seconds{metric="heat"}',
            'bayplan_controller_watch_age_seconds{resource="taspolicies"}',
            'bayplan_controller_loop_failures_total{loop="wakes"} 0.0',
        )
        return all(each in text for each in wanted)

    await eventually(leads)
    await eventually(counted)
    assert (await running.get("/other"))[0] == 404
    assert (await running.get("/metrics", "POST"))[0] == 405
    running.stop.set()
    await running.task
    with pytest.raises(OSError, match=r"refused|Connect"):
        await running.get("/healthz")


async def test_it_is_not_ready_while_the_api_does_not_answer(
    world: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.refuse("get /api/v1/pods", 503, {"message": "starting"}, times=1000)
    running = Running(world)

    async def others_are_known() -> bool:
        return await running.get("/readyz") == (503, "not known yet: pods\n")

    await eventually(others_are_known)
    assert (await running.get("/healthz"))[0] == 200
    running.stop.set()
    await running.task


async def test_an_error_of_the_program_ends_the_process_and_is_told(world: Any, eventually: Any) -> None:
    async def broken(*arguments: Any) -> None:
        raise ZeroDivisionError

    world.feed = broken
    running = Running(world)
    with pytest.raises(BaseExceptionGroup) as ended:
        await running.task
    assert ended.group_contains(ZeroDivisionError)


async def test_a_dry_run_takes_no_part_in_an_election(world: Any, eventually: Any) -> None:
    running = Running(world, elects=True, dry_run=True)

    async def leads() -> bool:
        return await running.get("/readyz") == (200, "leading\n")

    await eventually(leads)
    running.stop.set()
    await running.task
    assert not [call for call in world.emulator if "leases" in call.url.path]
