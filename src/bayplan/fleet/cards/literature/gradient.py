"""FGD, fragmentation gradient descent: where fragmentation grows least, or shrinks most.

Facts: the FGD paper (USENIX ATC'23): the change in a node's fragmentation, in cards, goes through a sigmoid and is cut
down to a whole number of hundredths; so coarse that the order of the nodes often decides.

The whole number is found by comparing the exact change with the changes at which it becomes 1, 2, ... 99: ln(k / (100 -
k)) cards, worked out in decimal arithmetic. An exponential in floating point may differ in its last bit from one
machine to another, and with it the number; these comparisons cannot. (100 itself is never reached.)

One of those changes is 0, and there the published figures depend on rounding: where fragmentation stays as it is but
kinds of pods lack it for another cause than before, the simulator's sums before and after may differ in the last bits,
and 50 becomes 49. So a change of 0 is summed up again as the simulator does it. It needs no exponential either: so
near to 0 it is 1 and the exponent, rounded.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

import numpy as np

from bayplan.fleet.cards.fragmentation import Fragmentation
from bayplan.fleet.cards.literature.by_score import MOST, ScorePolicy, refuse_option
from bayplan.fleet.cards.mix import PodKind, typical
from bayplan.fleet.cards.model import WHOLE
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import Floats, Ints

DIGITS = 40
TOO_SMALL = -1
HAIRS_PER_MILLI = 1 << 20
"""A change smaller than one of this many parts of a milli is none: it comes from shares that are rounded."""


class GradientPolicy(ScorePolicy):
    """See the module. What is typical is taken from the counts known at the start; with none all nodes are alike."""

    def __init__(self, setup: PolicySetup) -> None:
        refuse_option("fgd", setup)
        super().__init__(setup)
        self._fragmentation = Fragmentation(setup.fleet, typical(setup.counts))
        self._steps = steps(self._fragmentation.units_per_milli)
        self._hair = self._fragmentation.units_per_milli // HAIRS_PER_MILLI

    def score(self, kind: PodKind, nodes: Ints) -> Ints:
        """0 to 99 for the best card; 50: fragmentation stays as it is."""
        best: Ints = self._hundredths(kind, nodes).max(1)
        return best

    def shared_card(self, kind: PodKind, node: int) -> int:
        """The first with the best score."""
        return int(self._hundredths(kind, np.array([node]))[0].argmax())

    def _hundredths(self, kind: PodKind, nodes: Ints) -> Ints:
        """By node and card; -1 where the card is too small."""
        fragmentation = self._fragmentation
        shrinks = fragmentation.exact(nodes)[:, None] - fragmentation.exact_after(kind, nodes)
        scores = np.searchsorted(self._steps, shrinks, "right")
        if kind.is_shared:
            scores[self.fleet.left[nodes] < kind.milli] = TOO_SMALL
        unchanged = (np.abs(shrinks) < self._hair) & (scores != TOO_SMALL)
        if unchanged.any():
            unchanged &= ~fragmentation.lets_all_be(kind, nodes)[:, None]
            row, card = np.nonzero(unchanged)
            before, after = fragmentation.summed(nodes[row]), fragmentation.summed_after(kind, nodes[row], card)
            scores[row, card] = sigmoid_near_zero((before - after) / WHOLE)
        return scores


def sigmoid_near_zero(change: Floats) -> Ints:
    """The whole hundredths of the sigmoid of numbers so near to 0 that the exponential is 1 and the number."""
    hundredths: Ints = np.trunc(MOST * (1 / (1 + (1 - change)))).astype(np.int64)
    return hundredths


def steps(units_per_milli: int) -> Ints:
    """By how many units fragmentation has to shrink for a score of 1, 2, ... 99: rounded up, (99)."""
    context = Context(prec=DIGITS)
    units_per_card = Decimal(WHOLE * units_per_milli)
    logarithms = [context.ln(context.divide(Decimal(k), Decimal(MOST - k))) for k in range(1, MOST)]
    exact = [context.multiply(logarithm, units_per_card) for logarithm in logarithms]
    return np.array([int(step.to_integral_value(ROUND_CEILING)) for step in exact], np.int64)
