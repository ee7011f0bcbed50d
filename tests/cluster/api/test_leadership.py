"""One leads; who cannot renew stops before another begins; no other machine's clock is believed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from bayplan.cluster.api import Api, Leadership, LeaseTimes, Settings

pytestmark = pytest.mark.anyio

TIMES = LeaseTimes(lease_s=1, renew_deadline_s=0.3, retry_s=0.03)
FAST = Settings(qps=10_000, burst=10_000, call_s=0.2)
OTHERS = {"holderIdentity": "other", "leaseDurationSeconds": 1, "renewTime": "2001-01-01T00:00:00.000000Z"}


class Work:
    """Something that must not run twice at once."""

    def __init__(self) -> None:
        self.leaders: list[str] = []
        self.history: list[str] = []

    def of(self, name: str, ends_after: float | None = None) -> Callable[[], Any]:
        async def work() -> None:
            assert self.leaders == [], "two lead at once"
            self.leaders.append(name)
            self.history.append(name)
            try:
                await asyncio.sleep(3600 if ends_after is None else ends_after)
            finally:
                await asyncio.sleep(0.01)
                self.leaders.remove(name)

        return work


@pytest.fixture
async def api(server: Any, api_of: Callable[..., Api]) -> Any:
    async with api_of(server.url, FAST) as api:
        yield api


@pytest.fixture
def candidate(api: Api) -> Callable[[str], Leadership]:
    def make(identity: str) -> Leadership:
        return Leadership(
            api, namespace="ns", name="l", identity=identity, rng=random.Random(identity), times=TIMES, now=lambda: 1e9
        )

    return make


def spec(server: Any) -> dict[str, Any]:
    return dict(server.objects["l"]["spec"]) if "l" in server.objects else {}


async def test_the_lease_says_who_leads(server: Any, candidate: Any, running: Any, eventually: Any) -> None:
    work = Work()
    leader = candidate("a")
    async with running(leader.run(work.of("a"))):
        await eventually(lambda: work.leaders == ["a"])
        assert leader.is_leading
        assert leader.holder == "a"
        assert spec(server) == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 1,
            "acquireTime": "2001-09-09T01:46:40.000000Z",
            "renewTime": "2001-09-09T01:46:40.000000Z",
            "leaseTransitions": 0,
        }
        renewed = server.version
        await eventually(lambda: server.version > renewed + 2)
    assert spec(server)["holderIdentity"] == "", "given back"
    assert spec(server)["leaseDurationSeconds"] == 1
    assert not leader.is_leading
    assert work.leaders == []


async def test_one_leads_and_the_next_follows(server: Any, candidate: Any, running: Any, eventually: Any) -> None:
    work = Work()
    first, second = candidate("a"), candidate("b")
    async with contextlib.AsyncExitStack() as then:
        async with running(first.run(work.of("a"))):
            await eventually(lambda: work.leaders == ["a"])
            await then.enter_async_context(running(second.run(work.of("b"))))
            await eventually(lambda: second.holder == "a")
            server.log.clear()
            await eventually(lambda: server.log.count("PUT") >= 4)
            assert work.history == ["a"]
        await eventually(lambda: work.leaders == ["b"])
        assert spec(server)["leaseTransitions"] == 1


async def test_a_lease_that_is_renewed_is_respected_however_old_it_says_it_is(
    server: Any, candidate: Any, running: Any, eventually: Any
) -> None:
    server.put("l", spec=OTHERS)
    work = Work()
    async with running(candidate("a").run(work.of("a"))):
        for number in range(12):
            server.put("l", spec={**OTHERS, "leaseTransitions": number})
            await asyncio.sleep(0.1)
            assert work.history == []
        renewed_last = asyncio.get_running_loop().time() - 0.1
        await eventually(lambda: work.history == ["a"])
        assert asyncio.get_running_loop().time() - renewed_last >= 1.0
    assert spec(server)["leaseTransitions"] == 12


@pytest.mark.parametrize("duration", [None, "long", 0, -1, 10**9])
async def test_an_odd_duration_is_ours(
    duration: Any, server: Any, candidate: Any, running: Any, eventually: Any
) -> None:
    server.put("l", spec={**OTHERS, "leaseDurationSeconds": duration, "leaseTransitions": "many"})
    work = Work()
    async with running(candidate("a").run(work.of("a"))):
        await eventually(lambda: work.history == ["a"])


async def test_who_cannot_renew_stops_in_time(server: Any, candidate: Any, running: Any, eventually: Any) -> None:
    work = Work()
    leader = candidate("a")
    async with running(leader.run(work.of("a"))):
        await eventually(lambda: work.leaders == ["a"])
        await server.stop()
        await eventually(lambda: not leader.is_leading)
        assert work.leaders == []
        await server.start()
        await eventually(lambda: work.history == ["a", "a"])


async def test_who_is_robbed_stops(server: Any, candidate: Any, running: Any, eventually: Any) -> None:
    work = Work()
    leader = candidate("a")
    async with running(leader.run(work.of("a"))):
        await eventually(lambda: work.leaders == ["a"])
        server.put("l", spec=OTHERS)
        await eventually(lambda: work.leaders == [])
        assert leader.holder == "other"
        assert spec(server) == OTHERS, "the thief's lease is not touched"


async def test_conflicts_while_renewing_are_no_loss(server: Any, candidate: Any, running: Any, eventually: Any) -> None:
    work = Work()
    async with running(candidate("a").run(work.of("a"))):
        await eventually(lambda: work.leaders == ["a"])
        for status in (409, 500, 429):
            server.refusals.append((status, {}, ""))
            await eventually(lambda: not server.refusals)
        renewed = server.version
        await eventually(lambda: server.version > renewed + 1)
    assert work.history == ["a"]


async def test_work_that_is_done_ends_it(server: Any, candidate: Any) -> None:
    await candidate("a").run(Work().of("a", ends_after=0.05))
    assert spec(server)["holderIdentity"] == ""


async def test_work_that_fails_is_heard_and_the_lease_given_back(server: Any, candidate: Any) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await candidate("a").run(fail)
    assert spec(server)["holderIdentity"] == ""


async def test_never_two_at_once(server: Any, candidate: Any, running: Any, eventually: Any) -> None:
    rng = random.Random(7)
    work = Work()
    async with running(*(candidate(name).run(work.of(name)) for name in "abc")):
        for _ in range(6):
            await eventually(lambda: work.leaders)
            if rng.random() < 0.5:
                await server.stop()
                await asyncio.sleep(0.4)
                await server.start()
            else:
                server.put("l", spec={**OTHERS, "holderIdentity": rng.choice("abc")})
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("times", [(15, 20, 2), (15, 10, 10), (15, 10, 0)])
def test_times_that_would_let_two_lead_are_refused(times: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="not 0 < retry"):
        LeaseTimes(lease_s=times[0], renew_deadline_s=times[1], retry_s=times[2])
