"""BestFit: the node on which the least CPU and the least of the cards would be left over.

Facts: the FGD simulator, with 128 CPUs and 8 cards for a whole, CPU and cards weighing alike.
"""

from __future__ import annotations

import numpy as np

from bayplan.fleet.cards.literature.by_score import (
    LARGEST_CARDS_MILLI,
    LARGEST_CPU_MILLI,
    MOST,
    ScorePolicy,
    refuse_option,
    stretched,
)
from bayplan.fleet.cards.literature.known_scores import with_room
from bayplan.fleet.cards.mix import PodKind, kind_of
from bayplan.fleet.cards.model import CardRequest
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import Ints


class BestFitPolicy(ScorePolicy):
    """See the module."""

    def __init__(self, setup: PolicySetup) -> None:
        refuse_option("bestfit", setup)
        super().__init__(setup)

    def score(self, kind: PodKind, nodes: Ints) -> Ints:
        """100 less half of each share left over, in whole hundredths."""
        cpu = self.fleet.cpu_free[nodes] - kind.cpu_milli
        cards = self.fleet.left[nodes].sum(1) - kind.total_milli
        kept = 1 - 0.5 * cpu / LARGEST_CPU_MILLI - 0.5 * cards / LARGEST_CARDS_MILLI
        scores: Ints = np.trunc(MOST * kept).astype(np.int64)
        return scores

    def scores(self, request: CardRequest) -> Ints:
        """Stretched between the nodes with room."""
        raw = self.known.of(kind_of(request))
        return stretched(with_room(self.fleet, request, raw, None), if_equal=0)
