"""Finds the cheapest moves after which a named pod has room: which pods leave a node, and where each of them goes.

On each node that could hold the pod, sets of pods are taken in the order of their cost until what they free suffices;
then each of them is given another place, those that are hard to place first. Where one finds none, room is made for it
in the same way, once. A move never needs one that comes after it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence

import numpy as np

from bayplan.fleet.cards.model import WHOLE, CardRequest, Spot
from bayplan.fleet.cards.repack.board import Board, Places
from bayplan.fleet.cards.repack.gauge import Gauge
from bayplan.fleet.cards.repack.model import Advice, Step
from bayplan.fleet.cards.repack.search import Limits, Plan, told_moves, worth
from bayplan.fleet.cards.state import Bools, Ints, likely_cards

SETS = 400
"""Sets of pods that are tried on one node."""
PLACES = 4
"""Places that are tried for a pod that has to leave."""
SEARCHED, NODES = 300, 60
"""Nodes on which such sets are looked for, and those on which places are, by the least that they could cost."""
TRIES = 2000
"""Moves that are tried in all."""


def make_room(board: Board, gauge: Gauge, request: CardRequest, limits: Limits, among: Bools | None = None) -> Advice:
    """The cheapest moves found after which `request` has room on a node of `among`, and where. The board stays."""
    allowed = np.ones(len(board.fleet), np.bool_) if among is None else among
    there = np.flatnonzero(board.fleet.feasible(request) & allowed)
    before = worth(board, gauge) / gauge.units_per_card
    if len(there):
        spot = _spot(board, request, int(there[0]))
        why = "there is room without any move"
        return Advice(moves=(), before=before, after=before, cost=0, reason=why, complete=True, room=spot)
    found = _Room(board, gauge, limits).plan(request, allowed, chain=1)
    board.go_to(())
    if found is None:
        return Advice(
            moves=(),
            before=before,
            after=before,
            cost=0,
            reason=_why_not(board, request, allowed, limits),
            complete=False,
        )
    plan, node = found
    board.go_to(plan.steps)
    spot, after = _spot(board, request, node), worth(board, gauge) / gauge.units_per_card
    return Advice(
        moves=told_moves(board, gauge, plan.steps),
        before=before,
        after=after,
        cost=plan.cost,
        reason="the cheapest of the plans tried that make room",
        complete=False,
        room=spot,
    )


class _Room:
    def __init__(self, board: Board, gauge: Gauge, limits: Limits) -> None:
        self._board = board
        self._places = Places(board, gauge)
        self._most_moves = limits.moves
        self._most_cost = limits.cost
        self._tries = TRIES

    def plan(
        self, request: CardRequest, allowed: Bools, chain: int, busy: frozenset[int] = frozenset()
    ) -> tuple[Plan, int] | None:
        """The cheapest plan on top of the moves made, and the node that then has room."""
        board = self._board
        best: tuple[tuple[int, int, int], Plan, int] | None = None
        start = tuple(Step(done.pod, done.target) for done in board.made)
        for cost, node, sets in self._candidates(request, allowed, busy):
            if not self._tries or (best is not None and cost >= best[0][0]):
                break
            for pods_cost, pods in sets:
                if best is not None and (pods_cost, len(pods)) >= best[0][:2]:
                    break
                board.go_to(start)
                steps = self._displaced(request, node, pods, chain, busy)
                if steps is None:
                    continue
                total = sum(board.pods[step.pod].cost for step in steps)
                rank = (total, len(steps), node)
                fine = self._most_cost is None or total <= self._most_cost
                if fine and (best is None or rank < best[0]):
                    best = rank, Plan((*start, *steps), 0, total), node
        board.go_to(start)
        return None if best is None else (best[1], best[2])

    def _candidates(
        self, request: CardRequest, allowed: Bools, busy: frozenset[int]
    ) -> Iterator[tuple[int, int, list[tuple[int, tuple[int, ...]]]]]:
        """Nodes with sets of pods that would have to leave, by the least that this could cost."""
        fleet = self._board.fleet
        could = allowed & (fleet.cards >= request.cards) & (fleet.cpu_capacity >= request.cpu_milli)
        could &= fleet.memory_capacity >= request.memory_bytes
        if request.cards:
            could &= fleet.allowed(request.models)
        bounds = []
        for node in np.flatnonzero(could).tolist():
            bound = self._least_cost(request, node, busy)
            if bound is not None:
                bounds.append((bound, node))
        found = 0
        for bound, node in sorted(bounds)[:SEARCHED]:
            sets = self._sets(request, node, busy)
            if sets:
                found += 1
                yield bound, node, sets
            if found == NODES:
                return

    def _least_cost(self, request: CardRequest, node: int, busy: frozenset[int]) -> int | None:
        """Less than what has to leave a node can never cost; None: it cannot be made to have room at all."""
        board = self._board
        movable = [pod for pod in board.on_node[node] if not board.pods[pod].fixed and pod not in busy]
        if not movable or not self._suffices(request, node, movable):
            return None
        least = max(min(board.pods[pod].cost for pod in movable), self._cost_of_cpu(request, node, movable))
        lacking = request.cards - int(board.fleet.idle[node])
        if not request.cards or request.is_shared or lacking <= 0:
            return least
        free = set(movable)
        costs: dict[int, float] = {}
        counts: dict[int, float] = {}
        for pod in board.on_node[node]:
            for card in board.at[pod].cards:
                share = len(board.at[pod].cards)
                costs[card] = costs.get(card, 0) + (board.pods[pod].cost / share if pod in free else math.inf)
                counts[card] = counts.get(card, 0) + 1 / share
        if sum(sorted(counts.values())[:lacking]) > self._most_moves + 1e-9:
            return None
        # Rounded down, so that it stays a bound.
        return max(least, math.floor(sum(sorted(costs.values())[:lacking]) - 1e-6))

    def _cost_of_cpu(self, request: CardRequest, node: int, movable: Sequence[int]) -> int:
        """What the CPU that is lacking could cost at least, were the cheapest of it to be had in any amount."""
        board = self._board
        lacking = request.cpu_milli - int(board.fleet.cpu_free[node])
        cost = 0.0
        some = [(board.pods[pod].cost, board.pods[pod].request.cpu_milli) for pod in movable]
        for price, cpu in sorted((each for each in some if each[1]), key=lambda each: each[0] / each[1]):
            if lacking <= 0:
                break
            cost += price * min(1, lacking / cpu)
            lacking -= cpu
        return math.floor(cost - 1e-6)

    def _sets(self, request: CardRequest, node: int, busy: frozenset[int]) -> list[tuple[int, tuple[int, ...]]]:
        """Sets of pods whose leaving makes room, cheapest first; of larger sets none that holds a smaller one."""
        board = self._board
        pods = [pod for pod in sorted(board.on_node[node]) if not board.pods[pod].fixed and pod not in busy]
        pods.sort(key=lambda pod: (board.pods[pod].cost, pod))
        if not self._suffices(request, node, pods):
            return []
        queue: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())]
        found: list[tuple[int, tuple[int, ...]]] = []
        for _ in range(SETS):
            if not queue:
                break
            cost, count, chosen = heapq.heappop(queue)
            names = tuple(pods[i] for i in chosen)
            if any(set(smaller) <= set(names) for _, smaller in found):
                continue
            if chosen and self._suffices(request, node, names):
                found.append((cost, names))
                continue
            if count < self._most_moves:
                for i in range(chosen[-1] + 1 if chosen else 0, len(pods)):
                    heapq.heappush(queue, (cost + board.pods[pods[i]].cost, count + 1, (*chosen, i)))
        return found

    def _suffices(self, request: CardRequest, node: int, leaving: Sequence[int]) -> bool:
        board, fleet = self._board, self._board.fleet
        cpu, memory = int(fleet.cpu_free[node]), int(fleet.memory_free[node])
        left: Ints = fleet.left[node].copy()
        for pod in leaving:
            own = board.pods[pod].request
            cpu, memory = cpu + own.cpu_milli, memory + own.memory_bytes
            for card in board.at[pod].cards:
                left[card] += own.milli
        if cpu < request.cpu_milli or memory < request.memory_bytes:
            return False
        if request.is_shared:
            return bool(left.max() >= request.milli)
        return int(np.count_nonzero(left == WHOLE)) >= request.cards

    def _displaced(
        self, request: CardRequest, node: int, pods: tuple[int, ...], chain: int, busy: frozenset[int]
    ) -> tuple[Step, ...] | None:
        """Places for all of them, so that the node has room at the end; None: none were found."""
        board = self._board
        start = len(board.made)
        order = sorted(
            pods, key=lambda pod: (-board.pods[pod].request.total_milli, -board.pods[pod].request.cpu_milli, pod)
        )
        if not self._place(request, node, order, chain, busy | set(pods)):
            return None
        steps = tuple(Step(done.pod, done.target) for done in board.made[start:])
        return steps if len(steps) <= self._most_moves else None

    def _place(self, request: CardRequest, node: int, pods: list[int], chain: int, busy: frozenset[int]) -> bool:
        """Moves the pods, one after the other; leaves the moves made only where it succeeds."""
        board = self._board
        if not pods:
            return bool(board.fleet.feasible(request, np.array([node]))[0])
        pod, rest = pods[0], pods[1:]
        start = len(board.made)
        here = board.at[pod]
        options = self._places.best(pod, PLACES, avoid=node)
        if board.pods[pod].request.cards == 1:
            options += self._own(pod, here)
        for _, spot in options:
            if not self._tries:
                return False
            self._tries -= 1
            board.move(Step(pod, spot))
            if self._place(request, node, rest, chain, busy):
                return True
            board.undo_to(start)
        if options or not chain or start + len(pods) >= self._most_moves:
            return False
        elsewhere = board.groups[board.pods[pod].group].copy()
        elsewhere[node] = False
        found = self.plan(board.pods[pod].request, elsewhere, chain - 1, busy)
        if found is None:
            return False
        board.go_to(found[0].steps)
        board.move(Step(pod, _spot(board, board.pods[pod].request, found[1])))
        if self._place(request, node, rest, 0, busy):
            return True
        board.undo_to(start)
        return False

    def _own(self, pod: int, here: Spot) -> list[tuple[int, Spot]]:
        """Other cards of the node that it is on."""
        board, request = self._board, self._board.pods[pod].request
        with board.lifted([pod]):
            cards = np.flatnonzero(board.fleet.left[here.node] >= request.milli).tolist()
        return [(0, Spot(here.node, (card,))) for card in cards if (card,) != here.cards][:PLACES]


def _spot(board: Board, request: CardRequest, node: int) -> Spot:
    return Spot(node, likely_cards(board.fleet.left[node], request))


def _why_not(board: Board, request: CardRequest, allowed: Bools, limits: Limits) -> str:
    fleet = board.fleet
    could = allowed & (fleet.cards >= request.cards)
    if request.cards:
        could &= fleet.allowed(request.models)
    if not could.any():
        return "no node has such cards, and no move changes that"
    if not (could & (fleet.cpu_capacity >= request.cpu_milli) & (fleet.memory_capacity >= request.memory_bytes)).any():
        return "no node with such cards has so much CPU and memory, even if it were empty"
    return f"none of the plans tried, of at most {limits.moves} moves, makes room"
