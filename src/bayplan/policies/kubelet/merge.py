"""The Topology manager's merge: one mask of NUMA nodes out of all providers' lists.

The kubelet walks the product of all lists. The result needs no walk: preferred hints are common members of one size,
found by `subsets`; otherwise the best mask of the size that the pickiest list can do with, among those that `reach`
shows to come out. Same answers: the tests compare with a walk.

Facts: pkg/kubelet/cm/topologymanager/policy.go and bitmask.go of Kubernetes 1.36; the project's account, chapter 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bayplan.policies.kubelet.hints import Hints, NoPreference, Up
from bayplan.policies.kubelet.reach import Reach
from bayplan.policies.kubelet.subsets import Budget, Distances, best_subset, total_distance


class Merged(NamedTuple):
    """The merged hint: a mask of nodes (None: no affinity) and whether it is preferred."""

    nodes: int | None
    preferred: bool


Lists = Sequence[Hints | NoPreference]


def merge(lists: Lists, full: int, distances: Distances | None = None) -> Merged:
    """The best hint over all ways to choose one of each list. With `distances`, closer beats a smaller integer."""
    hints = [entry for entry in lists if isinstance(entry, Hints)]
    willing = all(entry.preferred for entry in lists if isinstance(entry, NoPreference))
    if not hints:
        return Merged(full, willing)
    if any(entry.empty for entry in hints):
        return Merged(full, False)
    if willing:
        mask = best_preferred(_distinct(hints), distances)
        if mask is not None:
            return Merged(mask, True)
    mask = _best_other(hints, full, distances)
    return Merged(full, False) if mask is None else Merged(mask, False)


def merge_single_node(lists: Lists, full: int) -> Merged:
    """The merge of policy single-numa-node, which looks at preferred hints of one node only."""
    kept: list[Hints | NoPreference] = [
        entry.only_single_preferred() if isinstance(entry, Hints) else entry for entry in lists
    ]
    if any(isinstance(entry, NoPreference) and not entry.preferred for entry in kept):
        return Merged(None, False)
    merged = merge(kept, full)
    return Merged(None, merged.preferred) if merged.nodes == full else merged


def best_preferred(hints: Sequence[Hints], distances: Distances | None = None) -> int | None:
    """The best mask that is a preferred hint in every list."""
    condition = _AllPrefer(hints)
    sizes = set.intersection(*(entry.preferred_sizes for entry in hints))
    budget = Budget(max(entry.reach.bit_count() for entry in hints))
    for size in sorted(sizes):
        found = [m for entry in hints for m in entry.fixed if m.bit_count() == size and condition.accepts(m)]
        if condition.up is not None:
            of_up = best_subset(condition.up.universe, condition.up.must, size, condition, distances, budget)
            if of_up is not None:
                found.append(of_up)
        if found:
            return _best(found, distances)
    return None


class _AllPrefer:
    """Condition that a mask is a preferred hint of every list."""

    def __init__(self, hints: Sequence[Hints]) -> None:
        self._hints = hints
        self.up: Up | None = None
        ups = [entry.up for entry in hints]
        if None not in ups:
            for up in ups:
                assert up is not None
                self.up = up if self.up is None else self.up.joined(up)

    def accepts(self, mask: int) -> bool:
        return all(entry.holds(mask) and entry.prefers(mask) for entry in self._hints)

    def possible(self, chosen: int, lower: int, count: int) -> bool:
        size = chosen.bit_count() + count
        return (
            self.up is not None
            and self.up.possible(chosen, lower, count)
            and all(entry.may_prefer(chosen, size) for entry in self._hints)
        )

    def some(self, size: int) -> int | None:
        mask = self.up.some(size) if self.up is not None else None
        return mask if mask is not None and self.accepts(mask) else None


def _best_other(hints: Sequence[Hints], full: int, distances: Distances | None) -> int | None:
    target = max(entry.narrowest for entry in hints)
    alone, shared = _starts(hints, full)
    budget = Budget(full.bit_count())
    for size in [*range(target, 0, -1), *range(target + 1, full.bit_count() + 1)]:
        found = [mask for mask in alone if mask.bit_count() == size]
        for reach in shared:
            mask = best_subset(reach.nodes, 0, size, reach, distances, budget)
            if mask is not None:
                found.append(mask)
        if found:
            return _best(found, distances)
    return None


def _starts(hints: Sequence[Hints], full: int) -> tuple[set[int], list[Reach]]:
    """Every way to take from some lists a mask that stands for itself: alone, or with members of the others' `up`."""
    states: set[tuple[int, tuple[int, ...]]] = {(full, ())}
    for number, entry in enumerate(hints):
        grown = {(mask & fixed, ups) for mask, ups in states for fixed in entry.fixed if mask & fixed}
        if entry.up is not None:
            grown |= {(mask, (*ups, number)) for mask, ups in states if mask & entry.up.universe}
        states = grown
    alone = {mask for mask, ups in states if not ups}
    distinct: dict[tuple[int, tuple[int, ...]], Reach] = {}
    for mask, ups in sorted(states):
        if ups:
            # The same list can stand there several times (one for each type of memory): which of them does not matter.
            key = (mask, tuple(sorted(id(hints[n].up) for n in ups)))
            distinct.setdefault(key, Reach(mask, [up for n in ups if (up := hints[n].up) is not None]))
    return alone, list(distinct.values())


def _best(masks: Iterable[int], distances: Distances | None) -> int:
    if distances is None:
        return min(masks)
    return min(masks, key=lambda mask: (total_distance(mask, distances), mask))


def _distinct(hints: Sequence[Hints]) -> list[Hints]:
    return list({id(entry): entry for entry in hints}.values())
