"""The newest samples of each metric, as columns: what of a poll the rules need, made once for all of them.

A table is made whole by each poll and never changed afterwards: verdicts may keep what they took from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from bayplan.errors import InputError
from bayplan.fleet.telemetry.model import NodeSamples, Sample
from bayplan.fleet.telemetry.nano import Nano
from bayplan.fleet.telemetry.spans import NEVER, due_at

Reduction = Literal["", "max", "min"]
_Parts = Mapping[str, tuple[Nano, ...]]


class Table:
    """One poll of one metric. `names` are the nodes that have a value, `ats` when each was measured.

    A metric with parts has `parts`: node -> part -> value; a node's value is as old as the oldest of its parts. A value
    that claims to be from the future counts as measured when it was first seen, so that clocks that go wrong do not
    keep it fresh for ever.
    """

    __slots__ = ("_ahead", "_reduced", "_values", "ats", "names", "oldest", "parts", "polled_at")

    def __init__(self, samples: NodeSamples, now: float, previous: Table | None = None, *, parts: bool = False) -> None:
        self.polled_at = now
        self.names: frozenset[str]
        self.parts: dict[str, dict[str, Nano]] = {}
        self._reduced: dict[Reduction, dict[str, Nano]] = {}
        self._values: dict[str, Nano] = {}
        self.ats: dict[str, float] = {}
        if parts:
            self._take_parts(samples)
        else:
            self._take_single(samples)
        self._ahead: dict[str, tuple[float, float]] = {}
        if self.ats and max(self.ats.values()) > now:
            self._bring_back(now, previous)
        self.oldest = min(self.ats.values(), default=NEVER)
        # The same set again where the nodes are the same: rules tell by identity that none came or went.
        same = previous is not None and previous.ats.keys() == self.ats.keys()
        self.names = previous.names if same and previous is not None else frozenset(self.ats)

    def values(self, reduction: Reduction = "") -> Mapping[str, Nano]:
        """A value for each node; of those with parts the greatest (`max`) or least one."""
        if not self.parts or not reduction:
            return self._values
        found = self._reduced.get(reduction)
        if found is None:
            pick = max if reduction == "max" else min
            found = self._reduced[reduction] = {name: pick(parts.values()) for name, parts in self.parts.items()}
        return found

    def all_parts(self) -> _Parts:
        """All values of each node."""
        if not self.parts:
            return {name: (value,) for name, value in self._values.items()}
        return {name: tuple(parts.values()) for name, parts in self.parts.items()}

    def stale(self, max_age_s: float | None, now: float) -> tuple[frozenset[str], float]:
        """The nodes whose values are too old, and when the next one will be."""
        if max_age_s is None:
            return frozenset(), NEVER
        first = due_at(self.oldest, max_age_s) if self.ats else NEVER
        if first > now:
            return frozenset(), first
        dues = {name: due_at(at, max_age_s) for name, at in self.ats.items()}
        stale = frozenset(name for name, due in dues.items() if due <= now)
        return stale, min((due for due in dues.values() if due > now), default=NEVER)

    def _take_single(self, samples: NodeSamples) -> None:
        try:
            self._values = {name: sample.nano for name, sample in samples.items()}  # type: ignore[union-attr]
            self.ats = {name: sample.at for name, sample in samples.items()}  # type: ignore[union-attr]
        except AttributeError as error:
            raise InputError("several values for a node", expected="one, of a metric without parts") from error

    def _take_parts(self, samples: NodeSamples) -> None:
        for name, given in samples.items():
            parts = {"": given} if isinstance(given, Sample) else given
            if parts:
                self.parts[name] = {part: parts[part].nano for part in sorted(parts)}
                self.ats[name] = min(sample.at for sample in parts.values())

    def _bring_back(self, now: float, previous: Table | None) -> None:
        known = previous._ahead if previous is not None else {}
        for name, at in self.ats.items():
            if at > now:
                claimed, seen = known.get(name, (at, now))
                self._ahead[name] = (at, seen if claimed == at else now)
        for name, (_, seen) in self._ahead.items():
            self.ats[name] = seen


EMPTY = Table({}, 0.0)
"""What is known of a metric that was not polled yet."""
