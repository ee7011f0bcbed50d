"""GpuClustering: pods that ask for as many cards, or for a part of one, are kept together on the fullest nodes.

Facts: the FGD simulator's version of the strategy of Gandiva (OSDI'18).
"""

from __future__ import annotations

import numpy as np

from bayplan.fleet.cards.literature.by_score import LARGEST_CARDS_MILLI, ScorePolicy, refuse_option
from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import Ints, pod_class

ONLY_SUCH, SUCH_AND_OTHERS, NONE_AT_ALL = 75, 50, 25
FULLNESS = 25


class ClusteringPolicy(ScorePolicy):
    """See the module. Pods that ask for no card go to the first node with room."""

    def __init__(self, setup: PolicySetup) -> None:
        refuse_option("gpuclustering", setup)
        super().__init__(setup)

    def score(self, kind: PodKind, nodes: Ints) -> Ints:
        """By who is there: only such pods, such and others, none with cards, only others; among those the fullest."""
        if not kind.cards:
            return np.zeros(len(nodes), np.int64)
        pods = self.fleet.pods[nodes]
        such = pods[:, pod_class(kind)]
        others = pods.sum(1) - such
        company = np.where(
            such > 0, np.where(others > 0, SUCH_AND_OTHERS, ONLY_SUCH), np.where(others > 0, 0, NONE_AT_ALL)
        )
        left = self.fleet.left[nodes].sum(1)
        scores: Ints = company + FULLNESS * (LARGEST_CARDS_MILLI - left) // LARGEST_CARDS_MILLI
        return scores
