"""Why the scheduler would not consider a node for a pod: its filters, one node at a time, in its words.

The filters run in kube-scheduler's order and the first that objects ends it; only the resource filter names all that
is lacking. Facts: pkg/scheduler/framework/plugins/{nodeunschedulable,nodename,tainttoleration,nodeaffinity,
noderesources/fit}, pkg/scheduler/schedule_one.go (a pod that names its nodes by `matchFields` is held against those
alone), Kubernetes 1.36. Volumes, ports, spread and pod affinity are not considered. `columns` gives the same
answers for many nodes at once; this module is what it is tested against.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import msgspec

from bayplan.fleet.node import PODS, FleetNode
from bayplan.fleet.node_fields import Taint
from bayplan.fleet.pod_needs import PodNeeds
from bayplan.fleet.selectors import node_meets, untolerated
from bayplan.quantity import format_bytes, format_cpu, is_in_bytes
from bayplan.workload.model import Pod, Preference, Selector, Toleration

UNSCHEDULABLE = "node(s) were unschedulable"
UNTOLERATED = "node(s) had untolerated taint(s)"
UNMATCHED = "node(s) didn't match Pod's node affinity/selector"
NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
TERMS_CONFLICT = "pod affinity terms conflict"
HARD_EFFECTS = ("NoSchedule", "NoExecute")
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod says of nodes. `named`: the only nodes its required terms can hold for (None: they name none)."""

    selector: dict[str, str]
    terms: tuple[tuple[Selector, ...], ...] | None
    preferences: tuple[Preference, ...]
    tolerations: tuple[Toleration, ...]
    named: frozenset[str] | None

    @property
    def bears_cordon(self) -> bool:
        """Whether a node that is marked unschedulable will do."""
        return not untolerated((CORDON,), self.tolerations, HARD_EFFECTS)

    @property
    def contradictory(self) -> bool:
        """Whether the terms name nodes so that none can be meant."""
        return self.named is not None and not self.named


class Standing(Protocol):
    """What a node says of itself whatever runs there."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        ...

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Its taints."""
        ...

    @property
    def unschedulable(self) -> bool:
        """Whether it is cordoned."""
        ...


class Objection(NamedTuple):
    """One reason against one node; numbers for resources, and one thing that would have to change."""

    plugin: str
    reason: str
    remedy: str
    resource: str = ""
    asked: int | None = None
    free: int | None = None


def wishes_of(pod: Pod) -> Wishes:
    """What the pod says of nodes."""
    return Wishes(
        selector=pod.node_selector,
        terms=pod.node_terms,
        preferences=pod.node_preferences,
        tolerations=pod.tolerations,
        named=_named(pod.node_terms),
    )


def objections(node: FleetNode, wishes: Wishes, needs: PodNeeds) -> tuple[Objection, ...]:
    """All that kube-scheduler would say against the node; empty: it would do."""
    found = standing_objection(node, wishes)
    return lacking(node, needs) if found is None else (found,)


def standing_objection(node: Standing, wishes: Wishes) -> Objection | None:
    """What is against the node whatever runs on it."""
    if wishes.contradictory:
        return Objection("NodeAffinity", TERMS_CONFLICT, "let the terms of the node affinity name one node")
    if wishes.named is not None and node.name not in wishes.named:
        return Objection("NodeAffinity", NOT_NAMED, _change_affinity(node))
    if node.unschedulable and not wishes.bears_cordon:
        return Objection("NodeUnschedulable", UNSCHEDULABLE, f"uncordon node {node.name}")
    taints = untolerated(node.taints, wishes.tolerations, HARD_EFFECTS)
    if taints:
        shown = f"{taints[0].key}{'=' if taints[0].value else ''}{taints[0].value}:{taints[0].effect}"
        return Objection("TaintToleration", UNTOLERATED, f"tolerate the taint {shown}")
    if not matches(node, wishes):
        return Objection("NodeAffinity", UNMATCHED, _change_affinity(node))
    return None


def matches(node: Standing, wishes: Wishes) -> bool:
    """Whether node selector and required node affinity hold for a node."""
    if any(node.labels.get(key) != value for key, value in wishes.selector.items()):
        return False
    return wishes.terms is None or any(node_meets(term, node.name, node.labels) for term in wishes.terms)


def lacking(node: FleetNode, needs: PodNeeds) -> tuple[Objection, ...]:
    """The resources of which too little is left: pods, cpu, memory, local storage, then the others by name."""
    found = [_short(node, PODS, 1, "Too many pods")]
    found += [_short(node, name, needs.amounts[name], f"Insufficient {name}") for name in in_order(needs)]
    return tuple(objection for objection in found if objection is not None)


def quantity(resource: str, amount: int) -> str:
    """An amount as it is written in a manifest."""
    if resource == "cpu":
        return format_cpu(amount)
    return format_bytes(amount) if is_in_bytes(resource) else str(amount)


def in_order(needs: PodNeeds) -> list[str]:
    """The resources that a pod asks for, in the order in which they are checked."""
    first = [name for name in ("cpu", "memory", "ephemeral-storage") if name in needs.amounts]
    return first + sorted(needs.amounts.keys() - {*first})


def _short(node: FleetNode, resource: str, asked: int, reason: str) -> Objection | None:
    free = node.free(resource)
    if free is None or asked <= free:
        return None
    remedy = _make_room(node, resource, asked, max(0, free))
    return Objection("NodeResourcesFit", reason, remedy, resource, asked, max(0, free))


def _make_room(node: FleetNode, resource: str, asked: int, free: int) -> str:
    offered = node.offers(resource) or 0
    if not offered:
        return f"a node that offers {resource}; node {node.name} offers none"
    if asked > offered:
        most = quantity(resource, offered)
        return f"ask for at most {most} of {resource}, which is all that node {node.name} offers to pods"
    more = f"free {quantity(resource, asked - free)} more of {resource} on node {node.name}"
    return f"ask for at most {quantity(resource, free)} of {resource}, or {more}" if free else more


def _change_affinity(node: Standing) -> str:
    return f"a node selector and affinity that hold for node {node.name}, or labels on it that meet them"


def _named(terms: tuple[tuple[Selector, ...], ...] | None) -> frozenset[str] | None:
    if not terms:
        return None
    names: set[str] = set()
    for term in terms:
        given = [frozenset(r.values) for r in term if r.field and r.operator == "In"]
        if not given:
            return None
        names |= frozenset.intersection(*given)
    return frozenset(names)
