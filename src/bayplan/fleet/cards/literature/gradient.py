"""FGD, fragmentation gradient descent: where fragmentation grows least, or shrinks most.

Facts: the FGD paper (USENIX ATC'23): the change in a node's fragmentation, in cards, goes through a sigmoid and is cut
down to a whole number of hundredths; so coarse that the order of the nodes often decides.

The whole number is found by comparing the exact change with the changes at which it becomes 1, 2, ... 99: ln(k / (100 -
k)) cards, worked out in decimal arithmetic. An exponential in floating point may differ in its last bit from one
machine to another, and with it the number; these comparisons cannot. (100 itself is never reached.)
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

import numpy as np

from bayplan.fleet.cards.fragmentation import Fragmentation
from bayplan.fleet.cards.literature.by_score import MOST, ScorePolicy, refuse_option
from bayplan.fleet.cards.mix import PodKind, typical
from bayplan.fleet.cards.model import WHOLE
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import Ints

DIGITS = 40


class GradientPolicy(ScorePolicy):
    """See the module. What is typical is taken from the counts known at the start; with none all nodes are alike."""

    def __init__(self, setup: PolicySetup) -> None:
        refuse_option("fgd", setup)
        super().__init__(setup)
        self._fragmentation = Fragmentation(setup.fleet, typical(setup.counts))
        self._steps = steps(self._fragmentation.units_per_milli)

    def score(self, kind: PodKind, nodes: Ints) -> Ints:
        """0 to 99 for the best card; 50: fragmentation stays as it is."""
        return self._hundredths(self._shrinks(kind, nodes).max(1))

    def shared_card(self, kind: PodKind, node: int) -> int:
        """The first with the best score."""
        return int(self._hundredths(self._shrinks(kind, np.array([node]))[0]).argmax())

    def _shrinks(self, kind: PodKind, nodes: Ints) -> Ints:
        """By node and card, by how much fragmentation would shrink; as little as can be where the card is too small."""
        fragmentation = self._fragmentation
        shrinks: Ints = fragmentation.exact(nodes)[:, None] - fragmentation.exact_after(kind, nodes)
        if kind.is_shared:
            return np.where(self.fleet.left[nodes] >= kind.milli, shrinks, np.iinfo(np.int64).min)
        return shrinks

    def _hundredths(self, shrinks: Ints) -> Ints:
        return np.searchsorted(self._steps, shrinks, "right")


def steps(units_per_milli: int) -> Ints:
    """By how many units fragmentation has to shrink for a score of 1, 2, ... 99: rounded up, (99)."""
    context = Context(prec=DIGITS)
    units_per_card = Decimal(WHOLE * units_per_milli)
    logarithms = [context.ln(context.divide(Decimal(k), Decimal(MOST - k))) for k in range(1, MOST)]
    exact = [context.multiply(logarithm, units_per_card) for logarithm in logarithms]
    return np.array([int(step.to_integral_value(ROUND_CEILING)) for step in exact], np.int64)
