"""Hints as the kubelet's providers give them, without listing them.

A hint is a mask of NUMA nodes on which a request could be served; a provider's list of hints has up to 2^N - 1 of
them. Here a list is held as what makes a mask a member: a family closed upwards (`Up`: enough CPUs, enough memory,
enough devices in the mask) and some masks that stand for themselves (a group of nodes that shares memory already).

Facts: generateCPUTopologyHints, calculateHints and GetTopologyHints in pkg/kubelet/cm/{cpumanager,memorymanager,
devicemanager} of Kubernetes 1.36; the project's account, chapters 6, 7 and 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, combinations
from typing import Protocol

from bayplan.idset import bits
from bayplan.policies.kubelet.subsets import Budget, best_subset

Weights = Sequence[int]
"""An amount for every node id, 0 where the node has none."""


class Sum:
    """The amounts of the chosen nodes must add up to `need`."""

    __slots__ = ("_known", "_order", "_tops", "need", "weights")

    def __init__(self, weights: Weights, need: int) -> None:
        self._known: dict[int, int] = {0: 0}
        self._order: list[tuple[int, int]] | None = None
        self.weights = weights
        self.need = need
        self._tops: dict[int, list[int] | None] = {}

    @property
    def _ranked(self) -> list[tuple[int, int]]:
        """The nodes that have something, most first, as (amount, mask of the one node)."""
        if self._order is None:
            self._order = sorted(((w, 1 << i) for i, w in enumerate(self.weights) if w), reverse=True)
        return self._order

    def total(self, mask: int) -> int:
        """What the nodes of a mask have together."""
        weights = self.weights
        total = 0
        while mask:
            low = mask & -mask
            total += weights[low.bit_length() - 1]
            mask ^= low
        return total

    def running_total(self, mask: int) -> int:
        """`total`, for searches that ask for a mask and then for it with a lower node added: each sum is kept."""
        known = self._known.get(mask)
        if known is None:
            low = mask & -mask
            known = self._known[mask] = self.running_total(mask ^ low) + self.weights[low.bit_length() - 1]
        return known

    def met(self, mask: int) -> bool:
        """Whether a mask has enough."""
        return self.total(mask) >= self.need

    def gains(self, chosen: int) -> list[float]:
        """By node, the share of the need that it would add to `chosen`."""
        short = self.need - self.total(chosen)
        return [min(weight, short) / self.need if short > 0 else 0.0 for weight in self.weights]

    def reachable(self, chosen: int, lower: int, count: int) -> bool:
        """Whether the `count` largest of `lower` would be enough beside `chosen`."""
        tops = self._tops.get(lower)
        if tops is None:
            if lower not in self._tops:  # most sets are asked about once: their sums are not worth keeping
                self._tops[lower] = None
                return self._least(lower, self.need - self.total(chosen)) <= count
            tops = list(accumulate([weight for weight, bit in self._ranked if bit & lower], initial=0))
            self._tops[lower] = tops
        return self.total(chosen) + tops[min(count, len(tops) - 1)] >= self.need

    def least(self, universe: int) -> int:
        """How many nodes it takes at least; more than there are if it cannot be met."""
        return self._least(universe, self.need)

    def _least(self, universe: int, need: int) -> int:
        count = 0
        if need <= 0:
            return 0
        for weight, bit in self._ranked:
            if bit & universe:
                need -= weight
                count += 1
                if need <= 0:
                    return count
        return len(self.weights) + 1


class Cover:
    """Enough things must touch the chosen nodes, where a thing may sit on several: (its nodes, how many such)."""

    __slots__ = ("_bound", "groups", "need")

    def __init__(self, groups: Sequence[tuple[int, int]], need: int, width: int) -> None:
        self.groups = groups
        self.need = need
        weights = [0] * width
        for nodes, count in groups:
            for i in bits(nodes):
                weights[i] += count
        self._bound = Sum(weights, need)

    def met(self, mask: int) -> bool:
        """Whether enough things touch a mask."""
        return sum(count for nodes, count in self.groups if nodes & mask) >= self.need

    def least(self, universe: int) -> int:
        """A bound, as `reachable`."""
        return self._bound.least(universe)

    def gains(self, chosen: int) -> list[float]:
        """By node, the share of the need that it would add to `chosen`."""
        open_groups = [(nodes, count) for nodes, count in self.groups if not nodes & chosen]
        short = self.need - sum(count for nodes, count in self.groups if nodes & chosen)
        added = [0] * len(self._bound.weights)
        for nodes, count in open_groups if short > 0 else ():
            for i in bits(nodes):
                added[i] += count
        return [min(amount, short) / self.need if amount else 0.0 for amount in added]

    def signature(self, node: int) -> int:
        """Which groups a node belongs to, as a mask of their positions."""
        return sum(1 << k for k, (nodes, _) in enumerate(self.groups) if nodes >> node & 1)

    def reachable(self, chosen: int, lower: int, count: int) -> bool:
        """A bound that counts a thing once for each of its nodes."""
        return self._bound.reachable(chosen, lower, count)


class Up:
    """All masks within `universe` that hold `must`, touch every mask of `touches` and meet every condition."""

    __slots__ = ("_grown", "conditions", "must", "touches", "universe")

    def __init__(
        self, universe: int, conditions: Sequence[Sum | Cover], must: int = 0, touches: Sequence[int] = ()
    ) -> None:
        self.universe = universe
        self.conditions = conditions
        self.must = must
        self.touches = touches
        self._grown: int | None = None

    def accepts(self, mask: int) -> bool:
        """Membership of one mask."""
        if mask & ~self.universe or self.must & ~mask or not mask:
            return False
        for touch in self.touches:
            if not touch & mask:
                return False
        return all(condition.met(mask) for condition in self.conditions)

    def possible(self, chosen: int, lower: int, count: int) -> bool:
        """See `subsets.Condition`."""
        for touch in self.touches:
            if not touch & (chosen | lower):
                return False
        return all(condition.reachable(chosen, lower, count) for condition in self.conditions)

    def joined(self, other: Up) -> Up:
        """Masks that are members of both."""
        return Up(
            self.universe & other.universe,
            [*self.conditions, *other.conditions],
            self.must | other.must,
            [*self.touches, *other.touches],
        )

    def smallest(self, size: int) -> int | None:
        """The smallest member of a size; where that takes too long to find, a good one."""
        return best_subset(self.universe, self.must, size, self)

    def narrowest(self) -> int | None:
        """The size of the smallest members; None if there are none. Where that takes too long to find, a good one's."""
        if not self.accepts(self.universe):
            return None
        least = max(1, self.must.bit_count(), *(condition.least(self.universe) for condition in self.conditions))
        if not self.must and not self.touches and len(self.conditions) == 1 and isinstance(self.conditions[0], Sum):
            return least
        enough = self._grow().bit_count()
        budget = Budget(self.universe.bit_count())
        for k in range(least, enough):
            if best_subset(self.universe, self.must, k, self, budget=budget) is not None:
                return k
        return enough

    def some(self, size: int) -> int | None:
        """See `subsets.Condition`: nodes that add most are taken first."""
        if not self.accepts(self.universe):
            return None
        mask = self._grow()
        missing = size - mask.bit_count()
        spare = list(bits(self.universe & ~mask))
        if not 0 <= missing <= len(spare):
            return None
        for i in spare[:missing]:
            mask |= 1 << i
        return mask

    def _grow(self) -> int:
        """A member, not larger than has to be as far as greed can tell. There must be one."""
        if self._grown is not None:
            return self._grown
        chosen = self.must
        while not self.accepts(chosen):
            gains = [condition.gains(chosen) for condition in self.conditions]
            touches = [touch for touch in self.touches if not touch & chosen]

            def gain(
                node: int, gains: Sequence[Sequence[float]] = gains, touches: Sequence[int] = touches
            ) -> tuple[float, int]:
                return sum(g[node] for g in gains) + sum(touch >> node & 1 for touch in touches), -node

            chosen |= 1 << max(bits(self.universe & ~chosen), key=gain)
        self._grown = chosen
        return chosen


