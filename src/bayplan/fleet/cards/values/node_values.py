"""What each node is worth as it stands: its cards, at the CPU price that fits the node best.

    W(n) = min over CPU prices of [price x free vCPU + G(idle cards) + sum over partly used cards of v(leftover)].

The minimum is the dual of the node's own small packing problem: where CPU is short its price is high, and what needs
much CPU is worth little there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayplan.fleet.cards.model import WHOLE
from bayplan.fleet.cards.state import CardFleet, Floats, Ints
from bayplan.fleet.cards.values.kinds import STEP_MILLI, STEPS


class ValueRows(NamedTuple):
    """Values at each CPU price, one row (L) a thing: row 0 is nothing; then leftovers, then numbers of idle cards."""

    rows: Floats
    first_whole: int
    most: int

    def leftover(self, table: Ints, milli: Ints) -> Ints:
        """The row of a leftover of so many milli on a card of a table."""
        return 1 + table * (STEPS + 1) + milli // STEP_MILLI

    def idle(self, table: Ints, count: Ints) -> Ints:
        """The row of so many idle cards on a node of a table."""
        return self.first_whole + table * (self.most + 1) + count


def value_rows(single: Floats, whole: Floats) -> ValueRows:
    """From the values of leftovers (T, L, STEPS + 1) and of idle cards (T, L, F + 1)."""
    prices = single.shape[1]
    parts = [np.zeros((1, prices)), *(np.moveaxis(part, 2, 1).reshape(-1, prices) for part in (single, whole))]
    return ValueRows(np.concatenate(parts), 1 + single.shape[0] * (STEPS + 1), whole.shape[2] - 1)


class NodeValues:
    """By node (N) and CPU price (L): `base` (N, L), the bracket above; `value` (N) its minimum, `price` (N) where.

    `table` (N): the card table of each node; `prices` (L): GPUs per vCPU.
    """

    def __init__(self, fleet: CardFleet, prices: Floats) -> None:
        self._fleet = fleet
        self._prices = prices
        self._version = -1
        self._partial: Ints = np.zeros_like(fleet.left)
        self.base: Floats = np.zeros((len(fleet), len(prices)))
        self.value: Floats = np.zeros(len(fleet))
        self.price: Ints = np.zeros(len(fleet), np.int64)

    def renew(self, table: Ints, values: ValueRows, *, everything: bool) -> None:
        """Work out anew the nodes that changed, or all of them (`table` (N): the card table of each node)."""
        fleet = self._fleet
        changed = fleet.changed_since(self._version) if self._version >= 0 else np.arange(len(fleet))
        self._version = fleet.version
        left = fleet.left[changed]
        # Largest first, so that equal nodes add up in the same order, and so that zeros come last.
        self._partial[changed] = -np.sort(-np.where(left < WHOLE, left, 0), axis=1)
        nodes = np.arange(len(fleet)) if everything else changed
        if not nodes.size:
            return
        base = (
            fleet.cpu_free[nodes, None] / 1000 * self._prices
            + values.rows[values.idle(table[nodes], fleet.idle[nodes])]
        )
        partial = self._partial[nodes]
        for column in range(partial.shape[1]):
            having = np.flatnonzero(partial[:, column])
            if not having.size:
                break
            base[having] += values.rows[values.leftover(table[nodes[having]], partial[having, column])]
        self.base[nodes] = base
        self.price[nodes] = base.argmin(axis=1)
        self.value[nodes] = base.min(axis=1)

    def held(self, table: Ints, tables: int) -> tuple[Floats, Floats]:
        """How many partly used cards have each leftover (T, L, STEPS + 1), how many nodes f idle cards (T, L, F + 1).

        Each node is counted at its own CPU price.
        """
        prices = len(self._prices)
        row = table * prices + self.price
        nodes, columns = np.nonzero(self._partial)
        places = row[nodes] * (STEPS + 1) + self._partial[nodes, columns] // STEP_MILLI
        single = np.bincount(places, minlength=tables * prices * (STEPS + 1)).astype(np.float64)
        width = self._partial.shape[1] + 1
        whole = np.bincount(row * width + self._fleet.idle, minlength=tables * prices * width).astype(np.float64)
        return single.reshape(tables, prices, STEPS + 1), whole.reshape(tables, prices, width)
