"""How many of something there were in the last minute."""

from __future__ import annotations

from collections import deque

WINDOW_S = 60.0


class Minute:
    """Counts what was taken within any 60 seconds. Mutable, pure; time does not go back."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._at: deque[float] = deque()

    def has_room_for(self, count: int, now: float) -> bool:
        """Whether so many more may be taken."""
        self._pass(now)
        return len(self._at) + count <= self._most

    def take(self, now: float) -> None:
        """One was taken."""
        self._pass(now)
        self._at.append(now)

    def is_empty(self, now: float) -> bool:
        """Whether nothing was taken lately."""
        self._pass(now)
        return not self._at

    def _pass(self, now: float) -> None:
        while self._at and self._at[0] <= now - WINDOW_S:
            self._at.popleft()
