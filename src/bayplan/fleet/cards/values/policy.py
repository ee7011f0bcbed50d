"""A pod goes where the fleet's value drops least.

Of all nodes with room, and of all different leftovers on each, the one is taken for which W(before) - W(after) is the
smallest (`node_values`); of equal ones the first node and its lowest card. Losses are compared in units of 2**-30 GPU,
so that what is equal but for rounding is equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayplan.fleet.cards.model import WHOLE, CardRequest, Spot
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import Bools, Floats, Ints, idle_cards
from bayplan.fleet.cards.values.constants import Constants
from bayplan.fleet.cards.values.kinds import PricedKinds
from bayplan.fleet.cards.values.node_values import NodeValues
from bayplan.fleet.cards.values.prices import Prices

_UNIT = 2.0**30
_TRIED_FIRST = 16


class Choices(NamedTuple):
    """Where a pod could go, by choice (C): the node, the milli free on the card before, and rows of `ValueRows`.

    The cards of the node gain the values of the rows `gained` and `opened` and lose that of `lost`.
    """

    node: Ints
    left: Ints
    gained: Ints
    opened: Ints
    lost: Ints


class ValuesPolicy:
    """See the module. Prices move every few arrivals; between them a decision is a function of the fleet's state."""

    def __init__(self, setup: PolicySetup) -> None:
        constants = Constants()
        self._fleet = setup.fleet
        self._constants = constants
        self._cpu_prices: Floats = np.array(constants.cpu_prices)
        self._nodes = NodeValues(setup.fleet, self._cpu_prices)
        kinds = PricedKinds(setup.counts, setup.fleet.models)
        self._prices = Prices(kinds, setup.fleet, self._cpu_prices, constants)
        self._arrivals = 0
        self._renew(everything=True)
        for _ in range(constants.first_steps):
            self._step()

    def seen(self, request: CardRequest) -> None:
        """See `CardPolicy.seen`."""
        if self._arrivals and self._arrivals % self._constants.arrivals_per_step == 0:
            self._renew(everything=False)
            self._step()
        self._arrivals += 1

    def place(self, request: CardRequest, among: Bools | None = None) -> Spot | None:
        """See `CardPolicy.place`."""
        self._renew(everything=False)
        room = self._fleet.feasible(request)
        if among is not None:
            room &= among
        choices = self._choices(request, room)
        if not choices.node.size:
            return None
        return self._spot(request, choices, self._best(request, choices))

    def scores(self, request: CardRequest) -> Floats:
        """See `CardPolicy.scores`: what the fleet loses, negative, in GPUs."""
        self._renew(everything=False)
        choices = self._choices(request, self._fleet.feasible(request))
        found = np.full(len(self._fleet), -np.inf)
        np.maximum.at(found, choices.node, -self._losses(request, choices, np.arange(len(choices.node))))
        return found

    def _step(self) -> None:
        self._prices.step(self._nodes, (self._fleet.capacity_milli - self._fleet.allocated_milli) / WHOLE)
        self._renew(everything=True)

    def _renew(self, *, everything: bool) -> None:
        self._nodes.renew(self._prices.table_of_node, self._prices.tables.values, everything=everything)

    def _choices(self, request: CardRequest, room: Bools) -> Choices:
        fleet, values, table = self._fleet, self._prices.tables.values, self._prices.table_of_node
        if not request.cards:
            nodes = np.flatnonzero(room)
            nothing = np.zeros(len(nodes), np.int64)
            return Choices(nodes, nothing, nothing, nothing, nothing)
        nodes = np.flatnonzero(room & (fleet.idle >= request.cards))
        kind, idle = table[nodes], fleet.idle[nodes]
        rest = np.full(len(nodes), WHOLE - request.milli)
        whole = Choices(
            nodes,
            np.full(len(nodes), WHOLE),
            values.idle(kind, idle - request.cards),
            values.leftover(kind, rest),
            values.idle(kind, idle),
        )
        if not request.is_shared:
            return whole
        left = fleet.left.ravel()
        cards = np.flatnonzero((left >= request.milli) & (left < WHOLE))
        nodes = cards // fleet.left.shape[1]
        roomy = room[nodes]
        nodes, left = nodes[roomy], left[cards[roomy]]
        kind = table[nodes]
        gained, lost = values.leftover(kind, left - request.milli), values.leftover(kind, left)
        partly = Choices(nodes, left, gained, np.zeros(len(nodes), np.int64), lost)
        return Choices(*(np.concatenate(pair) for pair in zip(partly, whole, strict=True)))

    def _best(self, request: CardRequest, choices: Choices) -> Ints:
        """The choices with the smallest loss.

        At the CPU price of the node as it is, a loss comes out no larger than it is, since the price afterwards is the
        one that makes it largest; so only few need to be looked at at every price.
        """
        rows, prices = self._prices.tables.values.rows, len(self._cpu_prices)
        flat, price = rows.ravel(), self._nodes.price[choices.node]
        bound = self._cpu_prices[price] * (request.cpu_milli / 1000) + flat[choices.lost * prices + price]
        bound -= flat[choices.gained * prices + price]
        bound -= flat[choices.opened * prices + price]
        units = np.rint(bound * _UNIT) - 1
        likely = np.arange(len(units))
        if len(units) > _TRIED_FIRST:
            tried = np.argpartition(units, _TRIED_FIRST)[:_TRIED_FIRST]
            likely = np.flatnonzero(units <= self._rounded(request, choices, tried).min())
        losses = self._rounded(request, choices, likely)
        best: Ints = likely[losses == losses.min()]
        return best

    def _rounded(self, request: CardRequest, choices: Choices, which: Ints) -> Floats:
        return np.rint(self._losses(request, choices, which) * _UNIT)

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
