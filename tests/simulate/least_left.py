"""A policy of ten lines and a few nodes, so that the engine is tested by itself."""

from __future__ import annotations

import numpy as np

from bayplan.fleet.cards.model import CardNode, CardRequest, Spot
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import Bools, CardFleet, Ints, idle_cards, tightest_card

GIB = 1 << 30


class LeastLeft:
    """The node with the least left of its cards, then of its CPU, and there the tightest card."""

    def __init__(self, setup: PolicySetup) -> None:
        self.fleet: CardFleet = setup.fleet
        self.seen_so_far = 0

    def seen(self, request: CardRequest) -> None:
        self.seen_so_far += 1

    def place(self, request: CardRequest, among: Bools | None = None) -> Spot | None:
        room = self.fleet.feasible(request) if among is None else self.fleet.feasible(request) & among
        if not room.any():
            return None
        node = int(np.where(room, self.scores(request), -(2**62)).argmax())
        left = self.fleet.left[node]
        cards = (tightest_card(left, request.milli),) if request.is_shared else idle_cards(left, request.cards)
        return Spot(node, cards)

    def scores(self, request: CardRequest) -> Ints:
        scores: Ints = -(self.fleet.left.sum(axis=1) * 1_000_000 + self.fleet.cpu_free)
        return scores


NODES = (
    CardNode(name="a", cpu_milli=16_000, memory_bytes=64 * GIB, cards=2, model="T4"),
    CardNode(name="b", cpu_milli=32_000, memory_bytes=128 * GIB, cards=4, model="A10"),
    CardNode(name="c", cpu_milli=8_000, memory_bytes=16 * GIB, cards=1, model="T4"),
    CardNode(name="d", cpu_milli=8_000, memory_bytes=16 * GIB),
)
