"""The choice of a place by trying every node and card, with the values that are written out; nothing is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tests.fleet.cards.values import written_out

from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import WHOLE, CardRequest, Spot
from bayplan.fleet.cards.state import Bools, CardFleet
from bayplan.fleet.cards.values.constants import Constants
from bayplan.fleet.cards.values.kinds import STEP_MILLI, STEPS

UNIT = 2**30


class SlowFleet:
    """What the nodes of a fleet are worth at `prices`, by kind in GPUs; `counts` is the mix they were found for."""

    def __init__(
        self, fleet: CardFleet, counts: Mapping[PodKind, int], prices: Mapping[PodKind, float], constants: Constants
    ) -> None:
        self.fleet = fleet
        self.counts = counts
        self.prices = prices
        self.constants = constants
        self._known: dict[tuple[str, float], tuple[list[float], list[float]]] = {}

    def tables(self, model: str, cpu_price: float) -> tuple[list[float], list[float]]:
        """What leftovers, by steps, and idle cards, by how many, are worth."""
        key = model, cpu_price
        if key not in self._known:
            self._known[key] = self._worked_out(model, cpu_price)
        return self._known[key]

    def worth(self, node: int, cpu_milli: int, left: Sequence[int]) -> float:
        """W of a node with so much CPU and such parts of its cards free."""
        found = []
        for cpu_price in self.constants.cpu_prices:
            single, idle = self.tables(self.fleet.nodes[node].model, cpu_price)
            cards = idle[sum(milli == WHOLE for milli in left)]
            # Largest first: equal nodes are to come to equal sums.
            partly = [single[milli // STEP_MILLI] for milli in sorted(left, reverse=True) if 0 < milli < WHOLE]
            found.append(cpu_price * cpu_milli / 1000 + cards + sum(partly))
        return min(found)

    def losses(self, request: CardRequest, among: Bools | None = None) -> dict[Spot, float]:
        """By place, in the order of nodes and cards, by how many GPUs the fleet's worth drops."""
        found = {}
        for node in range(len(self.fleet)):
            if not self._has_room(node, request) or (among is not None and not among[node]):
                continue
            cpu, left = int(self.fleet.cpu_free[node]), self.fleet.left[node].tolist()
            before = self.worth(node, cpu, left)
            for cards in ways(left, request):
                after = [milli - request.milli * (card in cards) for card, milli in enumerate(left)]
                found[Spot(node, cards)] = before - self.worth(node, cpu - request.cpu_milli, after)
        return found

    def place(self, request: CardRequest, among: Bools | None = None) -> Spot | None:
        """The first of those that lose least."""
        units = {spot: round(loss * UNIT) for spot, loss in self.losses(request, among).items()}
        return min(units, key=lambda spot: units[spot], default=None)

    def _has_room(self, node: int, request: CardRequest) -> bool:
        model_fits = not request.models or self.fleet.nodes[node].model in request.models
        return bool(
            self.fleet.cpu_free[node] >= request.cpu_milli
            and self.fleet.memory_free[node] >= request.memory_bytes
            and (not request.cards or model_fits)
        )

    def _worked_out(self, model: str, cpu_price: float) -> tuple[list[float], list[float]]:
        tau, total = self.constants.softness, sum(self.counts.values())
        share = {kind: count / total for kind, count in self.counts.items() if kind.cards}
        profit = {
            kind: self.prices[kind] - cpu_price * kind.cpu_milli / 1000 if self._admits(model, kind) else 0.0
            for kind in share
        }
        of_singles = sum(share[kind] for kind in share if kind.cards == 1)
        single = written_out.leftovers(
            [
                ((1 - self.constants.stop) * share[kind] / of_singles, profit[kind], written_out.size(kind))
                for kind in share
                if kind.cards == 1
            ],
            tau,
        )
        gains = {1: (sum(share[kind] * written_out.face(kind) for kind in share if kind.cards == 1), single[STEPS])}
        for number in {kind.cards for kind in share} - {1}:
            members = [kind for kind in share if kind.cards == number]
            gains[number] = sum(share[kind] for kind in members), max(profit[kind] for kind in members)
        return single, written_out.idle_cards(gains, int(self.fleet.cards.max(initial=0)), tau)

    def _admits(self, model: str, kind: PodKind) -> bool:
        return not kind.models or model in kind.models


def ways(left: Sequence[int], request: CardRequest) -> list[tuple[int, ...]]:
    """The cards of one node that a pod could take: each that suffices, or the lowest idle ones."""
    if request.is_shared:
        return [(card,) for card, milli in enumerate(left) if milli >= request.milli]
    idle = tuple(np.flatnonzero(np.array(left) == WHOLE)[: request.cards].tolist())
    return [idle] if len(idle) == request.cards else []