class AlsoPreferred(Protocol):
    """A second way for a hint to be preferred (`align-by-socket`)."""

    def met(self, mask: int) -> bool:
        """Whether a mask is preferred by this rule."""

    def possible(self, chosen: int) -> bool:
        """Whether some larger mask than `chosen` might be."""


class Hints:
    """One provider's list for one kind of resource: `fixed` masks and those of `up`.

    A mask is preferred when it has `preferred_size` nodes, or when `also` (if given) says so. An empty list means
    that nothing would do, and is not the same as having no list (`NoPreference`).
    """

    def __init__(
        self,
        up: Up | None,
        fixed: Sequence[int] = (),
        *,
        preferred_size: int,
        also: AlsoPreferred | None = None,
    ) -> None:
        self.up = up if up is not None and up.accepts(up.universe) else None
        self.fixed = tuple(fixed)
        self.preferred_size = preferred_size
        self._also = also

    @cached_property
    def empty(self) -> bool:
        """Whether no mask at all is a hint."""
        return self.up is None and not self.fixed

    @cached_property
    def narrowest(self) -> int:
        """The size of the narrowest hint, preferred or not; 0 for an empty list."""
        sizes = [mask.bit_count() for mask in self.fixed]
        of_up = self.up.narrowest() if self.up is not None else None
        return min([*sizes, *([] if of_up is None else [of_up])], default=0)

    @property
    def reach(self) -> int:
        """All nodes that some hint may have."""
        return (self.up.universe if self.up is not None else 0) | _union(self.fixed)

    def holds(self, mask: int) -> bool:
        """Whether a mask is a hint."""
        return mask in self.fixed or (self.up is not None and self.up.accepts(mask))

    def prefers(self, mask: int) -> bool:
        """Whether a mask, being a hint, is preferred."""
        return mask.bit_count() == self.preferred_size or (self._also is not None and self._also.met(mask))

    def may_prefer(self, chosen: int, size: int) -> bool:
        """Whether a hint of `size` nodes, `chosen` among them, might be preferred."""
        return size == self.preferred_size or (self._also is not None and self._also.possible(chosen))

    @property
    def preferred_sizes(self) -> set[int]:
        """Sizes that preferred hints can have."""
        if self._also is None:
            return {self.preferred_size}
        return set(range(1, self.reach.bit_count() + 1))

    def only_single_preferred(self) -> Hints:
        """What single-numa-node leaves of the list: preferred hints of one node."""
        nodes = (self.up.universe if self.up is not None else 0) | _union(m for m in self.fixed if m.bit_count() == 1)
        return Listed([(1 << i, True) for i in bits(nodes) if self.holds(1 << i) and self.prefers(1 << i)])

    @property
    def steps_to_list(self) -> int:
        """How many masks `listed` looks at, which is an upper bound of how many there are in it."""
        return len(self.fixed) if self.up is None else 1 << self.reach.bit_count()

    def listed(self) -> list[tuple[int, bool]]:
        """All hints, smallest sets first and then by the positions of their nodes, as the kubelet lists them.

        Exponential in the nodes of `up` (see `steps_to_list`): for where the kubelet's own walk matters, and for tests.
        """
        if self.up is None:
            return [(mask, self.prefers(mask)) for mask in sorted(set(self.fixed), key=_in_size_and_place)]
        nodes = list(bits(self.reach))
        masks = (_union(1 << i for i in chosen) for k in range(1, len(nodes) + 1) for chosen in combinations(nodes, k))
        return [(mask, self.prefers(mask)) for mask in masks if self.holds(mask)]


