"""The cards of a fleet and what is left of them: arrays over nodes, in the order in which ties are broken.

The one mutable thing of the card policies. `take` and `give_back` change one node each; `changed_since` tells a policy
which nodes it has to look at again, so that nothing is worked out twice for what did not change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayplan.errors import InputError
from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import WHOLE, CardNode, CardRequest, Spot

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class CardFleet:
    """`nodes` in the order of their rank: of two nodes that a policy likes equally, the first is taken.

    By node (N): `cpu_capacity`, `cpu_free` (milli), `memory_capacity`, `memory_free` (bytes), `cards` (how many),
    `model` (position in `models`), `idle` (cards wholly free), `most_left` (milli free on the card with the most).
    By node and card (N, G): `left` (milli free; 0 where a node has fewer cards). By node and class of pod (N, G + 1):
    `pods`, how many pods with that many whole cards are there; in column 0 those with a part of a card. To be read by
    all and written here only. Two nodes of one name raise `InputError`.
    """

    def __init__(self, nodes: Sequence[CardNode]) -> None:
        self.nodes = tuple(nodes)
        self.position = {node.name: i for i, node in enumerate(nodes)}
        if len(self.position) < len(self.nodes):
            twice = next(node.name for i, node in enumerate(nodes) if self.position[node.name] != i)
            raise InputError("two nodes of one name", place="nodes", value=twice)
        self.models = tuple(sorted({node.model for node in nodes}))
        self.cpu_capacity = _column([node.cpu_milli for node in nodes])
        self.cpu_free = self.cpu_capacity.copy()
        self.memory_capacity = _column([node.memory_bytes for node in nodes])
        self.memory_free = self.memory_capacity.copy()
        self.cards = _column([node.cards for node in nodes])
        self.model = _column([self.models.index(node.model) for node in nodes])
        width = max((node.cards for node in nodes), default=0)
        self.left: Ints = np.where(np.arange(width) < self.cards[:, None], WHOLE, 0).astype(np.int64)
        self.idle = self.cards.copy()
        self.most_left: Ints = np.where(self.cards > 0, WHOLE, 0).astype(np.int64)
        self.pods: Ints = np.zeros((len(nodes), width + 1), np.int64)
        self.capacity_milli = WHOLE * int(self.cards.sum())
        self.allocated_milli = 0
        self.version = 0
        self._touched = np.zeros(len(nodes), np.int64)
        self._allowed: dict[tuple[str, ...], Bools] = {}

    def __len__(self) -> int:
        """How many nodes."""
        return len(self.nodes)

    def allowed(self, models: tuple[str, ...]) -> Bools:
        """Which nodes have a card of one of the models; none named: all nodes that have any card."""
        found = self._allowed.get(models)
        if found is None:
            named = np.array([not models or model in models for model in self.models], np.bool_)
            found = self._allowed[models] = (self.cards > 0) & named[self.model]
        return found

    def feasible(self, request: CardRequest, nodes: Ints | slice = slice(None)) -> Bools:
        """Of these nodes, which have room for the request as they are now."""
        room: Bools = (self.cpu_free[nodes] >= request.cpu_milli) & (self.memory_free[nodes] >= request.memory_bytes)
        if request.cards:
            room &= self.allowed(request.models)[nodes]
            if request.is_shared:
                room &= self.most_left[nodes] >= request.milli
            else:
                room &= self.idle[nodes] >= request.cards
        return room

    def changed_since(self, version: int) -> Ints:
        """The nodes that `take` or `give_back` changed after `self.version` was this."""
        return np.flatnonzero(self._touched > version)

    def in_states(self, nodes: Ints, cpu_free: Ints, left: Ints) -> CardFleet:
        """Copies of `nodes` with this much CPU (M) and these parts of their cards (M, G) free, and all of the memory.

        To measure many states of a few nodes at once, not to place pods on: a name may stand there several times.
        """
        states = CardFleet.__new__(CardFleet)
        states.nodes = tuple(self.nodes[node] for node in nodes.tolist())
        states.position = {}
        states.models = self.models
        states.cpu_capacity, states.cpu_free = self.cpu_capacity[nodes], cpu_free.copy()
        states.memory_capacity, states.memory_free = self.memory_capacity[nodes], self.memory_capacity[nodes]
        states.cards, states.model, states.left = self.cards[nodes], self.model[nodes], left.copy()
        states.idle = np.count_nonzero(left == WHOLE, axis=1).astype(np.int64)
        states.most_left = left.max(axis=1, initial=0)
        states.capacity_milli = WHOLE * int(states.cards.sum())
        states.allocated_milli = states.capacity_milli - int(left.sum())
        states.version = 0
        states.pods = np.zeros((len(nodes), left.shape[1] + 1), np.int64)
        states._touched = np.zeros(len(nodes), np.int64)
        states._allowed = {}
        return states

    def take(self, spot: Spot, request: CardRequest) -> None:
        """Put a pod there. What does not fit raises `ValueError` and changes nothing."""
        self._change(spot, request, -1)

    def give_back(self, spot: Spot, request: CardRequest) -> None:
        """Take a pod away. More than a card or a node has raises `ValueError` and changes nothing."""
        self._change(spot, request, 1)

    def _change(self, spot: Spot, request: CardRequest, sign: int) -> None:
        node, kind = spot.node, pod_class(request)
        if not self._names_cards(spot, request.cards):
            raise ValueError(f"{spot} is no place for {request}")
        cpu = int(self.cpu_free[node]) + sign * request.cpu_milli
        memory = int(self.memory_free[node]) + sign * request.memory_bytes
        row: list[int] = self.left[node].tolist()
        for card in spot.cards:
            row[card] += sign * request.milli
        right = (
            0 <= cpu <= int(self.cpu_capacity[node])
            and 0 <= memory <= int(self.memory_capacity[node])
            and all(0 <= row[card] <= WHOLE for card in spot.cards)
            and (not request.cards or int(self.pods[node, kind]) >= sign)
        )
        if not right:
            raise ValueError(f"{request} {'cannot go to' if sign < 0 else 'was not at'} {spot}")
        self.cpu_free[node] = cpu
        self.memory_free[node] = memory
        if request.cards:
            self.left[node] = row
            self.idle[node] = row.count(WHOLE)
            self.most_left[node] = max(row)
            self.pods[node, kind] -= sign
        self.allocated_milli -= sign * request.total_milli
        self.version += 1
        self._touched[node] = self.version

    def _names_cards(self, spot: Spot, count: int) -> bool:
        return (
            0 <= spot.node < len(self)
            and len(set(spot.cards)) == len(spot.cards) == count
            and all(0 <= card < self.nodes[spot.node].cards for card in spot.cards)
        )


def pod_class(request: CardRequest | PodKind) -> int:
    """The column of `CardFleet.pods` where a pod that asks for cards is counted."""
    return 0 if request.is_shared else request.cards


def tightest_card(left: Ints, milli: int) -> int:
    """Of one node's cards, the one with the smallest part left that suffices; the lowest of several."""
    return int(np.where(left >= milli, left, WHOLE + 1).argmin())


def idle_cards(left: Ints, count: int) -> tuple[int, ...]:
    """The lowest wholly free cards of one node."""
    return tuple(np.flatnonzero(left == WHOLE)[:count].tolist())


def likely_cards(left: Ints, request: CardRequest) -> tuple[int, ...]:
    """Of one node with room, the cards that a request takes: the tightest one for a part, the lowest idle ones else."""
    return (tightest_card(left, request.milli),) if request.is_shared else idle_cards(left, request.cards)


def _column(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)
