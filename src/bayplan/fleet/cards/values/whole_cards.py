"""What the wholly idle cards of one node are worth together, so that room for pods of several cards is not broken up.

f idle cards are taken by pods of k cards, k <= f, with weights q(k), softly by what they bring:

    G(f) = max(G(f - 1), tau ln(sum of q(k) exp((u(k) + G(f - k)) / tau) / sum of q(k))),   G(0) = 0,

where u(1) is the value of one whole leftover and u(k) the best profit of a kind of k cards; what brings no profit is
left out. Computed as X(f) = exp((G(f) - f h) / tau), h being the best profit per card, so that X is at most 1. Its
power of two is kept apart: where only pods of many cards bring much, fewer cards lie further below than a float reaches
(exp(-900) for G(7) = 0 beside G(8) = 8).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayplan.fleet.cards.state import Bools, Floats, Ints
from bayplan.fleet.cards.values import exact
from bayplan.fleet.cards.values.exact import Powers
from bayplan.fleet.cards.values.kinds import PricedKinds

_NOTHING = -(2**24)
"""The power of two of what is not there: below all others, and sums of two of them are 32 bits still."""


class Worth(NamedTuple):
    """`values` (T, L, F + 1): G in GPUs. The rest is for the adjoint.

    By number of cards k (B of them): `pull` x 2**`pull_power` (B, T, L) = q exp((u - k h) / tau), and `best` (B, T, L),
    the kind that gives u (-1: single cards). By number of idle cards: `scaled` x 2**`scaled_power`, which is X, and
    `weight`, the sum of q (F + 1, T, L). `step_down` (T, L) = exp(-h / tau).
    """

    values: Floats
    pull: Floats
    pull_power: Powers
    best: Ints
    scaled: Floats
    scaled_power: Powers
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
        mantissa, power = exact.exp_parts(np.where(there, (gains - numbers * per_card) / tau, 0.0))
        shape = (self._most + 1, *one.shape)
        worth = Worth(
            values=np.zeros((*one.shape, self._most + 1)),
            pull=np.where(there, self._weights * mantissa, 0.0),
            pull_power=np.where(there, power, np.int32(_NOTHING)),
            best=best,
            scaled=np.full(shape, 0.5),
            scaled_power=np.ones(shape, np.int32),
            weight=self._sums_of_weights(there),
            step_down=exact.exp(-per_card / tau),
        )
        self._fill(worth)
        counts = np.arange(self._most + 1, dtype=np.float64)[:, None, None]
        values = counts * per_card + tau * exact.log_of_parts(worth.scaled, worth.scaled_power)
        return worth._replace(values=np.ascontiguousarray(np.moveaxis(values, 0, 2)))

    def supply(self, worth: Worth, held: Floats) -> tuple[Floats, Floats]:
        """From how many nodes have f idle cards (T, L, F + 1).

        Gives how many of the cards would be used as single ones (T, L), and how many pods of each kind (K) of several
        cards would be taken up.
        """
        waiting = np.moveaxis(held, 2, 0).copy()
        flows = np.zeros_like(worth.pull)
        for count in range(self._most, 0, -1):
            total, power = self._sum(worth, count)
            fewer, fewer_power = _fewer(worth, count)
            top = np.maximum(power, fewer_power)
            unused = np.ldexp(total, power - top) <= np.ldexp(fewer * worth.weight[count], fewer_power - top)
            waiting[count - 1] += np.where(unused, waiting[count], 0.0)
            rate = np.where(unused, 0.0, waiting[count]) / np.where(unused, 1.0, total)
            for place, number in enumerate(self._numbers):
                if number > count:
                    break
                pull_power = worth.pull_power[place] + worth.scaled_power[count - number]
                flow = np.ldexp(rate * worth.pull[place] * worth.scaled[count - number], pull_power - power)
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

    def _sums_of_weights(self, there: Bools) -> Floats:
        """By number of idle cards, over the numbers that fit and bring a profit; 1 where there are none."""
        weight = np.zeros((self._most + 1, *there.shape[1:]))
        for place, number in enumerate(self._numbers):
            weight[number:] += there[place] * self._weights[place]
        return np.where(weight > 0, weight, 1.0)

    def _fill(self, worth: Worth) -> None:
        """X of one idle card, of two, and so on."""
        for count in range(1, self._most + 1):
            total, power = self._sum(worth, count)
            fewer, fewer_power = _fewer(worth, count)
            top = np.maximum(power, fewer_power)
            most = np.maximum(np.ldexp(total / worth.weight[count], power - top), np.ldexp(fewer, fewer_power - top))
            worth.scaled[count], more = np.frexp(most)
            worth.scaled_power[count] = top + more

    def _sum(self, worth: Worth, count: int) -> tuple[Floats, Powers]:
        """What the numbers of cards that fit into so many pull: to be multiplied by a power of two."""
        fitting = [(place, number) for place, number in enumerate(self._numbers) if number <= count]
        powers = [worth.pull_power[place] + worth.scaled_power[count - number] for place, number in fitting]
        top = powers[0]
        for power in powers[1:]:
            top = np.maximum(top, power)
        total = np.zeros(top.shape)
        for (place, number), power in zip(fitting, powers, strict=True):
            total += np.ldexp(worth.pull[place] * worth.scaled[count - number], power - top)
        return total, top


def _fewer(worth: Worth, count: int) -> tuple[Floats, Powers]:
    """X of one card fewer, as it stands beside that of so many."""
    return worth.scaled[count - 1] * worth.step_down, worth.scaled_power[count - 1]
