"""PWR: where the watts drawn grow least.

Facts: Lettich et al., CCGrid 2025 (arXiv 2412.17484).
"""

from __future__ import annotations

import numpy as np

from bayplan.fleet.cards.literature.by_score import MOST, ScorePolicy, refuse_option, stretched
from bayplan.fleet.cards.literature.known_scores import with_room
from bayplan.fleet.cards.mix import PodKind, kind_of
from bayplan.fleet.cards.model import CardRequest
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.power import OPENB, PowerModel, PowerTable
from bayplan.fleet.cards.state import Bools, Floats, Ints


class LeastPowerPolicy(ScorePolicy):
    """See the module."""

    def __init__(self, setup: PolicySetup, table: PowerTable = OPENB) -> None:
        refuse_option("pwr", setup)
        super().__init__(setup)
        self._power = PowerModel(setup.fleet, table)

    def score(self, kind: PodKind, nodes: Ints) -> Ints:
        """The whole watts that a node would draw less (so 0 or below), on the card where they are fewest."""
        less: Ints = np.trunc(-self._more_watts(kind, nodes).min(1)).astype(np.int64)
        return less

    def shared_card(self, kind: PodKind, node: int) -> int:
        """The first of those where the watts are fewest."""
        return int(np.trunc(self._more_watts(kind, np.array([node]))[0]).argmin())

    def scores(self, request: CardRequest) -> Ints:
        """Stretched between the nodes with room."""
        return self.stretched(request, None)

    def stretched(self, request: CardRequest, among: Bools | None) -> Ints:
        """0 to 100 by node, between those with room `among` those asked about; `NO_ROOM` for the others."""
        raw = self.known.of(kind_of(request))
        return stretched(with_room(self.fleet, request, raw, among), if_equal=MOST)

    def _more_watts(self, kind: PodKind, nodes: Ints) -> Floats:
        more = self._power.more_watts(kind, nodes)
        return np.where(self.fleet.left[nodes] >= kind.milli, more, np.inf) if kind.is_shared else more
