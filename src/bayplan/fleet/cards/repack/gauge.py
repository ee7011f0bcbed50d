"""How much of a node's cards can be used: the measure that repacking raises. In whole units, so that sums are exact.

`UsableShare`: what is idle less what is fragmented for the mix of pods (see `cards.fragmentation`). `IdleCards`: the
cards that are wholly free, whoever may come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from bayplan.fleet.cards.fragmentation import Fragmentation
from bayplan.fleet.cards.mix import Typical, kind_of
from bayplan.fleet.cards.model import WHOLE, CardRequest
from bayplan.fleet.cards.state import CardFleet, Ints


class Gauge(Protocol):
    """A measure by node. `units_per_card`: what one card that is wholly usable counts."""

    units_per_card: int

    def worth(self, nodes: Ints) -> Ints:
        """Of these nodes as they are now (n)."""
        ...

    def change(self, request: CardRequest, nodes: Ints) -> Ints:
        """What a pod there would change: by node and card it takes a part of (n, G), else (n, 1). See `exact_after`."""
        ...


class UsableShare:
    """See the module."""

    def __init__(self, fleet: CardFleet, typical: Sequence[Typical]) -> None:
        self._fleet = fleet
        self._fragmentation = Fragmentation(fleet, typical)
        self.units_per_card = WHOLE * self._fragmentation.units_per_milli

    def worth(self, nodes: Ints) -> Ints:
        """See `Gauge.worth`."""
        idle = self._fleet.left[nodes].sum(1) * self._fragmentation.units_per_milli
        usable: Ints = idle - self._fragmentation.exact(nodes)
        return usable

    def change(self, request: CardRequest, nodes: Ints) -> Ints:
        """See `Gauge.change`."""
        after = self._fragmentation.exact_after(kind_of(request), nodes)
        lost = request.total_milli * self._fragmentation.units_per_milli
        change: Ints = self._fragmentation.exact(nodes)[:, None] - after - lost
        return change


class IdleCards:
    """See the module."""

    units_per_card = 1

    def __init__(self, fleet: CardFleet) -> None:
        self._fleet = fleet

    def worth(self, nodes: Ints) -> Ints:
        """See `Gauge.worth`."""
        idle: Ints = self._fleet.idle[nodes]
        return idle

    def change(self, request: CardRequest, nodes: Ints) -> Ints:
        """See `Gauge.change`."""
        if not request.is_shared:
            return np.full((len(nodes), 1), -request.cards, np.int64)
        change: Ints = -(self._fleet.left[nodes] == WHOLE).astype(np.int64)
        return change
