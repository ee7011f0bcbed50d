"""What is left of a card is worth what the pods that may still come would fill it with.

A leftover of r steps meets single-card kinds with probabilities `weight`; one that fits (its size is at most r, and its
price exceeds what its CPU costs) is taken softly, by how much it and what then remains are worth:

    v(r) = tau ln(1 - sum of weights + sum of weight exp((profit + v(r - size)) / tau)),   over the kinds that fit,

so that the rest of the probability leaves the card as it is, and a leftover for which only rare kinds fit is worth
little. With E = exp(v / tau) the recursion is linear: E(r) = 1 - w(r) + sum over sizes of pull(size) E(r - size); so is
its adjoint, which tells how many pods of each kind a set of leftovers can be expected to take up. Rows are pairs of
a card table and a CPU price; sums run in one order, so that the bits are the same everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayplan.fleet.cards.state import Floats, Ints
from bayplan.fleet.cards.values import exact
from bayplan.fleet.cards.values.kinds import STEPS, PricedKinds

_ZEROS = STEPS
"""So many zeros stand before the leftovers (after them, for the adjoint), in place of what does not fit."""


class Profits(NamedTuple):
    """`pull` (L, K1): by CPU price and single-card kind, weight x exp(profit / tau), 0 where there is no profit.

    By table, CPU price and size (T, L, S), over the kinds that a table admits: `pull_of_size`, and their weights
    (those with a profit), `weight_of_size`.
    """

    pull: Floats
    pull_of_size: Floats
    weight_of_size: Floats


def profits(kinds: PricedKinds, weights: Floats, profit: Floats, tau: float) -> Profits:
    """From weights (K1) and profits (L, K1) in GPUs."""
    positive = profit > 0
    pull = np.where(positive, weights * exact.exp(profit / tau), 0.0)
    held = np.where(positive, weights, 0.0)
    admitted = kinds.admitted[:, None, kinds.single]
    return Profits(pull, kinds.by_size(pull * admitted), kinds.by_size(held * admitted))


class Leftovers:
    """The recursion and its adjoint for one set of kinds. All leftovers closer than the smallest size go at once."""

    def __init__(self, kinds: PricedKinds) -> None:
        self._kinds = kinds
        self._place_of_size: Ints = np.searchsorted(kinds.sizes, kinds.size[kinds.single])
        smallest = int(kinds.sizes.min(initial=STEPS))
        starts = range(1, STEPS + 1, smallest)
        up = [np.arange(first, min(first + smallest, STEPS + 1)) for first in starts]
        self._up = [(_ZEROS + block, _ZEROS + block[:, None] - kinds.sizes) for block in up]
        down = [STEPS + 1 - block for block in up]
        self._down = [(block, block[:, None] + kinds.sizes) for block in down]

    def raised(self, found: Profits) -> Floats:
        """E of every leftover: (T, L, STEPS + 1)."""
        tables, prices, count = found.pull_of_size.shape
        rows = tables * prices
        pull = found.pull_of_size.reshape(rows, 1, count)
        held = np.cumsum(found.weight_of_size.reshape(rows, count), axis=1)
        grown = np.zeros((rows, _ZEROS + STEPS + 1))
        grown[:, _ZEROS:] = 1.0
        for place, size in enumerate(self._kinds.sizes.tolist()):
            grown[:, _ZEROS + size :] = 1.0 - held[:, place : place + 1]
        for block, earlier in self._up:
            grown[:, block] += (pull * grown[:, earlier]).sum(axis=2)
        return grown[:, _ZEROS:].reshape(tables, prices, STEPS + 1)

    def supply(self, found: Profits, raised: Floats, held: Floats) -> Floats:
        """How many pods of each single kind (K1) cards with these leftovers (T, L, STEPS + 1: how many) would take."""
        tables, prices, count = found.pull_of_size.shape
        rows = tables * prices
        pull = found.pull_of_size.reshape(rows, 1, count)
        grown = np.zeros((rows, STEPS + 1 + _ZEROS))
        grown[:, 1 : STEPS + 1] = (held / raised).reshape(rows, STEPS + 1)[:, 1:]
        for block, later in self._down:
            grown[:, block] += (pull * grown[:, later]).sum(axis=2)
        flat = raised.reshape(rows, STEPS + 1)
        met = np.zeros((rows, count))
        for place, size in enumerate(self._kinds.sizes.tolist()):
            met[:, place] = (grown[:, size : STEPS + 1] * flat[:, : STEPS + 1 - size]).sum(axis=1)
        by_kind = met.reshape(tables, prices, count)[:, :, self._place_of_size] * found.pull
        taken: Floats = (by_kind * self._kinds.admitted[:, None, self._kinds.single]).sum(axis=(0, 1))
        return taken
