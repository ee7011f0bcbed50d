"""Pods as upkeep sees them: who waits for a node, who runs where, and who must never be asked to go.

Of 150,000 pods a few hundred bytes each are kept. What an object says besides is not.
Facts: core/v1 Pod; kubelet's mirror pods (annotation `kubernetes.io/config.mirror`); the priority from which on a pod
is critical to the system (pkg/apis/scheduling `SystemCriticalPriority`).
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from bayplan.fleet.selectors import meets
from bayplan.fleet.telemetry.rule_fields import VIOLATING
from bayplan.protocols.kubernetes import ObjectMeta, PodObject, PodSpec
from bayplan.workload.model import Selector
from bayplan.workload.times import parse_moment

EVICT = "bayplan.dev/evict"
"""Annotation of a pod: `false` says that it must not be evicted."""
DESCHEDULE_POD = "gpu.aware.scheduling/deschedule-pod"
"""Label of a pod on cards that are to be given up."""
MIRROR = "kubernetes.io/config.mirror"
CRITICAL_PRIORITY = 2_000_000_000
_CRITICAL_CLASSES = ("system-cluster-critical", "system-node-critical")
_NO_PODS: Mapping[str, PodFacts] = {}


class OwnerReference(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who made an object. `controller`: and looks after it."""

    kind: str = ""
    uid: str = ""
    controller: bool | None = False


class OwnedMeta(ObjectMeta, frozen=True, kw_only=True, rename="camel", gc=False):
    """`metadata` with the owners."""

    owner_references: list[OwnerReference] | None = None


class Requirement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One of `matchExpressions`."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Requirements of labels that must all be met."""

    match_expressions: list[Requirement] | None = None


class NodeSelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Terms of which one must be met."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which nodes a pod may go to."""

    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class Affinity(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """`affinity` of a pod."""

    node_affinity: NodeAffinity | None = None


class Volume(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A volume, as far as it is told whether it stays on the node when the pod goes."""

    empty_dir: Any = None
    host_path: Any = None


class UpkeepSpec(PodSpec, frozen=True, kw_only=True, rename="camel", gc=False):
    """`spec` with what an eviction has to mind."""

    priority_class_name: str | None = ""
    affinity: Affinity | None = None
    volumes: list[Volume] | None = None
    scheduling_gates: list[Any] | None = None


class UpkeepPod(PodObject, frozen=True, kw_only=True):
    """A Pod with its owners and its required affinity."""

    metadata: OwnedMeta = OwnedMeta()
    spec: UpkeepSpec = UpkeepSpec()


class PodFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is kept of a pod. `node` empty: it waits, unless it is `gated`.

    `owner`: UID of the controller that would make it anew. `exempt`: why it must never be evicted; empty: it may be.
    `avoids`: keys of labels with which, at the value `violating`, its required affinity keeps it off a node.
    """

    uid: str
    namespace: str
    name: str
    node: str
    labels: Mapping[str, str]
    priority: int
    created_at: float
    owner: str
    exempt: str
    has_local_data: bool
    avoids: frozenset[str]
    gated: bool

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class PodIndex:
    """All pods that have not ended, by UID and by node. Mutable, pure."""

    def __init__(self) -> None:
        self._pods: dict[str, PodFacts] = {}
        self._by_node: dict[str, dict[str, PodFacts]] = {}
        self._waiting: dict[str, PodFacts] = {}
        self._labelled: dict[str, PodFacts] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._pods)

    def set_pod(self, pod: UpkeepPod) -> None:
        """A pod is there, or is not as it was. Raises `InputError` where it was created at no moment."""
        uid = pod.metadata.uid or ""
        if pod.has_ended:
            self.remove_pod(uid)
            return
        facts = facts_of(pod)
        self.remove_pod(uid)
        self._pods[uid] = facts
        if DESCHEDULE_POD in facts.labels:
            self._labelled[uid] = facts
        if facts.node:
            self._by_node.setdefault(facts.node, {})[uid] = facts
        elif not facts.gated and not pod.metadata.deletion_timestamp:
            self._waiting[uid] = facts

    def remove_pod(self, uid: str) -> None:
        """A pod is no more; one that is not known is no error."""
        facts = self._pods.pop(uid, None)
        self._waiting.pop(uid, None)
        self._labelled.pop(uid, None)
        if facts is None or not facts.node:
            return
        beside = self._by_node[facts.node]
        del beside[uid]
        if not beside:
            del self._by_node[facts.node]

    def get(self, uid: str) -> PodFacts | None:
        """One pod."""
        return self._pods.get(uid)

    def on(self, node: str) -> Collection[PodFacts]:
        """Those that are bound to a node."""
        return self._by_node.get(node, _NO_PODS).values()

    @property
    def waiting(self) -> Collection[PodFacts]:
        """Those that the scheduler has no node for."""
        return self._waiting.values()

    @property
    def labelled(self) -> Collection[PodFacts]:
        """Those that are labelled as on cards that are to be given up."""
        return self._labelled.values()


def facts_of(pod: UpkeepPod) -> PodFacts:
    """What is kept of a pod. Raises `InputError` where it was created at no moment."""
    meta, spec = pod.metadata, pod.spec
    controller = next((owner for owner in meta.owner_references or () if owner.controller), None)
    intern = sys.intern
    return PodFacts(
        uid=meta.uid or "",
        namespace=intern(meta.namespace or "default"),
        name=meta.name,
        node=intern(spec.node_name or ""),
        # Pods of one owner have the same labels but for one; kept apart they are most of the memory.
        labels={intern(key): intern(value) for key, value in pod.labels.items()},
        priority=spec.priority or 0,
        created_at=parse_moment(meta.creation_timestamp) if meta.creation_timestamp else 0.0,
        owner=intern(controller.uid) if controller else "",
        exempt=_exempt(pod, controller),
        has_local_data=any(v.empty_dir is not None or v.host_path is not None for v in spec.volumes or ()),
        avoids=_avoids(spec.affinity),
        gated=bool(spec.scheduling_gates),
    )


def _exempt(pod: UpkeepPod, controller: OwnerReference | None) -> str:
    meta, spec = pod.metadata, pod.spec
    if meta.deletion_timestamp:
        return "it is going already"
    if MIRROR in pod.annotations:
        return "it is a static pod, which only its node can end"
    if controller is None:
        return "it has no controller, so nobody would start it again"
    if controller.kind == "DaemonSet":
        return "it belongs to a DaemonSet, which would start it on the same node again"
    if controller.kind == "Node":
        return "it belongs to its node"
    if (spec.priority or 0) >= CRITICAL_PRIORITY or spec.priority_class_name in _CRITICAL_CLASSES:
        return "it is critical to the system"
    if pod.annotations.get(EVICT, "").lower() == "false":
        return f"its annotation {EVICT} says so"
    return ""


def _avoids(affinity: Affinity | None) -> frozenset[str]:
    """Keys that no term can be met with while a node has them with the value `violating`."""
    required = affinity and affinity.node_affinity and affinity.node_affinity.required
    if not required or not required.node_selector_terms:
        return frozenset()
    keys = [_keys_against(term.match_expressions or ()) for term in required.node_selector_terms]
    return frozenset.intersection(*keys)


def _keys_against(requirements: Iterable[Requirement]) -> frozenset[str]:
    return frozenset(
        sys.intern(each.key)
        for each in requirements
        if not meets(Selector(key=each.key, operator=each.operator, values=tuple(each.values or ())), VIOLATING)
    )
