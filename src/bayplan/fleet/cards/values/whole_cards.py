"""What the wholly idle cards of one node are worth together, so that room for pods of several cards is not broken up.

f idle cards are taken by pods of k cards, k <= f, with weights q(k), softly by what they bring:

    G(f) = max(G(f - 1), tau ln(sum of q(k) exp((u(k) + G(f - k)) / tau) / sum of q(k))),   G(0) = 0,

where u(1) is the value of one whole leftover and u(k) the best profit of a kind of k cards; what brings no profit is
left out. Computed as X(f) = exp((G(f) - f h) / tau), h being the best profit per card, so that X is at most 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayplan.fleet.cards.state import Bools, Floats, Ints
from bayplan.fleet.cards.values import exact
from bayplan.fleet.cards.values.kinds import PricedKinds

_SMALLEST = 1e-300
"""In place of what is too small for a float: a value that nothing will depend on."""
_LOWEST = -690.0


class Worth(NamedTuple):
    """`values` (T, L, F + 1): G in GPUs. The rest is for the adjoint.

    By number of cards k (B of them): `pull` (B, T, L) = q exp((u - k h) / tau), and `best` (B, T, L), the kind that
    gives u (-1: single cards). By number of idle cards: `scaled` X and `weight`, the sum of q (F + 1, T, L).
    `step_down` (T, L) = exp(-h / tau).
    """

    values: Floats
    pull: Floats
    best: Ints
    scaled: Floats
    weight: Floats
    step_down: Floats


class WholeCards:
    """The recursion and its adjoint for one set of kinds. `most`: cards of the widest node (F)."""

    def __init__(self, kinds: PricedKinds, most: int) -> None:
        self._kinds = kinds
        self._most = most
        self._numbers = [1, *sorted({int(number) for number in kinds.cards if 1 < number <= most})]
        self._members = [np.flatnonzero(kinds.cards == number) for number in self._numbers]
        weights = [(kinds.share * kinds.gpus)[self._members[0]].sum()]
        weights += [kinds.share[members].sum() for members in self._members[1:]]
        self._weights: Floats = np.array(weights, np.float64)[:, None, None]

    def worth(self, one: Floats, profit: Floats, tau: float) -> Worth:
        """From the value of one whole leftover (T, L) and the profits of all kinds (L, K), in GPUs."""
        gains, best = self._gains(one, profit)
        numbers = np.array(self._numbers, np.float64)[:, None, None]
        there = gains > 0
        per_card: Floats = np.where(there, gains / numbers, 0.0).max(axis=0)
        exponent = np.where(there, (gains - numbers * per_card) / tau, 0.0)
        pull = np.where(there, self._weights * exact.exp(np.maximum(exponent, _LOWEST)), 0.0)
        down = exact.exp(np.maximum(-per_card / tau, _LOWEST))
        scaled = np.ones((self._most + 1, *one.shape))
        weight = np.ones((self._most + 1, *one.shape))
        for count in range(1, self._most + 1):
            total, sum_of_weights = self._sum(count, pull, there, scaled)
            weight[count] = np.where(sum_of_weights > 0, sum_of_weights, 1.0)
            scaled[count] = np.maximum(np.maximum(total / weight[count], scaled[count - 1] * down), _SMALLEST)
        counts = np.arange(self._most + 1, dtype=np.float64)[:, None, None]
        values = np.moveaxis(counts * per_card + tau * exact.log(scaled), 0, 2)
        return Worth(np.ascontiguousarray(values), pull, best, scaled, weight, down)

    def supply(self, worth: Worth, held: Floats) -> tuple[Floats, Floats]:
        """From how many nodes have f idle cards (T, L, F + 1).

        Gives how many of the cards would be used as single ones (T, L), and how many pods of each kind (K) of several
        cards would be taken up.
        """
        waiting = np.moveaxis(held, 2, 0).copy()
        flows = np.zeros_like(worth.pull)
        for count in range(self._most, 0, -1):
            total, _ = self._sum(count, worth.pull, worth.pull > 0, worth.scaled)
            below = worth.scaled[count - 1] * worth.step_down
            unused = total <= below * worth.weight[count]
            waiting[count - 1] += np.where(unused, waiting[count], 0.0)
            rate = np.where(unused, 0.0, waiting[count] / np.maximum(total, _SMALLEST))
            for place, number in enumerate(self._numbers):
                if number > count:
                    break
                flow = rate * worth.pull[place] * worth.scaled[count - number]
                flows[place] += flow
                waiting[count - number] += flow
        taken = np.zeros(len(self._kinds.kinds))
        for place in range(1, len(self._numbers)):
            np.add.at(taken, worth.best[place].ravel(), flows[place].ravel())
        return flows[0], taken

    def _gains(self, one: Floats, profit: Floats) -> tuple[Floats, Ints]:
        gains = np.zeros((len(self._numbers), *one.shape))
        best = np.full((len(self._numbers), *one.shape), -1, np.int64)
        gains[0] = one
        for place, members in enumerate(self._members[1:], 1):
            offered = np.where(self._kinds.admitted[:, None, members], profit[:, members], 0.0)
            gains[place] = offered.max(axis=2)
            best[place] = members[offered.argmax(axis=2)]
        return gains, best

    def _sum(self, count: int, pull: Floats, there: Bools, scaled: Floats) -> tuple[Floats, Floats]:
        """Over the numbers of cards that fit into so many: what they pull, and their weights."""
        total = np.zeros(scaled.shape[1:])
        weight = np.zeros(scaled.shape[1:])
        for place, number in enumerate(self._numbers):
            if number > count:
                break
            total += pull[place] * scaled[count - number]
            weight += there[place] * self._weights[place]
        return total, weight
