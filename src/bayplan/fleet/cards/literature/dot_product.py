"""DotProd: the node whose free CPU and free cards, taken as an arrow, point least where the request points.

Facts: the alignment score of Tetris (SIGCOMM'14) as the FGD simulator has it, with 128 CPUs and 8 cards for a whole.
"""

from __future__ import annotations

import numpy as np

from bayplan.fleet.cards.literature.by_score import (
    LARGEST_CARDS_MILLI,
    LARGEST_CPU_MILLI,
    MOST,
    ScorePolicy,
    refuse_option,
)
from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import Ints


class DotProductPolicy(ScorePolicy):
    """See the module."""

    def __init__(self, setup: PolicySetup) -> None:
        refuse_option("dotprod", setup)
        super().__init__(setup)

    def score(self, kind: PodKind, nodes: Ints) -> Ints:
        """100 less half the product, in whole hundredths of it."""
        cpu = self.fleet.cpu_free[nodes] / LARGEST_CPU_MILLI * (kind.cpu_milli / LARGEST_CPU_MILLI)
        cards = self.fleet.left[nodes].sum(1) / LARGEST_CARDS_MILLI * (kind.total_milli / LARGEST_CARDS_MILLI)
        scores: Ints = np.trunc(MOST * (1 - (cpu + cards) / 2)).astype(np.int64)
        return scores
