"""Waking pods: when a rule allows nodes again, one of them is touched, and the scheduler tries waiting pods anew.

A pod that an extender rejected is tried again when one of the built-in objects changes, or after five minutes; a
measured value is no such object. A changed annotation of a Node is such an event and wakes all of them (Kubernetes
1.28 and later, kubernetes/kubernetes#118389). A scheduler without queueing hints (before 1.32) wakes only those pods
that the touched node itself would take, so it is one of those that the flip allowed.

Extenders poll by themselves and may learn a value later than whoever touches the node: while pods of the policy still
wait, it is done once more when they must have learned it. Where no pod waits nothing is ever written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set

import msgspec

from bayplan.fleet.telemetry.model import PolicyKey
from bayplan.fleet.telemetry.spans import NEVER, format_moment
from bayplan.fleet.telemetry.verdict import Flip
from bayplan.fleet.upkeep.nodes import GENERATION, NodeFacts, NodePatch

_SHOWN_POLICIES = 4


class WakeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often nodes are touched.

    `interval_s`: at most once in so many seconds. `again_after_s`: the second time for a flip, after which every
    extender must have polled; None: one and a half times the period of polls. `most_nodes`: at once, where no single
    node is good for the pods of all policies that flipped.
    """

    interval_s: float = 1.0
    again_after_s: float | None = None
    most_nodes: int = 3


class _Opening(msgspec.Struct):
    allowed: set[str]
    others: bool
    due: list[float]


class Wakes:
    """Flips that pods have not been woken for yet. Mutable, pure."""

    def __init__(self, settings: WakeSettings, period_s: float) -> None:
        self._settings = settings
        again = settings.again_after_s
        self._again_after_s = 1.5 * period_s if again is None else again
        self._openings: dict[PolicyKey, _Opening] = {}
        self._planned: dict[PolicyKey, _Opening] = {}
        self._free_at = -NEVER
        self._count = 0

    @property
    def count(self) -> int:
        """How many times nodes were touched."""
        return self._count

    @property
    def next_at(self) -> float:
        """When `plan` has something to look at; infinite: after the next flip."""
        due = min((opening.due[0] for opening in self._openings.values()), default=NEVER)
        return max(due, self._free_at)

    def flipped(self, flips: Iterable[Flip], now: float) -> None:
        """What became allowed and what became refused."""
        for flip in flips:
            if flip.opens:
                opening = self._openings.setdefault(flip.policy, _Opening(set(), False, []))
                opening.allowed |= flip.allowed
                opening.others = opening.others or flip.others == "allowed"
                opening.due = sorted({now, now + self._again_after_s})
            for known in (self._openings, self._planned):
                _take_back(known, flip)

    def plan(
        self, waiting: Callable[[PolicyKey], bool], nodes: Mapping[str, NodeFacts], now: float
    ) -> tuple[NodePatch, ...]:
        """The nodes to touch now. `waiting`: whether pods of a policy wait for a node."""
        if now < self._free_at:
            return ()
        wanting: dict[PolicyKey, Set[str]] = {}
        planned: dict[PolicyKey, _Opening] = {}
        for key in sorted(self._openings):
            opening = self._openings[key]
            if opening.due[0] > now:
                continue
            while opening.due and opening.due[0] <= now:
                opening.due.pop(0)
            if waiting(key):
                wanting[key] = _candidates(opening, nodes)
                planned[key] = _Opening(set(opening.allowed), opening.others, [now])
            if not opening.due:
                del self._openings[key]
        touched = _few(list(wanting.values()), self._settings.most_nodes)
        if not touched:
            return ()
        self._free_at = now + self._settings.interval_s
        self._count += 1
        self._planned = planned
        shown = " ".join(str(key) for key in list(wanting)[:_SHOWN_POLICIES])
        value = f"{format_moment(now)} #{self._count} {shown}"
        return tuple(NodePatch(node=name, uid=nodes[name].uid, annotations={GENERATION: value}) for name in touched)

    def again(self) -> None:
        """What was planned last could not be written: plan it again, but for what flipped back since."""
        for key, opening in self._planned.items():
            there = self._openings.setdefault(key, opening)
            there.due = sorted({*there.due, *opening.due})
        self._planned = {}


def _take_back(openings: dict[PolicyKey, _Opening], flip: Flip) -> None:
    opening = openings.get(flip.policy)
    if opening is None:
        return
    opening.allowed -= flip.refused
    opening.others = opening.others and flip.others != "refused"
    if not opening.allowed and not opening.others:
        del openings[flip.policy]


def _candidates(opening: _Opening, nodes: Mapping[str, NodeFacts]) -> Set[str]:
    """Nodes that pods may be put on now and could not before; any that take pods where only nodes unknown flipped."""
    allowed = {name for name in opening.allowed if name in nodes and nodes[name].is_open}
    if allowed or not opening.others:
        return allowed
    return {name for name, node in nodes.items() if node.is_open}


def _few(wanted: Collection[Set[str]], most: int) -> list[str]:
    """Few nodes of which each set has one: the node that is in most sets first, by name where they are even."""
    left = [names for names in wanted if names]
    found: list[str] = []
    while left and len(found) < most:
        counts: dict[str, int] = {}
        for names in left:
            for name in names:
                counts[name] = counts.get(name, 0) + 1
        best = min(counts, key=lambda name: (-counts[name], name))
        found.append(best)
        left = [names for names in left if best not in names]
    return found
