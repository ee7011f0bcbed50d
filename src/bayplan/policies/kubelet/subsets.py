"""The best set of k nodes: smallest as an integer, or closest together, among those that a condition allows.

The kubelet finds it by walking all 2^N masks. Here nodes are decided from the highest down, leaving a node out first,
so that the first set that is reached is the smallest; a branch is left as soon as no completion of it can do. With
distances, branches that cannot come closer than the best one known are left as well.

Several conditions at once make a packing problem of it, and the closest set a quadratic one. Where a `Budget` of
branches is used up (only on machines of far more nodes than a kubelet survives) the best set found so far is taken, or
one that the condition can name without a search.

Pure search, no notion of CPUs or memory: `Condition` brings that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from operator import add
from typing import Protocol

from bayplan.idset import bits

Distances = Sequence[Sequence[int]]
"""Row and column are node ids."""

BRUTE_FORCE = 3_000
WALKABLE = 16
"""Up to so many nodes the search is as good as complete."""

GREEDY_STARTS = 8


class Budget:
    """How many branches a search, or several that belong together, may still look at."""

    __slots__ = ("left",)

    def __init__(self, nodes: int) -> None:
        self.left = 50_000 if nodes <= WALKABLE else 10_000

    def spend(self, cost: int = 1) -> bool:
        """Whether another branch may be looked at."""
        self.left -= cost
        return self.left >= 0


class Condition(Protocol):
    """What a set must meet. Larger sets never do worse as far as `possible` can tell."""

    def accepts(self, mask: int) -> bool:
        """Whether the set serves."""

    def possible(self, chosen: int, lower: int, count: int) -> bool:
        """Whether adding some `count` nodes of `lower` to `chosen` might serve; True when in doubt."""

    def some(self, size: int) -> int | None:
        """A set of this size that serves, if one is known without a search."""


def best_subset(
    universe: int,
    must: int,
    size: int,
    condition: Condition,
    distances: Distances | None = None,
    budget: Budget | None = None,
) -> int | None:
    """The best set of `size` nodes of `universe` with all of `must`, or None.

    Without distances: the smallest integer. With: the smallest sum of distances over all ordered pairs (the kubelet
    compares averages over size squared, which is the same order), then the smallest integer.
    """
    wanted = size - must.bit_count()
    if must & ~universe or wanted < 0:
        return None
    optional = list(bits(universe & ~must))
    if wanted > len(optional):
        return None
    if wanted == 0:
        return must if condition.accepts(must) else None
    budget = budget or Budget(universe.bit_count())
    if distances is not None and size > 1:
        return _closest(optional, must, wanted, condition, distances, budget)
    if distances is not None:
        order = sorted(optional, key=lambda i: (distances[i][i], i))
        return next((1 << i for i in order if condition.accepts(1 << i)), None)
    lowest = must
    for i in optional[:wanted]:
        lowest |= 1 << i
    if condition.accepts(lowest):
        return lowest
    if wanted == 1:
        return next((must | 1 << i for i in optional[1:] if condition.accepts(must | 1 << i)), None)
    found = _Smallest(optional, condition, budget).descend(len(optional), must, wanted)
    return condition.some(size) if found is None and budget.left < 0 else found


def _prefixes(optional: Sequence[int]) -> list[int]:
    """Masks of the lowest 0, 1, 2, ... optional nodes."""
    masks = [0]
    for i in optional:
        masks.append(masks[-1] | 1 << i)
    return masks


class _Smallest:
    """Depth-first search for the smallest integer."""

    def __init__(self, optional: Sequence[int], condition: Condition, budget: Budget) -> None:
        self._optional = optional
        self._prefixes = _prefixes(optional)
        self._condition = condition
        self._budget = budget

    def descend(self, left: int, chosen: int, wanted: int) -> int | None:
        if not self._budget.spend():
            return None
        if wanted == 0:
            return chosen if self._condition.accepts(chosen) else None
        if left < wanted or not self._condition.possible(chosen, self._prefixes[left], wanted):
            return None
        without = self.descend(left - 1, chosen, wanted)
        if without is not None:
            return without
        return self.descend(left - 1, chosen | 1 << self._optional[left - 1], wanted - 1)


def _closest(
    optional: Sequence[int], must: int, wanted: int, condition: Condition, distances: Distances, budget: Budget
) -> int | None:
    if len(optional) <= WALKABLE and math.comb(len(optional), wanted) <= BRUTE_FORCE:
        return _closest_of_all(optional, must, wanted, condition, distances)
    return _Closest(optional, must, wanted, condition, distances, budget).run()


def _closest_of_all(
    optional: Sequence[int], must: int, wanted: int, condition: Condition, distances: Distances
) -> int | None:
    ranked = []
    for extra in combinations(optional, wanted):
        mask = must
        for i in extra:
            mask |= 1 << i
        ranked.append((total_distance(mask, distances), mask))
    ranked.sort()
    return next((mask for _, mask in ranked if condition.accepts(mask)), None)


def total_distance(mask: int, distances: Distances) -> int:
    """Sum of distances over all ordered pairs, each node with itself included."""
    members = list(bits(mask))
    return sum(row[j] for row in (distances[i] for i in members) for j in members)


class _Closest:
    """Branch and bound over sets of nodes by total distance."""

    def __init__(
        self,
        optional: Sequence[int],
        must: int,
        wanted: int,
        condition: Condition,
        distances: Distances,
        budget: Budget,
    ) -> None:
        self._budget = budget
        # With many nodes a branch is a matter of all their distances.
        self._cost = 1 if len(optional) <= WALKABLE else 4
        self._optional = optional
        self._prefixes = _prefixes(optional)
        self._must = must
        self._wanted = wanted
        self._condition = condition
        self._d = distances
        self._best: tuple[int, int] | None = None
        # Row k: for each optional node the sum of its k smallest distances to others.
        near = [_running(sorted(distances[x][y] for y in optional if y != x)) for x in optional]
        self._near: list[tuple[int, ...]] = list(zip(*near, strict=True))
        self._pairs = [[distances[x][y] + distances[y][x] for y in optional] for x in optional]

    def run(self) -> int | None:
        start = [self._d[x][x] + sum(self._d[x][y] + self._d[y][x] for y in bits(self._must)) for x in self._optional]
        if self._budget.left >= 0:
            self._greedy()
        self._descend(len(self._optional), self._must, self._wanted, total_distance(self._must, self._d), start)
        if self._best is None and self._budget.left < 0:
            return self._condition.some(self._must.bit_count() + self._wanted)
        return None if self._best is None else self._best[1]

    def _greedy(self) -> None:
        """A good first answer: grow from each node, or from some of many, by the nearest one."""
        count = len(self._optional)
        for first in range(0, count, 1 if count <= WALKABLE else -(-count // GREEDY_STARTS)):
            self._budget.left -= self._wanted if count > WALKABLE else 0
            gain: list[float] = [0] * count
            mask, grown = self._must, first
            for _ in range(self._wanted):
                mask |= 1 << self._optional[grown]
                gain[grown] = math.inf
                gain = list(map(add, gain, self._pairs[grown]))
                grown = gain.index(min(gain))
            self._offer(mask)

    def _offer(self, mask: int) -> None:
        rank = (total_distance(mask, self._d), mask)
        if (self._best is None or rank < self._best) and self._condition.accepts(mask):
            self._best = rank

    def _descend(self, left: int, chosen: int, wanted: int, so_far: int, gain: list[int]) -> None:
        """`gain[i]` is what optional node i would add to the total beside the nodes chosen."""
        if wanted == 0:
            self._offer(chosen)
            return
        if not self._budget.spend(self._cost):
            return
        if left < wanted or not self._worth(left, chosen, wanted, so_far, gain):
            return
        if not self._condition.possible(chosen, self._prefixes[left], wanted):
            return
        self._descend(left - 1, chosen, wanted, so_far, gain)
        node = self._optional[left - 1]
        grown = list(map(add, gain[: left - 1], self._pairs[left - 1]))
        self._descend(left - 1, chosen | 1 << node, wanted - 1, so_far + gain[left - 1], grown)

    def _worth(self, left: int, chosen: int, wanted: int, so_far: int, gain: list[int]) -> bool:
        if self._best is None:
            return True
        costs = sorted(map(add, gain[:left], self._near[wanted - 1]))
        bound: int = so_far + sum(costs[:wanted])
        if bound != self._best[0]:
            return bound < self._best[0]
        # An equally close set helps only if it is the smaller integer: the highest bits are settled already.
        top = self._prefixes[left]
        return chosen & ~top <= self._best[1] & ~top


def _running(values: Sequence[int]) -> list[int]:
    """Sums of the first 0, 1, 2, ... values."""
    totals = [0]
    for value in values:
        totals.append(totals[-1] + value)
    return totals
