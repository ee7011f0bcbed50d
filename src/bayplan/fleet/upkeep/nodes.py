"""Nodes as upkeep sees them, and one patch for each that is not as it should be.

A node is looked at when it changed or when what is wanted of nodes did, and otherwise not: five thousand nodes at rest
cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from bayplan.fleet.telemetry.labeling import LabelPlan
from bayplan.fleet.telemetry.rule_fields import LABEL_PREFIX, VIOLATING
from bayplan.protocols.kubernetes import NodeObject

MARKS = "bayplan.dev/deschedule-marks"
"""Annotation of a node: the keys of its labels `violating` that are ours, with commas between them.

Such a key is the name of a policy, with no prefix that would tell whose it is. Without this memory the label of a
policy that was deleted while no controller ran would stay for ever, or a user's own label would be taken for ours.
Labels under `telemetry.aware.scheduling.` need no memory: the prefix is ours.
"""
GENERATION = "bayplan.dev/telemetry-generation"
"""Annotation of a node that was touched to wake pods: when, the how manieth time, and for which policies."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a node. `is_open`: the scheduler may put pods there."""

    name: str
    uid: str
    labels: Mapping[str, str]
    marks: str | None
    is_open: bool


class NodePatch(msgspec.Struct, frozen=True, kw_only=True):
    """What to write to a node's metadata; None: take it away."""

    node: str
    uid: str
    labels: Mapping[str, str | None] = {}
    annotations: Mapping[str, str | None] = {}


class Foreign(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A label of somebody else's that is in the place of one of ours, and is left alone."""

    node: str
    key: str
    value: str


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What one node needs. `patch` None: nothing."""

    patch: NodePatch | None
    foreign: tuple[Foreign, ...] = ()


class NodeIndex:
    """All nodes, and which of them are to be looked at. Mutable, pure."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeFacts] = {}
        self._dirty: set[str] = set()
        self._plan: LabelPlan | None = None
        self._foreign: dict[str, tuple[Foreign, ...]] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._nodes)

    def __iter__(self) -> Iterator[NodeFacts]:
        """All of them."""
        return iter(self._nodes.values())

    @property
    def by_name(self) -> Mapping[str, NodeFacts]:
        """All of them, by name."""
        return self._nodes

    def set_node(self, node: NodeObject) -> None:
        """A node is there, or is not as it was."""
        facts = NodeFacts(
            name=node.name,
            uid=node.metadata.uid or "",
            labels=node.labels,
            marks=node.annotations.get(MARKS),
            is_open=not (node.spec and node.spec.unschedulable),
        )
        if self._nodes.get(node.name) != facts:
            self._nodes[node.name] = facts
            self._dirty.add(node.name)

    def remove_node(self, name: str) -> None:
        """A node is no more."""
        self._nodes.pop(name, None)
        self._foreign.pop(name, None)
        self._dirty.discard(name)

    def patches(self, plan: LabelPlan) -> list[NodePatch]:
        """At most one patch for each node that changed, or for all nodes that need one where the plan changed."""
        if self._plan is None or not _is_same(self._plan, plan):
            self._dirty.update(self._nodes)
        self._plan = plan
        found = []
        for name in sorted(self._dirty):
            wanted = wanted_of(plan, self._nodes[name])
            self._foreign[name] = wanted.foreign
            if wanted.patch is not None:
                found.append(wanted.patch)
        self._dirty.clear()
        return found

    def again(self, names: Collection[str]) -> None:
        """Look at these nodes once more: their patches were not carried out."""
        self._dirty.update(name for name in names if name in self._nodes)

    @property
    def foreign(self) -> tuple[Foreign, ...]:
        """Labels of others in the places of ours, as of the last look at each node."""
        return tuple(each for name in sorted(self._foreign) for each in self._foreign[name])


def wanted_of(plan: LabelPlan, node: NodeFacts) -> Wanted:
    """What a node needs so that it has the labels that policies want, and none of ours that nobody wants."""
    labels, present = plan.changes(node.name, node.labels), node.labels
    foreign = tuple(
        Foreign(node=node.name, key=key, value=present[key])
        for key, value in sorted(labels.items())
        if value is not None and key in plan.marks and present.get(key) not in (None, "", VIOLATING)
    )
    for each in foreign:
        del labels[each.key]
    remembered = {key for key in (node.marks or "").split(",") if key and not key.startswith(LABEL_PREFIX)}
    for key in remembered - plan.marks:
        if present.get(key) == VIOLATING:
            labels[key] = None
    ours = {key for key in plan.marks | remembered if labels.get(key, present.get(key)) == VIOLATING}
    marks = ",".join(sorted(ours)) or None
    annotations = {MARKS: marks} if marks != node.marks else {}
    if not labels and not annotations:
        return Wanted(patch=None, foreign=foreign)
    patch = NodePatch(node=node.name, uid=node.uid, labels=labels, annotations=annotations)
    return Wanted(patch=patch, foreign=foreign)


def _is_same(old: LabelPlan, new: LabelPlan) -> bool:
    """Whether two plans are made of the very same parts; an engine keeps those that did not change."""
    pairs = ((old.labeling, new.labeling), (old.marking, new.marking))
    return old.marks == new.marks and all(
        len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True)) for before, after in pairs
    )
