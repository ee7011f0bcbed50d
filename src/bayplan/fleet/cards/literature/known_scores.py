"""Scores by kind of pod and node, worked out again only for the nodes that changed since they were last asked for.

A score here is a whole number that follows from a kind of pod and the state of one node. Equal pods come again and
again, and between two of them few nodes change: keeping the scores is what makes a decision cheap in a large fleet.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import CardRequest
from bayplan.fleet.cards.state import Bools, CardFleet, Ints

NO_ROOM = int(np.iinfo(np.int64).min)
MOST_CELLS = 1 << 23
"""How many scores are kept (64 MiB of them); the kinds that were not asked for the longest time are forgotten."""


class KnownScores:
    """The scores that `score` gives, by kind, for all nodes of a fleet.

    `score(kind, nodes)` is asked for nodes that have room for such a pod, memory apart, and has to give (n) numbers
    above `NO_ROOM`.
    """

    def __init__(self, fleet: CardFleet, score: Callable[[PodKind, Ints], Ints]) -> None:
        self._fleet = fleet
        self._score = score
        self._all = np.arange(len(fleet))
        self._known: dict[PodKind, tuple[int, Ints]] = {}
        self._most = max(1, MOST_CELLS // max(1, len(fleet)))

    def of(self, kind: PodKind) -> Ints:
        """By node, its score, or `NO_ROOM` where there is no room for such a pod, memory apart. Not to be written."""
        fleet = self._fleet
        known = self._known.pop(kind, None)
        if known is None:
            if len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            known = 0, np.empty(len(fleet), np.int64)
            changed = self._all
        else:
            changed = fleet.changed_since(known[0]) if known[0] < fleet.version else self._all[:0]
        if len(changed):
            self._renew(kind, known[1], changed)
        self._known[kind] = fleet.version, known[1]
        return known[1]

    def _renew(self, kind: PodKind, scores: Ints, changed: Ints) -> None:
        room = self._fleet.feasible(_without_memory(kind), changed)
        scores[changed[~room]] = NO_ROOM
        nodes = changed[room]
        if len(nodes):
            scores[nodes] = self._score(kind, nodes)


def with_room(fleet: CardFleet, request: CardRequest, scores: Ints, among: Bools | None) -> Ints:
    """The scores of the nodes that have memory for the request too and are `among` those asked about, else NO_ROOM."""
    room = fleet.memory_free >= request.memory_bytes
    if among is not None:
        room &= among
    return np.where(room, scores, NO_ROOM)


def first_best(scores: Ints) -> int | None:
    """The first node of those with the highest score; None: no node has room."""
    if not len(scores):
        return None
    best = int(scores.argmax())
    return best if scores[best] > NO_ROOM else None


def _without_memory(kind: PodKind) -> CardRequest:
    return CardRequest(cpu_milli=kind.cpu_milli, memory_bytes=0, cards=kind.cards, milli=kind.milli, models=kind.models)
