"""What repacking works on: the pods that run, each with where it is and what moving it costs; and what is advised."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bayplan.fleet.cards.model import CardRequest, Spot

COST_UNIT = 1000
"""Costs are whole thousandths, so that sums are the same in any order."""


class RunningPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that runs. `fixed` says why it must not be moved (empty: it may be), `cost` is in thousandths.

    `group`: which of the board's sets of nodes it may go to.
    """

    name: str
    request: CardRequest
    spot: Spot
    fixed: str = ""
    cost: int = COST_UNIT
    group: int = 0


class Step(NamedTuple):
    """One move: the position of the pod, and where to."""

    pod: int
    target: Spot

    @property
    def order(self) -> tuple[int, int, tuple[int, ...]]:
        """By which steps that are as good are told apart."""
        return self.pod, self.target.node, self.target.cards


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """One move of an advice: evict the pod, then create it at the target; there is room at that moment.

    `gain` is what of the cards becomes usable by this move (below zero: it prepares another), in cards; `usable` what
    is usable after it.
    """

    pod: str
    source: Spot
    target: Spot
    cost: int
    gain: float
    usable: float


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, in order. `before` and `after` are usable cards. `reason` says why there is not more to do."""

    moves: tuple[Move, ...]
    before: float
    after: float
    cost: int
    reason: str
    complete: bool
    """Whether all possibilities within the limits were looked at, so that nothing better exists."""
    room: Spot | None = None
    """Where the pod goes for which room is made."""
