"""Zones, classes and power as one of the checks: whether the node's own policy would admit the pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.errors import InputError
from bayplan.fleet.published.asks import asks_of
from bayplan.fleet.published.checks import ZoneChecks
from bayplan.fleet.published.explain import ZoneAnswer, explain
from bayplan.fleet.published.pod_objects import pod_of
from bayplan.fleet.published.sources import Origin
from bayplan.fleet.scheduling.checks import Objections, Promise, Question
from bayplan.fleet.scheduling.events import (
    Event,
    NodeChanged,
    NodeGone,
    ObjectChanged,
    ObjectGone,
    PodChanged,
    PodGone,
    Unassumed,
)
from bayplan.protocols.kubernetes import PodObject
from bayplan.workload.model import Pod

LAYOUTS = "NodeLayout.bayplan.dev"
TOPOLOGIES = "NodeResourceTopology.topology.node.k8s.io"
DOCUMENT_KINDS = (LAYOUTS, TOPOLOGIES)
_ORIGINS: dict[str, Origin] = {LAYOUTS: "layout", TOPOLOGIES: "topology"}


class ZonesCheck:
    """Asks the nodes' hubs. `ttl_s`: how long a pod that was decided counts without being seen bound."""

    name = "zones"

    def __init__(self, zones: ZoneChecks, ttl_s: float = 60.0) -> None:
        self.zones = zones
        self._ttl_s = ttl_s
        self._last: tuple[PodObject, Pod] | None = None

    def apply(self, event: Event, now: float) -> None:
        """Documents, nodes' annotations, and pods that are bound, decided or gone matter."""
        zones = self.zones
        match event:
            case ObjectChanged():
                self._document(event.object)
            case ObjectGone() if event.kind in _ORIGINS:
                zones.remove_document(event.name, _ORIGINS[event.kind])
            case NodeChanged():
                zones.set_node(event.node)
            case NodeGone():
                zones.remove_node(event.name)
            case PodChanged():
                zones.set_pod(event.pod)
            case PodGone():
                zones.remove_pod(event.uid)
            case Unassumed():
                zones.forget(event.uid)
            case _:
                pass

    def wants(self, pod: PodObject) -> bool:
        """Pods that are bound and can hold something by themselves; also those that have ended, and hold it no more."""
        if not pod.spec.node_name:
            return False
        containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
        if any(container.resources is not None and container.resources.limits for container in containers):
            return True
        return any(key.startswith(("class.bayplan.dev/", "bayplan.dev/")) for key in pod.annotations)

    def concerns(self, question: Question) -> bool:
        """Every pod, as soon as some node tells, or where those are refused that do not."""
        return self.zones.anything_told or self.zones.settings.missing == "refuse"

    def objections(self, question: Question, now: float) -> Objections:
        """The nodes that would refuse the pod, or that do not tell where that is asked for."""
        self.zones.expire(now)
        try:
            pod = self._pod(question.pod)
        except InputError as error:
            return Objections(unresolvable=dict.fromkeys(question.names, f"zones: the pod cannot be read: {error}"))
        checked = self.zones.check(pod, question.names, now)
        return Objections(failed=checked.failed, unresolvable=checked.unresolvable)

    def scores(self, question: Question, now: float) -> Sequence[int] | None:
        """How well the nodes' zones would be used; nothing for pods that hold nothing by themselves."""
        try:
            pod = self._pod(question.pod)
        except InputError:
            return None  # the filter has refused it, and said why
        if not asks_of(pod).anything and not _may_hold(pod):
            return None
        scores = self.zones.scores(pod, question.names, now)
        return [scores[name] for name in question.names]

    def without(self, question: Question, node: str, uids: Sequence[str], now: float) -> str:
        """Asked of the node's hub, with those pods' grants released."""
        try:
            admitted = self.zones.without(self._pod(question.pod), node, uids, now)
        except InputError as error:
            return f"zones: the pod cannot be read: {error}"
        return "" if admitted else "zones: the node's policy would refuse the pod even then"

    def promise(self, pod: PodObject, node: str, now: float) -> Promise:
        """The node's hub is asked once more, as others may have been decided since."""
        try:
            refusal = self.zones.assume(pod_of(pod), node, now, self._ttl_s)
        except InputError as error:
            return Promise(refused=f"zones: the pod cannot be read: {error}")
        return Promise(refused=refusal.message) if refusal is not None else Promise()

    def explain(self, question: Question, node: str, now: float) -> Sequence[str]:
        """What told it and when, what is in the way, and the score."""
        try:
            pod = self._pod(question.pod)
        except InputError as error:
            return [f"the pod cannot be read: {error}"]
        return _lines(explain(self.zones, pod, node, now))

    def _document(self, value: dict[str, Any]) -> None:
        group = str(value.get("apiVersion", "")).partition("/")[0]
        kind = f"{value.get('kind', '')}.{group}"
        metadata = value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if kind not in _ORIGINS or not isinstance(name, str) or not name:
            return
        if kind == LAYOUTS:
            self.zones.set_layout(name, value)
        else:
            self.zones.set_topology(name, value)

    def _pod(self, pod: PodObject) -> Pod:
        """The pod as it is asked about. Filter and prioritize come with the same one."""
        if self._last is None or self._last[0] != pod:
            self._last = pod, pod_of(pod)
        return self._last[1]


def _may_hold(pod: Pod) -> bool:
    return pod.qos == "Guaranteed" or any(container.devices for container in pod.all_containers)


def _lines(answer: ZoneAnswer) -> list[str]:
    lines = []
    if answer.source:
        age = "no heartbeat" if answer.age_s is None else f"{answer.age_s:.0f} s old"
        lines.append(f"told by {answer.source}, generation {answer.generation}, {age}")
    if answer.doubt:
        lines.append(f"not asked: {answer.doubt}")
        return lines
    if answer.uncounted:
        lines.append(f"added to what was told: {', '.join(answer.uncounted)}")
    if answer.refusal is not None:
        lines.append(f"refused: {answer.refusal.message} ({answer.refusal.rule})")
    else:
        lines.append(f"admitted, score {answer.score}")
    return lines
