"""What a kW counts in the choice of a node, in GPUs, while the fleet has room enough not to care where pods go.

Cards that draw more than the fleet's usual ones are left for later, but only as long as what is still to come could
fill them later too: a card on a node with little CPU has to take single-card pods with little CPU while they come.
CPU sockets are filled up as long as there will be CPU enough for all that comes.
"""

from __future__ import annotations

import numpy as np

from bayplan.fleet.cards.model import WHOLE, CardRequest
from bayplan.fleet.cards.power import PowerModel
from bayplan.fleet.cards.state import CardFleet, Floats, Ints
from bayplan.fleet.cards.values.constants import Constants
from bayplan.fleet.cards.values.kinds import PricedKinds

_FADE = 10.0
_NEEDED = (0.8, 0.9)
"""Between these parts of what is to come for them, expensive cards go from being needed now to being left for later."""
_CPU_SHORT = (0.85, 0.95)


class Watts:
    """The term of the losses that stands for power. `renew` is called when prices move."""

    def __init__(self, fleet: CardFleet, constants: Constants) -> None:
        self._fleet = fleet
        self._constants = constants
        self._power = PowerModel(fleet)
        self._more_kw: Floats = self._power.card_w / 1000
        usual = np.sort(np.repeat(self._more_kw, fleet.cards))
        self._usual_kw = float(usual[len(usual) // 2]) if usual.size else 0.0
        self._later: Floats = np.ones(len(fleet))
        self._cpu_part = 1.0

    def renew(self, kinds: PricedKinds, horizon: float) -> None:
        """What can be left for later, if `horizon` pods of the mix are still to come."""
        free = float(self._fleet.cpu_free.sum()) / 1000
        short = horizon * kinds.mean_cpu / max(free, 1e-9)
        self._cpu_part = float(np.clip((_CPU_SHORT[1] - short) / (_CPU_SHORT[1] - _CPU_SHORT[0]), 0, 1))
        self._later = np.ones(len(self._fleet))
        dear = np.flatnonzero((self._fleet.idle > 0) & (self._more_kw > self._usual_kw))
        if dear.size:
            cover = self._cover(kinds, horizon, dear)
            self._later[dear] = np.clip((cover - _NEEDED[0]) / (_NEEDED[1] - _NEEDED[0]), 0, 1)

    def gpus(self, request: CardRequest, nodes: Ints, left: Ints) -> Floats:
        """What the watts of each choice count: `left` is what is free of the card before (see `Choices`)."""
        part = self._weight()
        if not part:
            return np.zeros(len(nodes))
        found = (self._constants.cpu_watts * self._cpu_part * part / 1000) * self._power.more_cpu_watts(
            request.cpu_milli, nodes
        )
        if request.cards:
            dearer = self._later[nodes] * (self._more_kw[nodes] - self._usual_kw)
            found += self._constants.card_watts * part * np.where(left == WHOLE, request.cards * dearer, 0.0)
        return found

    def _weight(self) -> float:
        used = self._fleet.allocated_milli / max(self._fleet.capacity_milli, 1)
        return min(1.0, _FADE * max(0.0, 1 - used / self._constants.quiet_until))

    def _cover(self, kinds: PricedKinds, horizon: float, nodes: Ints) -> Floats:
        """By how much the single-card pods to come with little enough CPU exceed the cards that have no more for them.

        For each node: what is to come for cards with at most its vCPU per idle card, over the number of such cards.
        """
        single = kinds.single
        need = kinds.cpu[single] / kinds.gpus[single]
        order = np.argsort(need, kind="stable")
        demand = np.concatenate(([0.0], np.cumsum((kinds.share * kinds.gpus)[single][order]))) * horizon
        spare = self._fleet.cpu_free[nodes] / 1000 / self._fleet.idle[nodes]
        by_spare = np.argsort(spare, kind="stable")
        cards = np.concatenate(([0], np.cumsum(self._fleet.idle[nodes][by_spare])))
        has = cards[np.searchsorted(spare[by_spare], spare, side="right")]
        comes = demand[np.searchsorted(need[order], spare, side="right")]
        return comes / has
