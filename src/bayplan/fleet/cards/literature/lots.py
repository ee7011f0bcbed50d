"""Random: one of the nodes with room, each as likely; and one of its cards with room, each as likely."""

from __future__ import annotations

import numpy as np

from bayplan.fleet.cards.generator import Generator
from bayplan.fleet.cards.literature.by_score import refuse_option
from bayplan.fleet.cards.model import CardRequest, Spot
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import Bools, Ints, idle_cards


class RandomPolicy:
    """See the module. Draws from a generator that starts with the setup's seed: asked twice, it answers differently.

    One draw for the node, and for a pod of part of a card one for the card; none where there is no room.
    """

    def __init__(self, setup: PolicySetup) -> None:
        refuse_option("random", setup)
        self._fleet = setup.fleet
        self._generator = Generator(setup.seed)

    def seen(self, request: CardRequest) -> None:
        """What comes makes no difference."""

    def place(self, request: CardRequest, among: Bools | None = None) -> Spot | None:
        """Anywhere where there is room."""
        room = self._fleet.feasible(request)
        nodes = np.flatnonzero(room if among is None else room & among)
        if not len(nodes):
            return None
        node = self._one_of(nodes)
        if not request.cards:
            return Spot(node)
        left = self._fleet.left[node]
        if request.is_shared:
            return Spot(node, (self._one_of(np.flatnonzero(left >= request.milli)),))
        return Spot(node, idle_cards(left, request.cards))

    def scores(self, request: CardRequest) -> Ints:
        """All nodes are liked equally: zeros."""
        return np.zeros(len(self._fleet), np.int64)

    def _one_of(self, choices: Ints) -> int:
        return int(choices[self._generator.below(len(choices))])
