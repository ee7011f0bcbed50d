"""Where one pod could go, as rows of what the fleet would gain and lose by it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayplan.fleet.cards.model import WHOLE, CardRequest
from bayplan.fleet.cards.state import Bools, CardFleet, Ints
from bayplan.fleet.cards.values.node_values import ValueRows


class Choices(NamedTuple):
    """By choice (C): the node, the milli free on the card before, and rows of `ValueRows`.

    The cards of the node gain the values of the rows `gained` and `opened` and lose that of `lost`.
    """

    node: Ints
    left: Ints
    gained: Ints
    opened: Ints
    lost: Ints


def choices_for(request: CardRequest, fleet: CardFleet, room: Bools, table: Ints, values: ValueRows) -> Choices:
    """All nodes with `room` (N), for a part of a card once for each card that has enough left.

    `table` (N): the card table of each node. Of idle cards of one node, which are all alike, one choice is made.
    """
    if not request.cards:
        nodes = np.flatnonzero(room)
        nothing = np.zeros(len(nodes), np.int64)
        return Choices(nodes, nothing, nothing, nothing, nothing)
    whole = _idle(request, fleet, room, table, values)
    if not request.is_shared:
        return whole
    partly = _partly_used(request, fleet, room, table, values)
    return Choices(*(np.concatenate(pair) for pair in zip(partly, whole, strict=True)))


def _idle(request: CardRequest, fleet: CardFleet, room: Bools, table: Ints, values: ValueRows) -> Choices:
    nodes = np.flatnonzero(room & (fleet.idle >= request.cards))
    kind, idle = table[nodes], fleet.idle[nodes]
    rest = np.full(len(nodes), WHOLE - request.milli)
    return Choices(
        nodes,
        np.full(len(nodes), WHOLE),
        values.idle(kind, idle - request.cards),
        values.leftover(kind, rest),
        values.idle(kind, idle),
    )


def _partly_used(request: CardRequest, fleet: CardFleet, room: Bools, table: Ints, values: ValueRows) -> Choices:
    left = fleet.left.ravel()
    cards = np.flatnonzero((left >= request.milli) & (left < WHOLE))
    nodes = cards // fleet.left.shape[1]
    roomy = room[nodes]
    nodes, left = nodes[roomy], left[cards[roomy]]
    kind = table[nodes]
    gained, lost = values.leftover(kind, left - request.milli), values.leftover(kind, left)
    return Choices(nodes, left, gained, np.zeros(len(nodes), np.int64), lost)
