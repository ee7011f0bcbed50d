"""What the policies that are a score have in common: the first of the nodes that the score likes best is taken."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from bayplan.errors import InputError
from bayplan.fleet.cards.literature.known_scores import NO_ROOM, KnownScores, first_best, with_room
from bayplan.fleet.cards.mix import PodKind, kind_of
from bayplan.fleet.cards.model import CardRequest, Spot
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import Bools, CardFleet, Ints, idle_cards, tightest_card

MOST = 100
LARGEST_CPU_MILLI = 128_000
LARGEST_CARDS_MILLI = 8_000
"""What the FGD simulator divides CPU and cards by, to make shares of them."""


class ScorePolicy(ABC):
    """A policy that is a score by kind of pod and node, and a choice of the card for pods that share one."""

    def __init__(self, setup: PolicySetup) -> None:
        self.fleet: CardFleet = setup.fleet
        self.known = KnownScores(setup.fleet, self.score)

    @abstractmethod
    def score(self, kind: PodKind, nodes: Ints) -> Ints:
        """How much each of these nodes, all with room, is liked for such a pod: larger is better (n)."""

    def shared_card(self, kind: PodKind, node: int) -> int:
        """Which card of a node with room a pod of part of a card gets: the one on which the least is left over."""
        return tightest_card(self.fleet.left[node], kind.milli)

    def seen(self, request: CardRequest) -> None:  # noqa: B027 - none of these policies learns
        """What comes makes no difference."""

    def place(self, request: CardRequest, among: Bools | None = None) -> Spot | None:
        """On the first of the nodes with the highest score."""
        kind = kind_of(request)
        node = first_best(with_room(self.fleet, request, self.known.of(kind), among))
        return None if node is None else self.spot(kind, node)

    def scores(self, request: CardRequest) -> Ints:
        """The score by node."""
        return self.known.of(kind_of(request)).copy()

    def spot(self, kind: PodKind, node: int) -> Spot:
        """The place on that node."""
        if not kind.cards:
            return Spot(node)
        if kind.is_shared:
            return Spot(node, (self.shared_card(kind, node),))
        return Spot(node, idle_cards(self.fleet.left[node], kind.cards))


def stretched(scores: Ints, if_equal: int) -> Ints:
    """From 0 for the lowest score to 100 for the highest, rounded down; `if_equal` for all if they are equal.

    The first of the highest stays the first of the highest. Nodes without room stay `NO_ROOM`.
    """
    room = scores > NO_ROOM
    if not room.any():
        return scores
    lowest, highest = int(scores[room].min()), int(scores.max())
    if lowest == highest:
        return np.where(room, if_equal, NO_ROOM)
    above = np.where(room, scores, lowest) - lowest
    return np.where(room, above * MOST // (highest - lowest), NO_ROOM)


def refuse_option(name: str, setup: PolicySetup) -> None:
    """Raises `InputError` if something follows the name of a policy that has nothing to choose."""
    if setup.option:
        raise InputError("this policy takes no option", place=f"policy {name}", value=setup.option, expected=name)
