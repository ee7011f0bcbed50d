"""How much of the idle cards cannot be used by the pods that a cluster typically gets, and why.

For one kind of pod, all that is idle on a node is fragmented if the pod cannot go there, and the cards too small for it
if it can; a node's fragmentation is the mean over the typical kinds, by their shares. Facts: the FGD paper (USENIX
ATC'23, section 4). Memory plays no role, and what is idle is no use to pods that ask for no card.

Shares are taken as whole multiples of 2**-40, so that sums are exact in whatever order they are made: two states
between which nothing changes differ by exactly 0, and a score cut down to a whole number is the same on any machine.

A node's fragmentation is what is idle less what is useful. A card of `left` milli is useful to the kinds that ask for
one card of at most that, idle cards to the kinds that ask for no more cards than there are; in both cases if the node's
model and CPU will do. So two small tables, by model, CPU and the part left or the count of idle cards, stand for all
kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayplan.fleet.cards.mix import PodKind, Typical
from bayplan.fleet.cards.model import WHOLE
from bayplan.fleet.cards.state import Bools, CardFleet, Floats, Ints

CAUSES: tuple[str, ...] = (
    "lacks-both",
    "lacks-cards",
    "satisfied",
    "lacks-cpu",
    "no-card-asked-fits",
    "no-card-asked-lacks-cpu",
    "no-access",
)
"""Where idle milli are booked, by kind of pod. `satisfied` alone is not fragmentation; the cards too small for a pod
that could go there count as `lacks-cards`."""
LACKS_BOTH, LACKS_CARDS, SATISFIED, LACKS_CPU, NO_CARD_FITS, NO_CARD_LACKS_CPU, NO_ACCESS = range(len(CAUSES))
SHARE_UNITS = 1 << 40
MOST_CELLS = 1 << 20
"""How many (node, kind, card) are looked at together, so that a large fleet needs no large memory."""


class Fragmentation:
    """The fragmentation of a fleet's nodes for a mix of pods whose shares add up to 1; without a mix there is none."""

    def __init__(self, fleet: CardFleet, typical: Sequence[Typical]) -> None:
        self._fleet = fleet
        self._kinds = _Kinds.of(fleet, typical)
        self._cpu_levels = np.unique(self._kinds.cpu_milli)
        self._part_levels = np.unique(self._kinds.milli)
        self._level_of_part = np.searchsorted(self._part_levels, np.arange(WHOLE + 1), "right")
        self._total = int(self._kinds.units.sum())
        self.units_per_milli = self._total or 1
        """What the whole numbers of `exact` and `exact_after` have to be divided by."""
        self._to_parts, self._to_idle = self._tables()

    def amounts(self, nodes: Ints) -> Floats:
        """Of these nodes as they are now, the fragmented milli (n)."""
        milli: Floats = self.exact(nodes) / self.units_per_milli
        return milli

    def exact(self, nodes: Ints) -> Ints:
        """The same in `units_per_milli` of a milli."""
        fleet = self._fleet
        left, idle = fleet.left[nodes], fleet.idle[nodes]
        row = self._row(nodes, fleet.cpu_free[nodes])
        units: Ints = self._total * left.sum(1) - self._useful(left, row) - WHOLE * idle * self._to_idle[row, idle]
        return units

    def exact_after(self, kind: PodKind, nodes: Ints) -> Ints:
        """What `exact` would be with such a pod there: by node and card that it takes a part of (n, G), else (n, 1).

        Means nothing for nodes and cards without room for it.
        """
        fleet = self._fleet
        row = self._row(nodes, fleet.cpu_free[nodes] - kind.cpu_milli)
        left, idle = fleet.left[nodes], fleet.idle[nodes]
        rest = self._total * (left.sum(1) - kind.total_milli) - self._useful(left, row)
        if not kind.is_shared:
            # What is taken are idle cards, and they are of no more use.
            idle = np.maximum(idle - kind.cards, 0)
            rest += WHOLE * (kind.cards * self._to_parts[row, -1] - idle * self._to_idle[row, idle])
            one: Ints = rest[:, None]
            return one
        smaller = np.maximum(left - kind.milli, 0)
        idle = np.maximum(idle[:, None] - (left == WHOLE), 0)
        row = row[:, None]
        usefulness_lost = left * self._of_parts(row, left) - smaller * self._of_parts(row, smaller)
        after: Ints = rest[:, None] + usefulness_lost - WHOLE * idle * self._to_idle[row, idle]
        return after

    def by_cause(self, nodes: Ints) -> Floats:
        """Of these nodes as they are now, the idle milli by `CAUSES` (n, 7), weighted by the shares of the kinds."""
        fleet = self._fleet
        return self._booked(fleet.model[nodes], fleet.cpu_free[nodes], fleet.left[nodes])

    def summed(self, nodes: Ints) -> Floats:
        """What `amounts` is, summed up in floating point by kind and by cause, as the FGD simulator does.

        The last bits are those of that simulator, and they count: see `literature.gradient`.
        """
        return _fragmented(self.by_cause(nodes))

    def summed_after(self, kind: PodKind, nodes: Ints, cards: Ints) -> Floats:
        """What `summed` would be with such a pod on each of these nodes, which have room (n).

        A pod of part of a card takes it from the card of `cards` (n), which says nothing for others.
        """
        fleet = self._fleet
        left = fleet.left[nodes]
        if kind.is_shared:
            left[np.arange(len(nodes)), cards] -= kind.milli
        else:
            idle = left == WHOLE
            left[idle & (idle.cumsum(1) <= kind.cards)] = 0
        return _fragmented(self._booked(fleet.model[nodes], fleet.cpu_free[nodes] - kind.cpu_milli, left))

    def lets_all_be(self, kind: PodKind, nodes: Ints) -> Bools:
        """On which of these nodes such a pod takes no card and leaves enough CPU to all kinds that had enough (n)."""
        if kind.cards:
            return np.zeros(len(nodes), np.bool_)
        cpu_free = self._fleet.cpu_free[nodes]
        same: Bools = self._row(nodes, cpu_free) == self._row(nodes, cpu_free - kind.cpu_milli)
        return same

    def _booked(self, model: Ints, cpu_free: Ints, left: Ints) -> Floats:
        """By node and cause, the milli of nodes in such a state: (n), (n) and (n, G) give (n, 7)."""
        booked = np.zeros((len(model), len(CAUSES)))
        step = max(1, MOST_CELLS // max(1, len(self._kinds.units) * left.shape[1]))
        for start in range(0, len(model), step):
            part = slice(start, start + step)
            booked[part] = self._kinds.booked(model[part], cpu_free[part], left[part])
        return booked

    def _row(self, nodes: Ints, cpu_free: Ints) -> Ints:
        """Where in the tables a node with so much CPU left stands."""
        level = np.searchsorted(self._cpu_levels, cpu_free, "right")
        row: Ints = self._fleet.model[nodes] * (len(self._cpu_levels) + 1) + level
        return row

    def _of_parts(self, row: Ints, left: Ints) -> Ints:
        """The units of the kinds to which a card with so much left is useful."""
        use: Ints = self._to_parts[row, self._level_of_part[left]]
        return use

    def _useful(self, left: Ints, row: Ints) -> Ints:
        """By node, what all its cards are worth to kinds that ask for one."""
        useful: Ints = (left * self._of_parts(row[:, None], left)).sum(1)
        return useful

    def _tables(self) -> tuple[Ints, Ints]:
        """The units of kinds of one card by (model and CPU, part left), of more by (model and CPU, idle cards)."""
        kinds = self._kinds
        models, cpus = len(self._fleet.models), len(self._cpu_levels) + 1
        parts = np.zeros((models, cpus, len(self._part_levels) + 1), np.int64)
        idle = np.zeros((models, cpus, self._fleet.left.shape[1] + 1), np.int64)
        for i in range(len(kinds.units)):
            cpu = int(np.searchsorted(self._cpu_levels, kinds.cpu_milli[i])) + 1
            part = int(np.searchsorted(self._part_levels, kinds.milli[i])) + 1
            units = int(kinds.units[i]) * kinds.allowed[:, i, None, None]
            if kinds.cards[i] == 1:
                parts[:, cpu:, part:] += units
            elif kinds.cards[i] > 1:
                idle[:, cpu:, kinds.cards[i] :] += units
        return parts.reshape(models * cpus, parts.shape[2]), idle.reshape(models * cpus, idle.shape[2])


def _fragmented(booked: Floats) -> Floats:
    """All but what is satisfied, from the first cause to the last, (n, 7) to (n)."""
    total = np.zeros(len(booked))
    for cause in range(len(CAUSES)):
        if cause != SATISFIED:
            total += booked[:, cause]
    return total


class _Kinds(NamedTuple):
    """The typical kinds as arrays (K), most frequent first, and which models will do (models, K)."""

    cpu_milli: Ints
    milli: Ints
    cards: Ints
    share: Floats
    units: Ints
    allowed: Bools

    @classmethod
    def of(cls, fleet: CardFleet, typical: Sequence[Typical]) -> _Kinds:
        kinds = [entry.kind for entry in typical]
        fits = [[not kind.models or model in kind.models for kind in kinds] for model in fleet.models]
        return cls(
            np.array([kind.cpu_milli for kind in kinds], np.int64),
            np.array([kind.milli for kind in kinds], np.int64),
            np.array([kind.cards for kind in kinds], np.int64),
            np.array([entry.share for entry in typical], np.float64),
            np.array([round(entry.share * SHARE_UNITS) for entry in typical], np.int64),
            np.array(fits, np.bool_).reshape(len(fleet.models), len(kinds)),
        )

    def booked(self, model: Ints, cpu_free: Ints, left: Ints) -> Floats:
        """See `Fragmentation.by_cause`. `bincount` adds one after the other: for a node, in the order of the kinds."""
        nodes = len(model)
        total = left.sum(1)[:, None]
        large = left[:, None, :] >= self.milli[:, None]
        too_small = np.where(large, 0, left[:, None, :]).sum(2)
        cause = self._causes(model, cpu_free, large.sum(2))
        satisfied = cause == SATISFIED
        place = np.where(satisfied, LACKS_CARDS, cause) + len(CAUSES) * np.arange(nodes)[:, None]
        milli = self.share * np.where(satisfied, too_small, total)
        sums: Floats = np.bincount(place.ravel(), milli.ravel(), minlength=nodes * len(CAUSES)).astype(np.float64)
        booked = sums.reshape(nodes, len(CAUSES))
        useful = self.share * np.where(satisfied, total - too_small, 0)
        node = np.repeat(np.arange(nodes), len(self.share))
        booked[:, SATISFIED] = np.bincount(node, useful.ravel(), minlength=nodes)
        return booked

    def _causes(self, model: Ints, cpu_free: Ints, large_cards: Ints) -> Ints:
        cpu = cpu_free[:, None] >= self.cpu_milli
        cards = large_cards >= self.cards
        cause = np.where(cards, np.where(cpu, SATISFIED, LACKS_CPU), np.where(cpu, LACKS_CARDS, LACKS_BOTH))
        cause = np.where(self.allowed[model], cause, NO_ACCESS)
        return np.where(self.cards == 0, np.where(cpu, NO_CARD_FITS, NO_CARD_LACKS_CPU), cause)
