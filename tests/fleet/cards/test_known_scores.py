"""Scores that are kept: worked out for the nodes that changed and no others."""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.fleet.cards.literature import known_scores
from bayplan.fleet.cards.literature.known_scores import NO_ROOM, KnownScores
from bayplan.fleet.cards.mix import PodKind, kind_of
from bayplan.fleet.cards.model import CardNode, CardRequest, Spot
from bayplan.fleet.cards.state import CardFleet, Ints

HALF = CardRequest(cpu_milli=1000, memory_bytes=0, cards=1, milli=500)
QUARTER = CardRequest(cpu_milli=1000, memory_bytes=0, cards=1, milli=250)


class Asked:
    """Remembers which nodes it was asked about."""

    def __init__(self, fleet: CardFleet) -> None:
        self.fleet = fleet
        self.nodes: list[list[int]] = []

    def __call__(self, kind: PodKind, nodes: Ints) -> Ints:
        self.nodes.append(nodes.tolist())
        left: Ints = self.fleet.left[nodes].sum(1)
        return left


@pytest.fixture
def asked() -> Asked:
    return Asked(CardFleet([CardNode(name=f"n{i}", cpu_milli=4000, memory_bytes=0, cards=1) for i in range(4)]))


def test_only_nodes_that_changed_are_worked_out_again(asked: Asked) -> None:
    known = KnownScores(asked.fleet, asked)
    known.of(kind_of(HALF))
    known.of(kind_of(HALF))
    assert asked.nodes == [[0, 1, 2, 3]]
    asked.fleet.take(Spot(2, (0,)), HALF)
    asked.fleet.take(Spot(0, (0,)), HALF)
    assert known.of(kind_of(HALF)).tolist() == [500, 1000, 500, 1000]
    asked.fleet.give_back(Spot(0, (0,)), HALF)
    assert known.of(kind_of(HALF)).tolist() == [1000, 1000, 500, 1000]
    assert asked.nodes == [[0, 1, 2, 3], [0, 2], [0]]


def test_nodes_without_room_are_marked_and_not_asked_about(asked: Asked) -> None:
    known = KnownScores(asked.fleet, asked)
    asked.fleet.take(Spot(1, (0,)), HALF)
    asked.fleet.take(Spot(1, (0,)), HALF)
    assert known.of(kind_of(QUARTER)).tolist() == [1000, NO_ROOM, 1000, 1000]
    assert asked.nodes == [[0, 2, 3]]
    asked.fleet.give_back(Spot(1, (0,)), HALF)
    assert known.of(kind_of(QUARTER)).tolist() == [1000, 500, 1000, 1000]


def test_what_was_not_asked_for_the_longest_is_forgotten_first(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_scores, "MOST_CELLS", 8)
    known = KnownScores(asked.fleet, asked)
    kinds = [PodKind(cpu, 0, 0, ()) for cpu in (1, 2, 3)]
    for kind in (kinds[0], kinds[1], kinds[0], kinds[2]):
        known.of(kind)
    assert len(asked.nodes) == 3
    known.of(kinds[0])
    assert len(asked.nodes) == 3
    np.testing.assert_array_equal(known.of(kinds[1]), 1000)
    assert len(asked.nodes) == 4
