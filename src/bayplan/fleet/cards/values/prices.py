"""What the fleet would earn for one pod of each kind, learnt from how much room there is for it.

The prices are those of the dual of a fluid packing problem. `step` compares, kind by kind, the supply (how many pods of
the kind the idle cards could be expected to take up) with the demand (what is still to come, if the idle cards are to
be filled): what there is much room for gets cheaper, what is short of room dearer, never above its face value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import WHOLE
from bayplan.fleet.cards.state import CardFleet, Floats
from bayplan.fleet.cards.values import exact
from bayplan.fleet.cards.values.constants import Constants
from bayplan.fleet.cards.values.kinds import PricedKinds
from bayplan.fleet.cards.values.leftovers import Leftovers, Profits, profits
from bayplan.fleet.cards.values.node_values import NodeValues, ValueRows, value_rows
from bayplan.fleet.cards.values.whole_cards import WholeCards, Worth


class Tables(NamedTuple):
    """What leftovers and idle cards are worth at present, by card table, CPU price and amount (GPUs)."""

    found: Profits
    raised: Floats
    worth: Worth
    values: ValueRows


class Prices:
    """Prices of the `kinds` of one mix, by kind in GPUs (`of_kind`), and the `tables` that follow from them.

    A kind starts at its price in `known`, see `_from`. `table_of_node` (N): the card table of each node.
    """

    def __init__(
        self,
        kinds: PricedKinds,
        fleet: CardFleet,
        cpu_prices: Floats,
        constants: Constants,
        known: Mapping[PodKind, float],
    ) -> None:
        self._constants = constants
        self._cpu_prices = cpu_prices
        self._leftovers = Leftovers(kinds)
        self._whole = WholeCards(kinds, fleet.left.shape[1])
        self.kinds = kinds
        self._known = frozenset(kinds.kinds)
        self._all_gpus = fleet.capacity_milli / WHOLE
        share = kinds.share[kinds.single]
        self._weights: Floats = (1 - constants.stop) * share / max(float(share.sum()), 1e-300)
        self.table_of_node = kinds.table_of_model[fleet.model]
        self.of_kind = self._from(known)
        self.tables = self._tabled()

    def step(self, nodes: NodeValues, idle_gpus: float) -> None:
        """One step of all prices; `nodes` are valued at the present tables, `idle_gpus` what is free of all cards."""
        kinds, constants = self.kinds, self._constants
        if not kinds.known:
            return
        supply = self._supply(nodes)
        demand = self.horizon(idle_gpus) * kinds.share
        several = kinds.cards > 1
        own_supply, own_demand = supply.copy(), demand.copy()
        for number in np.unique(kinds.cards[several]):
            of_number = kinds.cards == number
            own_supply[of_number] = supply[of_number].sum()
            own_demand[of_number] = demand[of_number].sum()
        group_supply = self._of_group(supply * kinds.gpus)
        group_demand = self._of_group(demand * kinds.gpus)
        excess = _excess(own_supply, own_demand) + constants.group_weight * _excess(group_supply, group_demand)
        moved = self.of_kind * exact.exp(-self._rate(idle_gpus) * np.clip(excess, -1, 1))
        self.of_kind = np.clip(moved, constants.floor * kinds.gpus, kinds.gpus)
        self.tables = self._tabled()

    def horizon(self, idle_gpus: float) -> float:
        """How many pods are still to come, if what comes is to fill what is idle."""
        return (1 + self._constants.reserve) * idle_gpus / self.kinds.mean_gpus if self.kinds.known else 0.0

    def knows(self, kind: PodKind) -> bool:
        """Whether the kind has a price."""
        return kind in self._known

    def by_kind(self) -> dict[PodKind, float]:
        """The price of each kind, in GPUs."""
        return dict(zip(self.kinds.kinds, self.of_kind.tolist(), strict=True))

    def _rate(self, idle_gpus: float) -> float:
        """How far prices move: the less is idle, the sooner they have to be right."""
        filled = np.array([self._all_gpus / max(idle_gpus, 1.0)])
        haste = float(exact.exp(self._constants.haste * exact.log(np.maximum(filled, 1.0)))[0])
        return self._constants.rate * min(haste, self._constants.most_haste)

    def _from(self, known: Mapping[PodKind, float]) -> Floats:
        """Prices of kinds; one that is new starts as far below its face value as those that name the same models.

        Where none of these is known, at its face value.
        """
        kinds = self.kinds
        prices = np.array([known.get(kind, np.nan) for kind in kinds.kinds], np.float64)
        new = np.isnan(prices)
        face = kinds.share * kinds.gpus
        priced = np.bincount(kinds.group, np.where(new, 0.0, kinds.share * prices), kinds.groups)
        faced = np.bincount(kinds.group, np.where(new, 0.0, face), kinds.groups)
        part = np.where(faced > 0, priced / np.maximum(faced, 1e-300), 1.0)
        return np.where(new, kinds.gpus * part[kinds.group], prices)

    def _of_group(self, amounts: Floats) -> Floats:
        """By kind, the sum over all kinds that name the same models."""
        sums: Floats = np.bincount(self.kinds.group, amounts, self.kinds.groups).astype(np.float64)
        return sums[self.kinds.group]

    def _supply(self, nodes: NodeValues) -> Floats:
        """By kind, how many pods the idle cards can be expected to take up."""
        held, idle = nodes.held(self.table_of_node, len(self.kinds.admitted))
        tables = self.tables
        singles, taken = self._whole.supply(tables.worth, idle)
        held[:, :, -1] += singles
        taken[self.kinds.single] += self._leftovers.supply(tables.found, tables.raised, held)
        return taken

    def _tabled(self) -> Tables:
        constants = self._constants
        profit = self.of_kind - self._cpu_prices[:, None] * self.kinds.cpu
        found = profits(self.kinds, self._weights, profit[:, self.kinds.single], constants.softness)
        raised = self._leftovers.raised(found)
        single = constants.softness * exact.log(raised)
        worth = self._whole.worth(single[:, :, -1], profit, constants.softness)
        return Tables(found, raised, worth, value_rows(single, worth.values))


def _excess(supply: Floats, demand: Floats) -> Floats:
    return np.clip((supply + 1) / (demand + 1) - 1, -1, 1)
