"""What a card policy is: where a pod goes, and how much each node would be liked.

Policies are found by name through the entry points `bayplan.card_policies`: something called with a `PolicySetup`. The
scheduler and the simulator ask them alike. A policy may keep what it worked out for as long as the fleet's nodes did
not change (`CardFleet.changed_since`), prices, or a generator of its own; it never changes the fleet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import CardRequest, Spot
from bayplan.fleet.cards.state import Bools, CardFleet, Floats, Ints

ENTRY_POINTS = "bayplan.card_policies"


class PolicySetup(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy starts with: the fleet it will be asked about, and how often each kind of pod is known to come.

    `counts` is empty where nothing is known. `option` is what follows the colon in the policy's name (`pwr+fgd:100`),
    `seed` is for policies that draw lots.
    """

    fleet: CardFleet
    counts: Mapping[PodKind, int]
    option: str = ""
    seed: int = 0


class CardPolicy(Protocol):
    """Chooses a node and its cards. `seen` is called once for each pod that comes, before `place`."""

    def seen(self, request: CardRequest) -> None:
        """A pod has come (whether or not there will be room for it)."""
        ...

    def place(self, request: CardRequest, among: Bools | None = None) -> Spot | None:
        """Where the pod goes; None: no node (of those in `among`, by node) has room. Changes nothing in the fleet."""
        ...

    def scores(self, request: CardRequest) -> Ints | Floats:
        """By node, how much it is liked for this request: larger is better, comparable for one request only.

        What it says of nodes without room means nothing: ask `CardFleet.feasible`.
        """
        ...