class Listed(Hints):
    """A list written out: (mask, preferred)."""

    def __init__(self, hints: Sequence[tuple[int, bool]]) -> None:
        self._preferred = {mask for mask, preferred in hints if preferred}
        super().__init__(None, tuple(dict.fromkeys(mask for mask, _ in hints)), preferred_size=0)

    def prefers(self, mask: int) -> bool:
        """See `Hints.prefers`."""
        return mask in self._preferred

    @property
    def preferred_sizes(self) -> set[int]:
        """See `Hints.preferred_sizes`."""
        return {mask.bit_count() for mask in self._preferred}

    def may_prefer(self, chosen: int, size: int) -> bool:
        """See `Hints.may_prefer`."""
        return True

    def listed(self) -> list[tuple[int, bool]]:
        """See `Hints.listed`; in the order given."""
        return [(mask, mask in self._preferred) for mask in self.fixed]


class NoPreference:
    """No list: any node will do. `preferred` False stands for an empty list, with which nothing is ever preferred."""

    __slots__ = ("preferred",)

    def __init__(self, preferred: bool) -> None:
        self.preferred = preferred


def _in_size_and_place(mask: int) -> tuple[int, tuple[int, ...]]:
    return mask.bit_count(), tuple(bits(mask))


def _union(masks: Iterator[int] | Sequence[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union
