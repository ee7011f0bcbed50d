"""The fleet with its running pods, on which moves are tried and taken back.

For each different request it keeps what every node would gain or lose by such a pod (`Places`), and brings up to date
only the nodes that moves have touched, so that looking for the next move among thousands of nodes costs little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from bayplan.errors import InputError
from bayplan.fleet.cards.model import CardRequest, Spot
from bayplan.fleet.cards.repack.gauge import Gauge
from bayplan.fleet.cards.repack.model import RunningPod, Step
from bayplan.fleet.cards.state import Bools, CardFleet, Ints, idle_cards

NOWHERE = -(1 << 62)
"""What a node without room gains."""


class Done(NamedTuple):
    """A move that was made, so that it can be taken back."""

    pod: int
    source: Spot
    target: Spot


class _Places(NamedTuple):
    """By node: the change at the best card for a request, and which card that is (meaningless for whole cards)."""

    change: Ints
    card: Ints
    most: int
    clock: int


class Board:
    """`groups[g]` are the nodes that pods of group `g` may go to. The fleet must be empty, and is the board's from now.

    Pods that do not fit where they are raise `InputError`.
    """

    def __init__(self, fleet: CardFleet, pods: Sequence[RunningPod], groups: Sequence[Bools] = ()) -> None:
        self.fleet = fleet
        self.pods = tuple(pods)
        self.groups = tuple(groups) or (np.ones(len(fleet), np.bool_),)
        self.at = [pod.spot for pod in pods]
        self.on_node: list[set[int]] = [set() for _ in range(len(fleet))]
        for i, pod in enumerate(self.pods):
            put(fleet, pod.name, pod.request, pod.spot)
            self.on_node[pod.spot.node].add(i)
        self.made: list[Done] = []
        self.clock = 0
        self.touched: Ints = np.zeros(len(fleet), np.int64)
        self.movable = tuple(i for i, pod in enumerate(self.pods) if not pod.fixed)

    def move(self, step: Step) -> Done:
        """Make a move. One without room raises `ValueError` and changes nothing."""
        done = Done(step.pod, self.at[step.pod], step.target)
        request = self.pods[step.pod].request
        self.fleet.give_back(done.source, request)
        try:
            self.fleet.take(done.target, request)
        except ValueError:
            self.fleet.take(done.source, request)
            raise
        self._note(done.pod, done.source, done.target)
        self.made.append(done)
        return done

    def undo(self) -> None:
        """Take the last move back."""
        done = self.made.pop()
        request = self.pods[done.pod].request
        self.fleet.give_back(done.target, request)
        self.fleet.take(done.source, request)
        self._note(done.pod, done.target, done.source)

    def undo_to(self, count: int) -> None:
        """Take the last moves back, until so many are made."""
        while len(self.made) > count:
            self.undo()

    def go_to(self, steps: Sequence[Step]) -> None:
        """Make the moves made exactly these."""
        same = 0
        while same < min(len(steps), len(self.made)) and self.made[same].pod == steps[same].pod:
            if self.made[same].target != steps[same].target:
                break
            same += 1
        self.undo_to(same)
        for step in steps[same:]:
            self.move(step)

    def room(self, pod: int, nodes: Ints) -> Bools:
        """Which of these nodes have room for a pod as they are, and may have it."""
        request = self.pods[pod].request
        room: Bools = self.fleet.feasible(request, nodes) & self.groups[self.pods[pod].group][nodes]
        return room

    def _note(self, pod: int, source: Spot, target: Spot) -> None:
        self.at[pod] = target
        self.on_node[source.node].discard(pod)
        self.on_node[target.node].add(pod)
        self.clock += 1
        self.touched[source.node] = self.touched[target.node] = self.clock

    @contextmanager
    def lifted(self, pods: Sequence[int]) -> Iterator[None]:
        """The fleet as it would be without these pods, for a moment; what is known of nodes stays known."""
        for pod in pods:
            self.fleet.give_back(self.at[pod], self.pods[pod].request)
        yield
        for pod in pods:
            self.fleet.take(self.at[pod], self.pods[pod].request)


class Places:
    """What every node would change by one more pod, for each request and group that was asked about."""

    def __init__(self, board: Board, gauge: Gauge) -> None:
        self._board = board
        self._gauge = gauge
        self._known: dict[tuple[CardRequest, int], _Places] = {}
        self._all = np.arange(len(board.fleet))

    def best(self, pod: int, count: int, avoid: int = -1) -> list[tuple[int, Spot]]:
        """The changes and places that are best for one more pod like this, but for node `avoid`; best first."""
        places = self._of(pod)
        change = places.change
        if count < len(change):
            # So many that, without the one to avoid, enough are left; of equal ones the first nodes.
            edge = np.partition(change, len(change) - count - 1)[len(change) - count - 1]
            some = np.flatnonzero(change >= edge)
        else:
            some = self._all
        order = some[np.argsort(-change[some], kind="stable")][: count + 1]
        found = [int(node) for node in order if node != avoid and change[node] > NOWHERE][:count]
        return [(int(change[node]), self.spot(pod, node, int(places.card[node]))) for node in found]

    def most(self, pod: int) -> int:
        """The best change of any node; `NOWHERE` where none has room."""
        return self._of(pod).most

    def spot(self, pod: int, node: int, card: int) -> Spot:
        """The cards of a node that a pod would take."""
        request = self._board.pods[pod].request
        if request.is_shared:
            return Spot(node, (card,))
        return Spot(node, idle_cards(self._board.fleet.left[node], request.cards))

    def on(self, pod: int, node: int) -> list[tuple[int, Spot]]:
        """All places on one node, as it is at this moment."""
        board = self._board
        nodes = np.array([node])
        if not board.room(pod, nodes)[0]:
            return []
        request = board.pods[pod].request
        change = self._gauge.change(request, nodes)[0]
        if not request.is_shared:
            return [(int(change[0]), self.spot(pod, node, 0))]
        cards = np.flatnonzero(board.fleet.left[node] >= request.milli)
        return [(int(change[card]), Spot(node, (int(card),))) for card in cards]

    def _of(self, pod: int) -> _Places:
        board = self._board
        key = (board.pods[pod].request, board.pods[pod].group)
        known = self._known.get(key)
        if known is not None and known.clock == board.clock:
            return known
        if known is None:
            change, card = np.full(len(self._all), NOWHERE), np.zeros(len(self._all), np.int64)
            self._fill(key, change, card, self._all)
        else:
            change, card = known.change, known.card
            self._fill(key, change, card, np.flatnonzero(board.touched > known.clock))
        self._known[key] = places = _Places(change, card, int(change.max(initial=NOWHERE)), board.clock)
        return places

    def _fill(self, key: tuple[CardRequest, int], into: Ints, card_into: Ints, nodes: Ints) -> None:
        request, group = key
        fleet = self._board.fleet
        room = fleet.feasible(request, nodes) & self._board.groups[group][nodes]
        into[nodes] = NOWHERE
        some = nodes[room]
        if not len(some):
            return
        change = self._gauge.change(request, some)
        if request.is_shared:
            change = np.where(fleet.left[some] >= request.milli, change, NOWHERE)
        card = change.argmax(1)
        into[some] = change[np.arange(len(some)), card]
        card_into[some] = card


def put(fleet: CardFleet, name: str, request: CardRequest, spot: Spot) -> None:
    """Put a pod where it is said to run. Raises `InputError` where it does not fit beside those before it."""
    try:
        fleet.take(spot, request)
    except (ValueError, IndexError) as error:
        where = fleet.nodes[spot.node].name
        cards = f", cards {', '.join(map(str, spot.cards))}" if spot.cards else ""
        problem = f"does not fit where it is said to be, on {where}{cards}, beside those before it"
        raise InputError(problem, place=f"pod {name}", expected="no more than the node has") from error
