"""How long to wait before the next try: twice as long after every failure, and never all at the same moment."""

from __future__ import annotations

import random


class Backoff:
    """Waits of `first_s`, doubled up to `longest_s`, each shortened by up to half at random."""

    def __init__(self, rng: random.Random, first_s: float = 0.5, longest_s: float = 30.0) -> None:
        self._rng = rng
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        wait, self._next_s = self._next_s, min(self._longest_s, self._next_s * 2)
        return wait * (0.5 + 0.5 * self._rng.random())

    def reset(self) -> None:
        """It worked."""
        self._next_s = self._first_s
