"""How often the API server is asked: a token bucket, in which what is urgent goes before what can wait.

Binds and the leader's lease are urgent, because a pod or a second controller waits for them; labels, events and lists
are not. The bucket itself is pure: time is an argument.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque


class Priority(enum.IntEnum):
    """Who goes first where there are not enough calls for all."""

    URGENT = 0
    NORMAL = 1
    BACKGROUND = 2


class TokenBucket:
    """`burst` calls at once, `qps` a second on average; `now` is in seconds of any clock that does not go back."""

    def __init__(self, qps: float, burst: int, now: float = 0.0) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"qps {qps} must be more than 0, burst {burst} at least 1")
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at = now

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        self._fill(now)
        # Sums of floats fall short of whole numbers by a little; a caller that waited `wait` must be served.
        if self._tokens < 1 - 1e-6:
            return False
        self._tokens = max(0.0, self._tokens - 1)
        return True

    def wait(self, now: float) -> float:
        """Seconds until there is a token."""
        self._fill(now)
        return max(0.0, (1 - self._tokens) / self._qps)

    def _fill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._qps)
        self._at = max(self._at, now)


class Limiter:
    """Lets callers of one event loop through one after the other, those of higher priority first."""

    def __init__(self, qps: float, burst: int) -> None:
        self._bucket = TokenBucket(qps, burst)
        self._waiting: dict[Priority, deque[asyncio.Future[None]]] = {priority: deque() for priority in Priority}
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, priority: Priority = Priority.NORMAL) -> None:
        """Return when the caller may go."""
        loop = asyncio.get_running_loop()
        if not any(self._waiting.values()) and self._bucket.take(loop.time()):
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting[priority].append(turn)
        self._let_through()
        await turn

    def _let_through(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        while queue := self._first():
            if not self._bucket.take(loop.time()):
                self._timer = loop.call_later(self._bucket.wait(loop.time()), self._let_through)
                return
            queue.popleft().set_result(None)

    def _first(self) -> deque[asyncio.Future[None]] | None:
        """The queue whose first caller is next, after those who gave up have been dropped."""
        for queue in self._waiting.values():
            while queue and queue[0].done():
                queue.popleft()
            if queue:
                return queue
        return None
