"""From what was measured to one sample per node, or per part of a node: pure, so that it may run in another thread."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, NamedTuple

from bayplan.cluster.sources.source import LeftOut, Polled
from bayplan.errors import InputError
from bayplan.fleet.telemetry.model import Sample

Duplicates = Literal["max", "min", "sum", "newest"]
"""What several series of one node are taken together to. The time is the oldest one's, but for `newest`."""
_MOST_EXAMPLES = 4


class Measurement(NamedTuple):
    """One value; `part` is empty for the node itself."""

    node: str
    part: str
    value: Fraction
    at: float
    window_s: float | None = None


class Gathering:
    """Collects the measurements of one poll and counts what cannot be used."""

    def __init__(self, duplicates: Duplicates, *, parts: bool) -> None:
        self._duplicates = duplicates
        self._parts = parts
        self._found: dict[tuple[str, str], Measurement] = {}
        self._counts: dict[str, int] = {}
        self._examples: list[str] = []

    def add(self, measured: Measurement) -> None:
        """One more; a second one of the same node and part is taken together with the first."""
        key = (measured.node, measured.part)
        known = self._found.get(key)
        if known is not None:
            self.leave_out("duplicates", "")
            measured = _together(known, measured, self._duplicates)
        self._found[key] = measured

    def leave_out(self, why: str, example: str) -> None:
        """Count one under a field of `LeftOut`."""
        count = self._counts[why] = self._counts.get(why, 0) + 1
        if count == 1 and example and len(self._examples) < _MOST_EXAMPLES:
            self._examples.append(example)

    def polled(self, warnings: tuple[str, ...] = ()) -> Polled:
        """All of it."""
        single: dict[str, Sample] = {}
        parted: dict[str, dict[str, Sample]] = {}
        for (node, part), measured in self._found.items():
            try:
                sample = Sample.of(measured.value, measured.at, measured.window_s)
            except InputError as error:
                self.leave_out("valueless", f"node {node}: {error}")
                continue
            if self._parts:
                parted.setdefault(node, {})[part] = sample
            else:
                single[node] = sample
        left_out = LeftOut(examples=tuple(self._examples), warnings=warnings, **self._counts)
        return Polled(samples=parted if self._parts else single, left_out=left_out)


def _together(a: Measurement, b: Measurement, how: Duplicates) -> Measurement:
    if how == "newest":
        return max(a, b, key=lambda each: (each.at, each.value))
    oldest = min(a.at, b.at)
    if how == "sum":
        return a._replace(value=a.value + b.value, at=oldest)
    pick = max if how == "max" else min
    return pick(a, b, key=lambda each: each.value)._replace(at=oldest)
