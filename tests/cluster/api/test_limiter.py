"""Calls are let through at the rate that was said, and the urgent ones before those that can wait."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.cluster.api import Limiter, Priority, TokenBucket

pytestmark = pytest.mark.anyio


def test_a_burst_and_then_the_rate() -> None:
    bucket = TokenBucket(qps=2, burst=3, now=100.0)
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert bucket.wait(100.0) == 0.5
    assert not bucket.take(100.25)
    assert bucket.take(100.5)
    assert [bucket.take(1000.0) for _ in range(4)] == [True, True, True, False], "what was not used is not saved up"


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(qps=1, burst=1, now=50.0)
    assert bucket.take(50.0)
    assert not bucket.take(10.0)
    assert not bucket.take(50.5)


@given(st.floats(0.1, 500), st.integers(1, 50), st.lists(st.floats(0, 2), min_size=1, max_size=50))
def test_never_more_than_burst_and_rate(qps: float, burst: int, pauses: list[float]) -> None:
    bucket = TokenBucket(qps, burst)
    now = 0.0
    taken = 0
    for pause in pauses:
        now += pause
        taken += bucket.take(now)
        assert taken <= burst + now * qps + 1e-3


@given(st.floats(0.1, 500))
def test_who_waits_as_long_as_told_is_served(qps: float) -> None:
    bucket = TokenBucket(qps, 1)
    assert bucket.take(0.0)
    assert bucket.take(bucket.wait(0.0))


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_limits_that_let_nothing_through_are_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="must be more than 0"):
        TokenBucket(qps, burst)


async def test_urgent_calls_go_first() -> None:
    limiter = Limiter(qps=200, burst=1)
    order: list[str] = []

    async def call(name: str, priority: Priority) -> None:
        await limiter.take(priority)
        order.append(name)

    await call("first", Priority.BACKGROUND)
    async with asyncio.TaskGroup() as tasks:
        for name, priority in (("b", Priority.BACKGROUND), ("n", Priority.NORMAL), ("u", Priority.URGENT)):
            tasks.create_task(call(f"{name}1", priority))
            tasks.create_task(call(f"{name}2", priority))
    assert order == ["first", "u1", "u2", "n1", "n2", "b1", "b2"]


async def test_who_gave_up_takes_nobodys_turn() -> None:
    limiter = Limiter(qps=20, burst=1)
    await limiter.take()
    given_up = asyncio.create_task(limiter.take(Priority.URGENT))
    waiting = asyncio.create_task(limiter.take())
    await asyncio.sleep(0)
    given_up.cancel()
    async with asyncio.timeout(5):
        await waiting
    assert given_up.cancelled()
