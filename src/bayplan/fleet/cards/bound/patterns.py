"""Share patterns: how many parts of each size are cut from one card, and which pattern earns most at given prices.

There are too many to list once sizes are many (a card in parts of hundreds of sizes), so they are found when they are
worth it: the best pattern at given prices is a knapsack of 1000 milli, solved exactly by dynamic programming.
"""

from __future__ import annotations

import math

import numpy as np

from bayplan.fleet.cards.model import WHOLE
from bayplan.fleet.cards.state import Floats, Ints

Pattern = tuple[int, ...]
"""By size, how many parts of it."""


def first_patterns(sizes: Ints) -> list[Pattern]:
    """One for each size: as many parts of it as a card has, what is left filled with the largest that fit."""
    return sorted({filled(sizes, [0] * i + [WHOLE // size]) for i, size in enumerate(sizes.tolist())})


def filled(sizes: Ints, begun: list[int]) -> Pattern:
    """A pattern that begins so (sizes left out: none) made maximal: the largest sizes that still fit are put in."""
    parts = begun + [0] * (len(sizes) - len(begun))
    left = WHOLE - sum(count * size for count, size in zip(parts, sizes.tolist(), strict=True))
    for i in range(len(sizes) - 1, -1, -1):
        more, left = divmod(left, int(sizes[i]))
        parts[i] += more
    return tuple(parts)


def best_patterns(sizes: Ints, values: Floats) -> tuple[Floats, list[Pattern]]:
    """For each row of `values` (K, S; what a part of each size earns, not negative): the most that a card can earn,
    and a pattern that earns it."""
    unit = math.gcd(WHOLE, *sizes.tolist())
    steps = sizes // unit
    rows, room = len(values), WHOLE // unit
    earned: Floats = np.zeros((room + 1, rows))
    last: Ints = np.full((room + 1, rows), -1, np.int64)
    for left in range(1, room + 1):
        fitting = int(np.searchsorted(steps, left, side="right"))
        earned[left] = earned[left - 1]
        if not fitting:
            continue
        with_part = earned[left - steps[:fitting]] + values[:, :fitting].T
        part = with_part.argmax(axis=0)
        most = with_part[part, np.arange(rows)]
        better = most > earned[left]
        earned[left] = np.where(better, most, earned[left])
        last[left] = np.where(better, part, -1)
    return earned[room], [filled(sizes, _parts(last[:, row], steps)) for row in range(rows)]


def _parts(last: Ints, steps: Ints) -> list[int]:
    """Walk back from a whole card: which part was put in last, at each room; -1: none, a step stays empty."""
    parts, left = [0] * len(steps), len(last) - 1
    while left > 0:
        part = int(last[left])
        if part < 0:
            left -= 1
        else:
            parts[part] += 1
            left -= int(steps[part])
    return parts
