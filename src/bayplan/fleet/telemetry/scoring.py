"""Scores of nodes from 0 to 10, and their order, best first; ties go by name.

kube-scheduler multiplies an extender's score by ten and by its weight and does not clamp it, so that what leaves 0 to
10 drowns every other plugin. Nodes without a fresh value have the lowest score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from bayplan.fleet.telemetry.model import FALLING, RISING, Score
from bayplan.fleet.telemetry.nano import Nano
from bayplan.fleet.telemetry.readings import Table
from bayplan.fleet.telemetry.spans import NEVER

BEST = 10
LOWEST = 0
_MICRO = 10**6
_MOST = BEST * _MICRO


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """`scores` and `ranked` hold the nodes that have a value; `millionths` are the scores before rounding."""

    scores: Mapping[str, int]
    ranked: tuple[str, ...]
    millionths: Mapping[str, int]
    next_at: float = NEVER


NO_RANKING = Ranking(scores={}, ranked=(), millionths={})


def rank(scores: Sequence[Score], tables: Sequence[Table], selected: frozenset[str] | None, now: float) -> Ranking:
    """The ranking by one or several metrics, the tables in their order."""
    parts: list[dict[str, int]] = []
    next_at = NEVER
    ranked: list[str] = []
    for score, table in zip(scores, tables, strict=True):
        stale, changes_at = table.stale(score.max_age_s, now)
        next_at = min(next_at, changes_at)
        goodness = _goodness(score, _fresh(table, score, stale, selected))
        ranked = sorted(sorted(goodness), key=goodness.__getitem__, reverse=True)
        parts.append(_by_value(score, goodness) if score.spread == "value" else _by_rank(score, goodness, ranked))
    if not parts:
        return NO_RANKING
    millionths = parts[0] if len(parts) == 1 else _weighed(scores, parts)
    if len(parts) > 1:
        ranked = sorted(sorted(millionths), key=millionths.__getitem__, reverse=True)
    rounded = {name: (value + _MICRO // 2) // _MICRO for name, value in millionths.items()}
    return Ranking(scores=rounded, ranked=tuple(ranked), millionths=millionths, next_at=next_at)


def ten_minus_rank(ranked: Iterable[str], wanted: Iterable[str]) -> Iterator[tuple[str, int]]:
    """The scores that TAS gives: 10 for the best of the wanted nodes, one less for each next, without end."""
    names = frozenset(wanted)
    for place, name in enumerate(name for name in ranked if name in names):
        yield name, BEST - place


def _fresh(table: Table, score: Score, stale: frozenset[str], selected: frozenset[str] | None) -> Mapping[str, Nano]:
    values = table.values(score.aggregate if score.aggregate in ("max", "min") else "")
    if not stale and selected is None:
        return values
    return {
        name: value for name, value in values.items() if name not in stale and (selected is None or name in selected)
    }


def _goodness(score: Score, values: Mapping[str, Nano]) -> Mapping[str, Nano]:
    """More is better."""
    if score.operator in RISING:
        return values
    if score.operator in FALLING:
        return _mapped(values, lambda value: 0 - value)
    target = score.target
    if score.operator == "Equals":
        return _mapped(values, lambda value: 0 - _apart(value, target))
    return _mapped(values, lambda value: _apart(value, target))


def _apart(value: Nano, target: Nano) -> Nano:
    return value - target if value > target else target - value


def _mapped(values: Mapping[str, Nano], change: Callable[[Nano], Nano]) -> dict[str, Nano]:
    return {name: change(value) for name, value in values.items()}


def _by_value(score: Score, goodness: Mapping[str, Nano]) -> dict[str, int]:
    if not goodness:
        return {}
    sign = -1 if score.operator in FALLING else 1
    most = max(goodness.values()) if score.best is None else sign * score.best
    least = min(goodness.values()) if score.worst is None else sign * score.worst
    span = most - least
    if span <= 0:
        return {name: _MOST if value >= most else 0 for name, value in goodness.items()}
    found = {name: int((value - least) * _MOST // span) for name, value in goodness.items()}
    if score.best is None and score.worst is None:
        return found
    return {name: min(max(value, 0), _MOST) for name, value in found.items()}


def _by_rank(score: Score, goodness: Mapping[str, Nano], ranked: Sequence[str]) -> dict[str, int]:
    steps = max(len(ranked) - 1, BEST if score.spread == "places" else 1)
    found: dict[str, int] = {}
    before: Nano | None = None
    given = 0
    for place, name in enumerate(ranked):
        value = goodness[name]
        if value != before:
            before, given = value, _MOST - place * _MOST // steps
        found[name] = given
    return found


def _weighed(scores: Sequence[Score], parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """A metric that a node has no value of counts as its worst."""
    total = sum(score.weight for score in scores)
    sums: dict[str, int] = {}
    for score, part in zip(scores, parts, strict=True):
        for name, value in part.items():
            sums[name] = sums.get(name, 0) + score.weight * value
    return {name: value // total for name, value in sums.items()}
