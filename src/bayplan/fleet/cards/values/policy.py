"""A pod goes where the fleet's value drops least.

Of all nodes with room, and of all different leftovers on each, the one is taken for which W(before) - W(after) is the
smallest (`node_values`); of equal ones the first node and its lowest card. Losses are compared in units of 2**-30 GPU,
so that what is equal but for rounding is equal. The method is told in docs/cards.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayplan.fleet.cards.mix import PodKind, kind_of
from bayplan.fleet.cards.model import WHOLE, CardRequest, Spot
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import Bools, Floats, Ints, idle_cards
from bayplan.fleet.cards.values.choices import Choices, choices_for
from bayplan.fleet.cards.values.constants import Constants
from bayplan.fleet.cards.values.kinds import PricedKinds
from bayplan.fleet.cards.values.learning import LearntMix, ignorance
from bayplan.fleet.cards.values.modes import modes
from bayplan.fleet.cards.values.node_values import NodeValues
from bayplan.fleet.cards.values.prices import Prices
from bayplan.fleet.cards.values.watts import Watts

_UNIT = 2.0**30
_TRIED_FIRST = 16


class ValuesPolicy:
    """See the module. Prices move every few arrivals; between them a decision is a function of the fleet's state."""

    def __init__(self, setup: PolicySetup, constants: Constants | None = None) -> None:
        self._modes = modes(setup.option)
        self._fleet = setup.fleet
        self._constants = constants or Constants()
        self._cpu_prices: Floats = np.array(self._constants.cpu_prices)
        self._nodes = NodeValues(setup.fleet, self._cpu_prices)
        self._watts = Watts(setup.fleet, self._constants) if self._modes.power else None
        counts = setup.counts or ignorance(setup.fleet, self._constants.ignorance)
        self._mix: LearntMix | None = None
        if self._modes.learning or not setup.counts:
            self._mix = LearntMix(counts, self._constants.half_life)
        self._every = max(
            self._constants.arrivals_per_step, int(setup.fleet.cards.sum()) // self._constants.cards_per_arrival
        )
        self._restarts = () if setup.counts else self._constants.restarts
        self._settled = bool(setup.counts)
        self._entering: dict[PodKind, float] = {}
        self._arrivals = 0
        self._start(counts)

    def seen(self, request: CardRequest) -> None:
        """See `CardPolicy.seen`."""
        if self._arrivals and self._arrivals % self._every == 0:
            self._renew(everything=False)
            self._learn()
            self._step(1)
        self._arrivals += 1
        if self._mix is not None:
            self._mix.add(kind_of(request))

    def place(self, request: CardRequest, among: Bools | None = None) -> Spot | None:
        """See `CardPolicy.place`. Where `admission` refuses a pod there is room for, None as well."""
        self._renew(everything=False)
        room = self._fleet.feasible(request)
        if among is not None:
            room &= among
        choices = self._choices(request, room)
        if not choices.node.size:
            return None
        best, loss = self._best(request, choices)
        self._note_entry(request, loss)
        if self._modes.admission and loss > request.total_milli / WHOLE + self._constants.margin:
            return None
        return self._spot(request, choices, best)

    def scores(self, request: CardRequest) -> Floats:
        """See `CardPolicy.scores`: what the fleet loses, negative, in GPUs."""
        self._renew(everything=False)
        choices = self._choices(request, self._fleet.feasible(request))
        found = np.full(len(self._fleet), -np.inf)
        losses = self._losses(request, choices, np.arange(len(choices.node)))
        np.maximum.at(found, choices.node, -(losses + self._extra(request, choices)))
        return found

    def _start(self, counts: Mapping[PodKind, float]) -> None:
        """Find the prices for a mix from nothing."""
        self._take_over(counts, {})
        self._step(self._constants.first_steps)

    def _take_over(self, counts: Mapping[PodKind, float], known: Mapping[PodKind, float]) -> None:
        """Price this mix from now on; `known` are prices that are kept."""
        kinds = PricedKinds(counts, self._fleet.models)
        self._prices = Prices(kinds, self._fleet, self._cpu_prices, self._constants, known)
        self._renew(everything=True)

    def _step(self, times: int) -> None:
        for _ in range(times):
            self._prices.step(self._nodes, self._idle_gpus())
            self._renew(everything=True)
        if self._watts is not None:
            self._watts.renew(self._prices.kinds, self._prices.horizon(self._idle_gpus()))

    def _learn(self) -> None:
        """Take over the mix as it is known now; kinds that were known keep their prices."""
        if self._mix is None:
            return
        if self._restarts and self._arrivals >= self._restarts[0]:
            self._restarts = tuple(later for later in self._restarts if later > self._arrivals)
            self._settled = True
            self._start(self._mix.counts())
            return
        self._take_over(self._mix.counts(), {**self._entering, **self._prices.by_kind()})
        self._entering.clear()

    def _note_entry(self, request: CardRequest, loss: float) -> None:
        """A kind that is new starts at what it costs the fleet, or it would pull all cards to it at face value.

        Only where prices are settled: before the first restart they start as those that name the same models.
        """
        kind = kind_of(request)
        if self._mix is None or not request.cards or not self._settled or self._prices.knows(kind):
            return
        face = request.total_milli / WHOLE
        self._entering.setdefault(kind, min(max(loss, self._constants.floor * face), face))

    def _idle_gpus(self) -> float:
        return (self._fleet.capacity_milli - self._fleet.allocated_milli) / WHOLE

    def _renew(self, *, everything: bool) -> None:
        self._nodes.renew(self._prices.table_of_node, self._prices.tables.values, everything=everything)

    def _choices(self, request: CardRequest, room: Bools) -> Choices:
        return choices_for(request, self._fleet, room, self._prices.table_of_node, self._prices.tables.values)

    def _best(self, request: CardRequest, choices: Choices) -> tuple[Ints, float]:
        """The choices with the smallest loss, and that loss.

        At the CPU price of the node as it is, a loss comes out no larger than it is, since the price afterwards is the
        one that makes it largest; so only few need to be looked at at every price.
        """
        rows, prices = self._prices.tables.values.rows, len(self._cpu_prices)
        flat, price = rows.ravel(), self._nodes.price[choices.node]
        bound = self._cpu_prices[price] * (request.cpu_milli / 1000) + flat[choices.lost * prices + price]
        bound -= flat[choices.gained * prices + price]
        bound -= flat[choices.opened * prices + price]
        extra = self._extra(request, choices)
        units = np.rint((bound + extra) * _UNIT) - 1
        likely = np.arange(len(units))
        if len(units) > _TRIED_FIRST:
            tried = np.argpartition(units, _TRIED_FIRST)[:_TRIED_FIRST]
            first = np.rint((self._losses(request, choices, tried) + extra[tried]) * _UNIT)
            likely = np.flatnonzero(units <= first.min())
        losses = np.rint((self._losses(request, choices, likely) + extra[likely]) * _UNIT)
        return likely[losses == losses.min()], float(losses.min()) / _UNIT

    def _extra(self, request: CardRequest, choices: Choices) -> Floats:
        """What counts beside the value of the fleet, by choice."""
        if self._watts is None:
            return np.zeros(len(choices.node))
        return self._watts.gpus(request, choices.node, choices.left)

    def _losses(self, request: CardRequest, choices: Choices, which: Ints) -> Floats:
        """By how many GPUs the value of the fleet drops."""
        rows, node = self._prices.tables.values.rows, choices.node[which]
        after = self._nodes.base[node] - self._cpu_prices * (request.cpu_milli / 1000)
        after += rows[choices.gained[which]] - rows[choices.lost[which]]
        after += rows[choices.opened[which]]
        losses: Floats = self._nodes.value[node] - after.min(axis=1)
        return losses

    def _spot(self, request: CardRequest, choices: Choices, best: Ints) -> Spot:
        nodes = choices.node[best]
        node = int(nodes.min())
        left = self._fleet.left[node]
        if not request.is_shared:
            return Spot(node, idle_cards(left, request.cards) if request.cards else ())
        return Spot(node, (int(np.isin(left, choices.left[best[nodes == node]]).argmax()),))
