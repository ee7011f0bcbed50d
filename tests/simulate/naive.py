"""A replay written out with plain numbers, node by node and step by step, to hold the fast one against.

Fragmentation and power follow the definitions of the papers (FGD, USENIX ATC'23; PWR, CCGrid 2025) word for word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from bayplan.fleet.cards.mix import Typical, typical
from bayplan.fleet.cards.model import CardNode, CardRequest
from bayplan.simulate.trace import Trace

WATTS = {"T4": (10, 70), "A10": (30, 150)}


class Step(NamedTuple):
    node: int
    arrived: int
    alloc: int
    frag: float
    watts: float
    used: int
    reason: str


class State:
    def __init__(self, nodes: Sequence[CardNode]) -> None:
        self.nodes = nodes
        self.left = [[1000] * node.cards for node in nodes]
        self.cpu = [node.cpu_milli for node in nodes]
        self.memory = [node.memory_bytes for node in nodes]
        self.pods = [0] * len(nodes)

    def cards_for(self, node: int, request: CardRequest) -> tuple[int, ...] | None:
        """The cards it would get there, or None."""
        enough = [card for card, left in enumerate(self.left[node]) if left >= request.milli]
        if request.models and self.nodes[node].model not in request.models:
            return None
        if self.cpu[node] < request.cpu_milli or self.memory[node] < request.memory_bytes:
            return None
        if request.cards == 0:
            return ()
        if len(enough) < request.cards:
            return None
        if request.milli < 1000:
            return (min(enough, key=lambda card: (self.left[node][card], card)),)
        return tuple(enough[: request.cards])

    def change(self, node: int, cards: Sequence[int], request: CardRequest, sign: int) -> None:
        for card in cards:
            self.left[node][card] -= sign * request.milli
        self.cpu[node] -= sign * request.cpu_milli
        self.memory[node] -= sign * request.memory_bytes
        self.pods[node] += sign

    def fragmented(self, mix: Sequence[Typical]) -> float:
        return sum(share * self._for(node, kind) for node in range(len(self.nodes)) for kind, share in mix)

    def _for(self, node: int, kind: object) -> int:
        assert isinstance(kind, tuple)
        cpu, milli, cards, models = kind
        left = self.left[node]
        idle = sum(left)
        if cards == 0 or (models and self.nodes[node].model not in models):
            return idle
        if sum(1 for each in left if each >= milli) < cards or self.cpu[node] < cpu:
            return idle
        return sum(each for each in left if each < milli)

    def watts(self) -> float:
        total = 0.0
        for node, shape in enumerate(self.nodes):
            low, high = WATTS.get(shape.model, (30, 150))
            total += sum(low if left == 1000 else high for left in self.left[node])
            cores = math.ceil(shape.cpu_milli / 2000)
            free = self.cpu[node] // 2000
            sockets, active = math.ceil(cores / 16), math.ceil((cores - free) / 16)
            total += 120 * active + 15 * (sockets - active)
        return total


class Naive(NamedTuple):
    steps: list[Step]
    energy_joule: float
    alloc_seconds: float


def replay(trace: Trace) -> Naive:
    """With the policy of conftest: least left of the cards, then of the CPU, then the first."""
    state = State(trace.nodes)
    mix = typical(trace.counts)
    here: list[tuple[float, int, int, tuple[int, ...], CardRequest]] = []
    steps: list[Step] = []
    energy = alloc_seconds = 0.0
    now = float(trace.arrives_s[0]) if trace.arrives_s is not None else 0.0
    for i, which in enumerate(trace.arrivals.tolist()):
        request = trace.requests[which]
        time = float(trace.arrives_s[i]) if trace.arrives_s is not None else now
        for leaver in sorted(each for each in here if each[0] <= time):
            here.remove(leaver)
            energy += state.watts() * (leaver[0] - now)
            alloc_seconds += _alloc([*here, leaver]) * (leaver[0] - now)
            now = leaver[0]
            if leaver[2] >= 0:
                state.change(leaver[2], leaver[3], leaver[4], -1)
        energy += state.watts() * (time - now)
        alloc_seconds += _alloc(here) * (time - now)
        now = time
        room = [node for node in range(len(trace.nodes)) if state.cards_for(node, request) is not None]
        node = min(room, key=lambda n: (sum(state.left[n]), state.cpu[n], n), default=-1)
        cards = state.cards_for(node, request) if node >= 0 else ()
        assert cards is not None
        reason = "" if node >= 0 else _why(state, request)
        if node >= 0:
            state.change(node, cards, request, 1)
        leaves = float(trace.leaves_s[i]) if trace.leaves_s is not None else math.inf
        here.append((leaves, i, node, cards, request))
        arrived = sum(each[4].total_milli for each in here)
        used = sum(1 for pods in state.pods if pods)
        steps.append(Step(node, arrived, _alloc(here), state.fragmented(mix), state.watts(), used, reason))
    return Naive(steps, energy, alloc_seconds)


def _alloc(here: Sequence[tuple[float, int, int, tuple[int, ...], CardRequest]]) -> int:
    return sum(each[4].total_milli for each in here if each[2] >= 0)


def _why(state: State, request: CardRequest) -> str:
    nodes = list(range(len(state.nodes)))
    if request.cards:
        nodes = [n for n in nodes if state.left[n] and (not request.models or state.nodes[n].model in request.models)]
        if not nodes:
            return "model"
        nodes = [n for n in nodes if sum(1 for left in state.left[n] if left >= request.milli) >= request.cards]
        if not nodes:
            return "cards"
    return "memory" if any(state.cpu[n] >= request.cpu_milli for n in nodes) else "cpu"
