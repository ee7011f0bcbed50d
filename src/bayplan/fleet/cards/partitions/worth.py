"""What is left of a card is worth: exact tables over all that can be taken of it, each entry worked out once.

The worth is, for each profile, the most instances that could still be made, times the slices of one, times how often it
is asked for (the mix; where none is known, all profiles alike). The most instances are found exactly. The states of a
card of eight slices are a few hundred, so this is no more than a look-up after the first time.

Of placements that lose equally much worth, the card with the least left is taken, so that others stay whole; then the
position that keeps the largest profile possible, then most positions. That order served most in replays of random mixes
with departures (`benchmarks/partitions.py`); keeping the largest profile first, over many cards, served less than the
lowest position that is free. Whole numbers only: the same on any machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.errors import InputError
from bayplan.fleet.cards.partitions.layout import Layout, Occupancy, largest_fit, starts, taken_with

Loss = tuple[int, int, int, int]
"""By importance: worth lost, memory slices left on the card before, ranks of the largest fit lost, positions lost."""
NOTHING_LOST: Loss = (0, 0, 0, 0)
LARGEST_WEIGHT = 10**9


class Worth:
    """The worth of what is left of a layout's cards. Raises `InputError` for a mix that names no profile of it."""

    def __init__(self, layout: Layout, mix: Mapping[str, int] | None = None) -> None:
        self.layout = layout
        self._weights = _weights(layout, mix or dict.fromkeys(layout.by_name, 1))
        self._known: dict[Occupancy, tuple[int, int, int]] = {}
        self._most: dict[tuple[Occupancy, int], int] = {}
        ranks = sorted({profile.size for profile in layout.profiles})
        self._rank = [ranks.index(profile.size) + 1 for profile in layout.profiles]

    def left(self, taken: Occupancy) -> tuple[int, int, int]:
        """The worth of what is left, the rank of the largest profile that fits (0: none), and positions left."""
        known = self._known.get(taken)
        if known is None:
            known = self._known[taken] = self._worked_out(taken)
        return known

    def loss(self, taken: Occupancy, profile: int, start: int) -> Loss:
        """What an instance there would lose."""
        before, after = self.left(taken), self.left(taken_with(self.layout, taken, profile, start))
        free = self.layout.memory - taken.mask.bit_count()
        return before[0] - after[0], free, before[1] - after[1], before[2] - after[2]

    def best(self, taken: Occupancy, profile: int) -> tuple[Loss, int] | None:
        """The position that loses least, the lowest of several, with its loss; None: the profile does not fit."""
        options = [(self.loss(taken, profile, start), start) for start in starts(self.layout, taken, profile)]
        return min(options, default=None)

    def most(self, taken: Occupancy, profile: int) -> int:
        """The most instances of one profile that could still be made."""
        key = (taken, profile)
        known = self._most.get(key)
        if known is None:
            after = [taken_with(self.layout, taken, profile, start) for start in starts(self.layout, taken, profile)]
            known = self._most[key] = max((1 + self.most(each, profile) for each in after), default=0)
        return known

    def _worked_out(self, taken: Occupancy) -> tuple[int, int, int]:
        largest = largest_fit(self.layout, taken)
        wanted = sum(weight * self.most(taken, i) for i, weight in self._weights.items())
        positions = sum(len([*starts(self.layout, taken, i)]) for i in range(len(self.layout.profiles)))
        return wanted, 0 if largest is None else self._rank[largest], positions


def _weights(layout: Layout, mix: Mapping[str, int]) -> dict[int, int]:
    weights = {}
    for name, count in mix.items():
        if name not in layout.by_name:
            raise InputError("no such profile", source=layout.name, value=name, expected=" or ".join(layout.by_name))
        if not 0 <= count <= LARGEST_WEIGHT:
            raise InputError("out of range", source=layout.name, place=name, value=count, expected="0 or more")
        position = layout.by_name[name]
        profile = layout.profiles[position]
        weights[position] = count * (profile.memory + profile.compute)
    return {position: weight for position, weight in weights.items() if weight}
