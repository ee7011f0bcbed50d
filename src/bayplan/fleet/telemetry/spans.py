"""Lengths of time and moments as people read them, and when a moment is taken to have come."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

NEVER = math.inf
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_S = 253_402_300_000.0
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


def due_at(start: float, length_s: float) -> float:
    """When a length of time that began at `start` is over: at the next whole second.

    Five thousand nodes are measured at five thousand moments of the same second; all that is due within a second is
    looked at together, once.
    """
    return float(math.ceil(start + length_s)) if length_s > 0 else start


def format_span(seconds: float) -> str:
    """`3s`, `7m`, `7m30s`, `2h`, `3d`: two units at most."""
    left = max(round(seconds), 0)
    for index, (size, unit) in enumerate(_UNITS):
        if left >= size:
            whole, rest = divmod(left, size)
            finer, name = _UNITS[index + 1] if index + 1 < len(_UNITS) else (1, "s")
            return f"{whole}{unit}{rest // finer}{name}" if rest // finer else f"{whole}{unit}"
    return f"{left}s"


def format_moment(at: float) -> str:
    """`2026-01-31T12:00:00Z`, to the second; seconds where it is beyond any calendar."""
    if not 0 <= at <= _LATEST_S:
        return f"{at:.0f}s"
    return (_EPOCH + timedelta(seconds=math.floor(at))).isoformat().replace("+00:00", "Z")
