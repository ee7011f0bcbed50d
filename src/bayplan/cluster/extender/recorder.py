"""Writes down what happens and what is asked for a while: `bayplan record` asks for it, `bayplan replay` reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from bayplan.cluster.http import HttpError
from bayplan.fleet.scheduling import FilterDecision, Question
from bayplan.fleet.scheduling.events import Event
from bayplan.fleet.scheduling.known import Known
from bayplan.fleet.scheduling.recording import filtered, happened, head, prioritized

MOST_BYTES = 256 << 20
LONGEST_S = 3600.0


class _Recording:
    """The lines of one recording, until there are too many."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.full = asyncio.Event()
        self._bytes = 0

    def add(self, line: bytes) -> None:
        if self.full.is_set():
            return
        self._bytes += len(line)
        if self._bytes > MOST_BYTES:
            self.full.set()
            return
        self.lines.append(line)


class Recorder:
    """Knows the state in events, and writes down more of them where somebody records.

    `settings` is what the scheduling was built from.
    """

    def __init__(self, settings: Mapping[str, Any], now: Callable[[], float]) -> None:
        self._settings = settings
        self._now = now
        self._known = Known()
        self._recordings: list[_Recording] = []

    def happened(self, event: Event, now: float) -> None:
        """Something happened in the cluster."""
        self._known.apply(event, now)
        if self._recordings:
            self._write(happened(event, now))

    def filtered(self, question: Question, decision: FilterDecision, now: float) -> None:
        """A filter request was answered."""
        if self._recordings:
            self._write(filtered(question, decision, now))

    def prioritized(self, question: Question, scores: Sequence[int], now: float) -> None:
        """A prioritize request was answered."""
        if self._recordings:
            self._write(prioritized(question, scores, now))

    async def record(self, seconds: float) -> list[bytes]:
        """The state as it is now, then all that happens and is asked for so long, in lines.

        Raises `HttpError` for a length that is not to be had, and if the state alone is too much.
        """
        if not 0 < seconds <= LONGEST_S:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"cannot record for {seconds} s (expected up to {LONGEST_S:.0f})")
        recording = _Recording()
        recording.add(head(self._settings))
        for at, event in self._known:
            recording.add(happened(event, at))
        if recording.full.is_set():
            raise HttpError(HTTPStatus.INSUFFICIENT_STORAGE, f"the state alone is more than {MOST_BYTES} bytes")
        self._recordings.append(recording)
        try:
            async with asyncio.timeout(seconds):
                await recording.full.wait()
        except TimeoutError:
            pass  # the usual end
        finally:
            self._recordings.remove(recording)
        return recording.lines

    def _write(self, line: bytes) -> None:
        for recording in self._recordings:
            recording.add(line)
