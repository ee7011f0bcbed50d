"""All nodes looked at for one pod: which pass the filters, in which order they are liked, and who said no.

`PlainTable` does it node by node, for few nodes; `columns.ColumnTable` with arrays, for many. Both give the same
answers. Nothing here asks a hub: `Fleet` does, and strikes out the nodes whose hub refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from bayplan.fleet.filters import Wishes, objections
from bayplan.fleet.node import FleetNode
from bayplan.fleet.pod_needs import PodNeeds
from bayplan.fleet.scores import score


class Kind(NamedTuple):
    """Nodes that answer alike: the first of them by position, how many there are, whether the filters said no."""

    first: int
    size: int
    filtered: bool


class Survey(Protocol):
    """One pod's view of the nodes."""

    def best(self) -> int | None:
        """The position of the node liked most among those not struck out; the first of equals."""

    def strike(self, states: Collection[int]) -> None:
        """Leave out all nodes whose hubs are in one of these states."""

    def kinds(self) -> list[Kind]:
        """The nodes by what is to be said of them: what the filters lack, else the state of their hub."""


class Table(Protocol):
    """The nodes of a fleet. `key` names what `wishes` says, so that it need not be worked out twice."""

    def survey(self, key: bytes, wishes: Wishes, needs: PodNeeds) -> Survey:
        """Look at all nodes for a pod."""

    def state(self, index: int) -> int:
        """The state of a node's hub."""

    def most_free(self, resource: str) -> int | None:
        """What the node with the most of a resource has left, zero or more; None: a node has no limit."""

    def changed(self, index: int, state: int) -> None:
        """A node's pods have changed, and its hub is in another state now."""


class PlainSurvey:
    """See `Survey`."""

    def __init__(self, states: Sequence[int], scores: dict[int, int], reasons: list[tuple[str, ...]]) -> None:
        self._states = states
        self._scores = scores
        self._reasons = reasons

    def best(self) -> int | None:
        """See `Survey.best`."""
        return max(self._scores, key=self._scores.__getitem__, default=None)

    def strike(self, states: Collection[int]) -> None:
        """See `Survey.strike`."""
        self._scores = {i: score for i, score in self._scores.items() if self._states[i] not in states}

    def kinds(self) -> list[Kind]:
        """See `Survey.kinds`."""
        found: dict[tuple[str, ...] | int, Kind] = {}
        for i, reasons in enumerate(self._reasons):
            key = reasons or self._states[i]
            first, size, _ = found.get(key, (i, 0, False))
            found[key] = Kind(first, size + 1, bool(reasons))
        return list(found.values())


class PlainTable:
    """See `Table`."""

    def __init__(self, nodes: Sequence[FleetNode], states: Sequence[int], *, pack: bool) -> None:
        self._nodes = nodes
        self._states = list(states)
        self._pack = pack

    def survey(self, key: bytes, wishes: Wishes, needs: PodNeeds) -> PlainSurvey:
        """See `Table.survey`."""
        found = [objections(node, wishes, needs) for node in self._nodes]
        passed = [i for i, against in enumerate(found) if not against]
        scores = score([self._nodes[i] for i in passed], wishes, needs, pack=self._pack)
        reasons = [tuple(objection.reason for objection in against) for against in found]
        return PlainSurvey(self._states, dict(zip(passed, scores, strict=True)), reasons)

    def state(self, index: int) -> int:
        """See `Table.state`."""
        return self._states[index]

    def most_free(self, resource: str) -> int | None:
        """See `Table.most_free`."""
        amounts = [node.free(resource) for node in self._nodes]
        known = [amount for amount in amounts if amount is not None]
        return max([0, *known]) if len(known) == len(amounts) else None

    def changed(self, index: int, state: int) -> None:
        """See `Table.changed`."""
        self._states[index] = state
