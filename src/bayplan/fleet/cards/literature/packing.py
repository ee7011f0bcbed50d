"""GpuPacking: first cards that are partly taken, the fullest; then idle cards of nodes in use; idle nodes last.

Facts: the FGD simulator's version of the packing of Antman and others.
"""

from __future__ import annotations

import numpy as np

from bayplan.fleet.cards.literature.by_score import MOST, ScorePolicy, refuse_option
from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import WHOLE
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import Ints

IDLE_CARDS, IDLE_NODE = 50, 33


class PackingPolicy(ScorePolicy):
    """See the module. Pods that ask for no card go to the first node with room."""

    def __init__(self, setup: PolicySetup) -> None:
        refuse_option("gpupacking", setup)
        super().__init__(setup)

    def score(self, kind: PodKind, nodes: Ints) -> Ints:
        """50 to 100 for taken cards, 33 to 49 for idle ones of a node in use, mostly less for an idle node."""
        fleet = self.fleet
        if not kind.cards:
            return np.zeros(len(nodes), np.int64)
        cards, left = fleet.cards[nodes], fleet.left[nodes]
        tightest = np.where(left >= kind.milli, left, WHOLE).min(1)
        taken_cards = np.maximum(MOST - tightest * MOST // WHOLE // 10, IDLE_CARDS)
        idle_cards = max(IDLE_CARDS - kind.cards, IDLE_NODE)
        in_use = np.where(tightest < WHOLE, taken_cards, idle_cards)
        return np.where(fleet.idle[nodes] == cards, np.maximum(IDLE_NODE - cards, cards), in_use)
