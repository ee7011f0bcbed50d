"""Memory for the bodies of requests: bounded in all, and used again.

A fresh buffer of 37 MB costs 9,000 page faults, which is a good part of receiving it. A large one is not touched before
bytes come for it: a client that only announces a body costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

# Bodies up to this size are not worth keeping.
SMALL = 1 << 16


class BodyMemory:
    """Hands out buffers until `most_bytes` are out; whoever asks then waits in line.

    `spare_bytes` at most are kept for the next body. What is in a buffer at first is not defined.
    """

    def __init__(self, most_bytes: int, spare_bytes: int) -> None:
        self._most = most_bytes
        self._spare_most = spare_bytes
        self._out = 0
        self._spare: list[memoryview] = []
        self._waiting: deque[tuple[int, Callable[[memoryview], None]]] = deque()

    @property
    def bytes_out(self) -> int:
        """How much is handed out."""
        return self._out

    @property
    def bytes_spare(self) -> int:
        """How much is kept for the next bodies."""
        return sum(map(len, self._spare))

    def take(self, size: int, ready: Callable[[memoryview], None]) -> None:
        """Call `ready` with a buffer of at least `size` bytes, now or when there is room.

        A size beyond all there may ever be is given when nothing else is out.
        """
        self._waiting.append((size, ready))
        self._serve()

    def withdraw(self, ready: Callable[[memoryview], None]) -> None:
        """Wait no more."""
        self._waiting = deque(entry for entry in self._waiting if entry[1] != ready)
        self._serve()

    def give_back(self, buffer: memoryview) -> None:
        """The body is done with."""
        self._out -= len(buffer)
        if SMALL < len(buffer) <= self._spare_most:
            # Bodies grow with the cluster: what was fit for earlier ones makes room.
            while self.bytes_spare + len(buffer) > self._spare_most:
                del self._spare[0]
            self._spare.append(buffer)
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            size, ready = self._waiting[0]
            if self._out and self._out + size > self._most:
                return
            self._waiting.popleft()
            buffer = self._buffer(size)
            self._out += len(buffer)
            ready(buffer)

    def _buffer(self, size: int) -> memoryview:
        for i, spare in enumerate(self._spare):
            if size <= len(spare) <= max(2 * size, SMALL):
                return self._spare.pop(i)
        return np.empty(size, np.uint8).data
