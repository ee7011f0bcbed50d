"""Finds the few moves after which most of the cards can be used.

Small cases are searched completely: every sequence of moves within the limits. Larger ones with a beam: the best plans
of so many moves are each gone on with by the best single moves, and by groups of moves that pay only together: all pods
of one card leave it, or several pods without cards leave a node whose CPU is short. Every move has room when it is
made. More gain is better, then less cost, then fewer moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bayplan.fleet.cards.model import Spot
from bayplan.fleet.cards.repack.board import NOWHERE, Board, Places
from bayplan.fleet.cards.repack.gauge import Gauge
from bayplan.fleet.cards.repack.model import Advice, Move, Step
from bayplan.fleet.cards.state import idle_cards

WIDTH = 3
"""Plans that are gone on with."""
SINGLES = 6
GROUPS = 12
"""Singles and groups that each of them is gone on with by."""
PLACES = 2
EXACT_PLANS = 20_000
"""No more sequences of moves than this are tried one by one."""


class Limits(NamedTuple):
    """At most so many moves, at most so much cost (in thousandths; None: any)."""

    moves: int
    cost: int | None = None


class Plan(NamedTuple):
    """Moves in order, with what they gain in units of the gauge and what they cost."""

    steps: tuple[Step, ...] = ()
    gain: int = 0
    cost: int = 0

    @property
    def rank(self) -> tuple[int, int, int]:
        """Smaller is better."""
        return -self.gain, self.cost, len(self.steps)


def repack(board: Board, gauge: Gauge, limits: Limits) -> Advice:
    """The best plan that was found. The board is as it was afterwards."""
    if not board.movable:
        why = "no pod may be moved" if board.pods else "no pod runs here"
        return _told(board, gauge, Plan(), why, complete=True)
    complete = _sequences(board, limits.moves) <= EXACT_PLANS
    plan = _all_plans(board, gauge, limits) if complete else _Beam(board, gauge, limits).best()
    board.go_to(())
    plan = plan if complete else _without_idle_moves(board, gauge, plan)
    board.go_to(())
    return _told(board, gauge, plan, _reason(plan, limits, complete), complete=complete)


def worth(board: Board, gauge: Gauge) -> int:
    """What all nodes come to."""
    return int(gauge.worth(np.arange(len(board.fleet))).sum())


def spots(board: Board, pod: int) -> Iterator[Spot]:
    """Everywhere else that a pod could go now, one choice of cards for whole ones on each node."""
    request, here = board.pods[pod].request, board.at[pod]
    found: list[Spot] = []
    with board.lifted([pod]):
        for node in np.flatnonzero(board.room(pod, np.arange(len(board.fleet)))).tolist():
            left = board.fleet.left[node]
            if request.is_shared:
                found += [Spot(node, (card,)) for card in np.flatnonzero(left >= request.milli).tolist()]
            else:
                found.append(Spot(node, idle_cards(left, request.cards)))
    for spot in found:
        if spot != here and (request.cards or spot.node != here.node):
            yield spot


def _sequences(board: Board, moves: int) -> int:
    """Sequences of moves at most, roughly: any movable pod to any card of any node."""
    places = int(np.maximum(board.fleet.cards, 1).sum())
    return int((len(board.movable) * places) ** min(moves, 40))


def _all_plans(board: Board, gauge: Gauge, limits: Limits) -> Plan:
    start = worth(board, gauge)
    best = Plan()
    layer: list[Plan] = [Plan()]
    cheapest: dict[tuple[Spot, ...], int] = {tuple(board.at): 0}
    for _ in range(limits.moves):
        following: list[Plan] = []
        for plan in layer:
            board.go_to(plan.steps)
            options = [Step(pod, spot) for pod in board.movable for spot in spots(board, pod)]
            for step in options:
                cost = plan.cost + board.pods[step.pod].cost
                if limits.cost is not None and cost > limits.cost:
                    continue
                board.go_to((*plan.steps, step))
                key = tuple(board.at)
                if cheapest.get(key, cost + 1) <= cost:
                    continue
                cheapest[key] = cost
                made = Plan((*plan.steps, step), worth(board, gauge) - start, cost)
                following.append(made)
                if made.rank < best.rank:
                    best = made
        layer = following
    return best


def _order(plan: Plan) -> tuple[tuple[int, int, int], list[tuple[int, int, tuple[int, ...]]]]:
    return plan.rank, [step.order for step in plan.steps]


class _Single(NamedTuple):
    gain: int
    step: Step


class _Beam:
    """See the module. What leaving a node gains is kept by pod, for as long as the node did not change."""

    def __init__(self, board: Board, gauge: Gauge, limits: Limits) -> None:
        self._board = board
        self._gauge = gauge
        self._limits = limits
        self._places = Places(board, gauge)
        self._left: dict[tuple[int, bytes], tuple[int, tuple[tuple[int, Spot], ...]]] = {}
        self._groups: dict[tuple[int, bytes], list[tuple[int, tuple[int, ...]]]] = {}
        self._movable = [{pod for pod in on if not board.pods[pod].fixed} for on in board.on_node]

    def best(self) -> Plan:
        """The best plan that was found."""
        best, open_plans = Plan(), [Plan()]
        by_length: dict[int, list[Plan]] = {0: open_plans}
        for length in range(self._limits.moves):
            for plan in sorted(by_length.get(length, []), key=_order)[:WIDTH]:
                for made in self._following(plan):
                    by_length.setdefault(len(made.steps), []).append(made)
                    if made.rank < best.rank:
                        best = made
        return best

    def _following(self, plan: Plan) -> list[Plan]:
        self._board.go_to(plan.steps)
        left = self._limits.moves - len(plan.steps)
        made = [self._with(plan, (single.step,), single.gain) for single in self._singles(plan)]
        for pods in self._promising(left):
            self._board.go_to(plan.steps)
            found = self._group(pods)
            if found is not None:
                made.append(self._with(plan, *found))
        most = self._limits.cost
        seen: dict[frozenset[Step], Plan] = {}
        for each in made:
            if most is None or each.cost <= most:
                seen.setdefault(frozenset(each.steps), each)
        return list(seen.values())

    def _with(self, plan: Plan, steps: tuple[Step, ...], gain: int) -> Plan:
        cost = sum(self._board.pods[step.pod].cost for step in steps)
        return Plan((*plan.steps, *steps), plan.gain + gain, plan.cost + cost)

    def _singles(self, plan: Plan) -> list[_Single]:
        board = self._board
        moved = {step.pod for step in plan.steps}
        found: list[tuple[int, int, Step]] = []
        floor = [NOWHERE] * SINGLES
        for pod in board.movable:
            if pod in moved:
                continue
            out, own = self._leaving(pod)
            most = self._places.most(pod)
            bound = out + max(most, *(change for change, _ in own)) if own else out + most
            if (most == NOWHERE and not own) or bound <= 0 or bound < floor[0]:
                continue
            for change, spot in [*self._places.best(pod, PLACES, avoid=board.at[pod].node), *own]:
                gain = out + change
                if gain > 0:
                    found.append((gain, board.pods[pod].cost, Step(pod, spot)))
                    floor = sorted([*floor, gain])[1:]
        found.sort(key=lambda each: (-each[0], each[1], each[2].order))
        return [_Single(gain, step) for gain, _, step in found[:SINGLES]]

    def _leaving(self, pod: int) -> tuple[int, tuple[tuple[int, Spot], ...]]:
        """What is gained where a pod leaves, and the changes by its other places on the same node."""
        board = self._board
        here = board.at[pod]
        key = (pod, self._state(here.node) + bytes(here.cards))
        if key not in self._left:
            nodes = np.array([here.node])
            before = int(self._gauge.worth(nodes)[0])
            with board.lifted([pod]):
                out = int(self._gauge.worth(nodes)[0]) - before
                own = self._places.on(pod, here.node) if board.pods[pod].request.is_shared else []
            self._left[key] = out, tuple(each for each in own if each[1] != here)
        return self._left[key]

    def _state(self, node: int) -> bytes:
        fleet = self._board.fleet
        row: bytes = fleet.left[node].tobytes()
        return (
            row + int(fleet.cpu_free[node]).to_bytes(8, "little") + int(fleet.memory_free[node]).to_bytes(8, "little")
        )

    def _promising(self, most_moves: int) -> list[tuple[int, ...]]:
        """Groups of pods that could gain most for each move, were they to leave together."""
        found: list[tuple[float, tuple[int, ...]]] = []
        for node, movable in enumerate(self._movable):
            here = sorted(self._board.on_node[node])
            if len(here) < 2 or not movable & set(here):
                continue
            key = (node, self._state(node) + b"".join(pod.to_bytes(4, "little") for pod in here))
            if key not in self._groups:
                self._groups[key] = [(self._emptied(node, pods), pods) for pods in self._groups_of(here)]
            for out, pods in self._groups[key]:
                if len(pods) <= most_moves:
                    bound = out + sum(self._places.most(pod) for pod in pods)
                    if bound > 0:
                        found.append((bound / len(pods), pods))
        found.sort(key=lambda each: (-each[0], each[1]))
        return [pods for _, pods in found[:GROUPS]]

    def _groups_of(self, here: list[int]) -> Iterator[tuple[int, ...]]:
        board = self._board
        on_card: dict[int, list[int]] = {}
        without: list[int] = []
        for pod in here:
            request = board.pods[pod].request
            if request.is_shared:
                on_card.setdefault(board.at[pod].cards[0], []).append(pod)
            elif not request.cards and not board.pods[pod].fixed:
                without.append(pod)
        for pods in on_card.values():
            if 2 <= len(pods) <= self._limits.moves and not any(board.pods[pod].fixed for pod in pods):
                yield tuple(sorted(pods, key=lambda pod: (-board.pods[pod].request.milli, pod)))
        without.sort(key=lambda pod: (-board.pods[pod].request.cpu_milli, pod))
        for count in range(2, min(len(without), self._limits.moves) + 1):
            yield tuple(without[:count])

    def _emptied(self, node: int, pods: tuple[int, ...]) -> int:
        board = self._board
        nodes = np.array([node])
        before = int(self._gauge.worth(nodes)[0])
        with board.lifted(pods):
            return int(self._gauge.worth(nodes)[0]) - before

    def _group(self, pods: tuple[int, ...]) -> tuple[tuple[Step, ...], int] | None:
        """All of them leave their card, or their node, each for the best place at its turn; None: one finds none."""
        board = self._board
        start = len(board.made)
        before = worth(board, self._gauge)
        steps: list[Step] = []
        for pod in pods:
            here = board.at[pod]
            own = [each for each in self._leaving(pod)[1] if each[1].cards != here.cards]
            options = [*self._places.best(pod, 1, avoid=here.node), *own]
            if not options:
                break
            step = Step(pod, max(options, key=lambda each: each[0])[1])
            board.move(step)
            steps.append(step)
        gain = worth(board, self._gauge) - before
        board.undo_to(start)
        return (tuple(steps), gain) if len(steps) == len(pods) and gain > 0 else None


def _without_idle_moves(board: Board, gauge: Gauge, plan: Plan) -> Plan:
    """The plan without moves that the others can do without."""
    start = worth(board, gauge)
    for i in reversed(range(len(plan.steps))):
        steps = plan.steps[:i] + plan.steps[i + 1 :]
        try:
            board.go_to(())
            board.go_to(steps)
        except ValueError:
            continue
        gain = worth(board, gauge) - start
        if gain >= plan.gain:
            plan = Plan(steps, gain, sum(board.pods[step.pod].cost for step in steps))
    return plan


def told_moves(board: Board, gauge: Gauge, steps: tuple[Step, ...]) -> tuple[Move, ...]:
    """The moves with what each gains, made one after the other; the board is as it was afterwards."""
    board.go_to(())
    before = worth(board, gauge)
    moves = []
    for step in steps:
        source = board.move(step).source
        after = worth(board, gauge)
        moves.append(
            Move(
                pod=board.pods[step.pod].name,
                source=source,
                target=step.target,
                cost=board.pods[step.pod].cost,
                gain=(after - before) / gauge.units_per_card,
                usable=after / gauge.units_per_card,
            )
        )
        before = after
    board.go_to(())
    return tuple(moves)


def _told(board: Board, gauge: Gauge, plan: Plan, reason: str, *, complete: bool) -> Advice:
    before = worth(board, gauge)
    return Advice(
        moves=told_moves(board, gauge, plan.steps),
        before=before / gauge.units_per_card,
        after=(before + plan.gain) / gauge.units_per_card,
        cost=plan.cost,
        reason=reason,
        complete=complete,
    )


def _reason(plan: Plan, limits: Limits, complete: bool) -> str:
    within = f"at most {limits.moves} {'move' if limits.moves == 1 else 'moves'}"
    within += "" if limits.cost is None else f" that cost at most {limits.cost / 1000:g}"
    if not plan.steps:
        return (
            f"no {within.removeprefix('at most ')} would make more of the cards usable"
            if complete
            else (f"none of the plans tried, of {within}, makes more of the cards usable")
        )
    if complete:
        return f"nothing better exists within {within}"
    return f"the best of the plans tried within {within}"
