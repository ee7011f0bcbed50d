"""Which hubs are known to be in the same state, and what a hub in some state has refused.

Hubs with one policy and one machine object, which have admitted pods of the same shapes in the same order, answer
alike, because whatever decides is a function of what it is given. So of a thousand empty nodes of one kind one is
asked, and a node is asked again only after it has changed. States are small numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bayplan.fleet.node import FleetNode
from bayplan.resources.decision import Decision

_MAX_KEPT = 1_000_000


class HubStates:
    """Numbers for states. A number is never used again."""

    def __init__(self) -> None:
        self._next = 0
        self._after: dict[tuple[int, bytes], int] = {}

    def at_start(self, nodes: Sequence[FleetNode]) -> list[int]:
        """For each node the state it is in: the same for empty ones of one policy and machine."""
        empty: dict[tuple[int, int, tuple[type, ...]], int] = {}
        states = []
        for node in nodes:
            hub = node.hub
            kind = (id(hub.policy), id(hub.machine), tuple(type(plugin) for plugin in hub.plugins))
            states.append(self.fresh() if hub.ledger.pods else empty.setdefault(kind, self._next))
            self._next = max(self._next, states[-1] + 1)
        return states

    def fresh(self) -> int:
        """A state that no other hub is known to be in."""
        self._next += 1
        return self._next - 1

    def after(self, state: int, shape: bytes) -> int:
        """The state that follows when a pod of that shape is admitted."""
        if len(self._after) >= _MAX_KEPT:
            self._after.clear()
        key = (state, shape)
        found = self._after.get(key)
        if found is None:
            found = self._after[key] = self.fresh()
        return found


class KnownRefusals:
    """What hubs have refused: by shape, the states in which they did, with the answer."""

    def __init__(self) -> None:
        self._by_shape: dict[bytes, dict[int, Decision]] = {}
        self._count = 0

    def of(self, shape: bytes) -> dict[int, Decision]:
        """State -> refusal, of a shape."""
        return self._by_shape.get(shape, {})

    def add(self, shape: bytes, state: int, decision: Decision) -> None:
        """A hub in that state refuses this shape."""
        self._by_shape.setdefault(shape, {})[state] = decision
        self._count += 1

    def make_room(self) -> None:
        """Forget everything where it has become too much."""
        if self._count >= _MAX_KEPT:
            self._by_shape.clear()
            self._count = 0

    def keep(self, shape: bytes, states: Collection[int]) -> dict[int, Decision]:
        """Forget of a shape all but these states."""
        known = self._by_shape[shape]
        kept = {state: decision for state, decision in known.items() if state in states}
        self._count -= len(known) - len(kept)
        self._by_shape[shape] = kept
        return kept
