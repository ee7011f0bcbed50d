"""A step that is taken again and again: soon after something changed, when time alone changes something, and anyhow.

Level-triggered: a step looks at all that there is to do, so what was missed, failed or came meanwhile is done the next
time. Each loop waits by itself after failures, longer each time, so that none holds up another.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec

from bayplan.cluster.api import ApiError
from bayplan.cluster.api.backoff import Backoff
from bayplan.cluster.logs import logger

_log = logger("controller")
Step = Callable[[], Awaitable[bool]]
"""Does what there is to do; true: there is more, come again at once. Raises `ApiError` for what is to be done later."""


class LoopCounters(msgspec.Struct):
    """Steps taken, and those that failed; when the last one worked, in seconds since the epoch."""

    steps: int = 0
    failures: int = 0
    last_ok_at: float | None = None


class Loop:
    """One step and when it is taken.

    period_s: at least so often. settle_s: how long after a change, so that a burst is one step. due: the moment (of the
    clock `now`) at which time alone makes a step worth while.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        *,
        period_s: float,
        settle_s: float,
        rng: random.Random,
        now: Callable[[], float],
        due: Callable[[], float] | None = None,
    ) -> None:
        self.name = name
        self.counters = LoopCounters()
        self.changed = asyncio.Event()
        self._step = step
        self._period_s = period_s
        self._settle_s = settle_s
        self._now = now
        self._due = due
        self._backoff = Backoff(rng)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.changed.clear()
            self.counters.steps += 1
            try:
                more = await self._step()
            except ApiError as error:
                self.counters.failures += 1
                wait = max(self._backoff.next(), error.retry_after_s or 0.0)
                _log.warning("not done", loop=self.name, problem=str(error), again_in_s=round(wait, 1))
                await asyncio.sleep(wait)
                continue
            self._backoff.reset()
            self.counters.last_ok_at = self._now()
            if more:
                await asyncio.sleep(0)
            else:
                await self._rest()

    async def _rest(self) -> None:
        """Until a change has settled, time changes something, or the period is over."""
        wait = self._period_s
        if self._due is not None:
            wait = min(wait, max(self._due() - self._now(), self._settle_s))
        try:
            async with asyncio.timeout(wait):
                await self.changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(self._settle_s)
