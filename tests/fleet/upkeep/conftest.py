"""A cluster in memory: what upkeep plans is carried out on it, and upkeep is told of what that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import pytest

from bayplan.fleet.scheduling.events import (
    Event,
    Measured,
    NodeChanged,
    NodeGone,
    NotMeasured,
    ObjectChanged,
    ObjectGone,
    PodChanged,
    PodGone,
)
from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import MetricKey, Sample, TelemetrySettings
from bayplan.fleet.upkeep.announcements import Announcement
from bayplan.fleet.upkeep.nodes import NodePatch
from bayplan.fleet.upkeep.pods import UpkeepPod
from bayplan.fleet.upkeep.upkeep import GivenUpCards, StatusPatch, Upkeep, UpkeepSettings
from bayplan.protocols.kubernetes import NodeObject

Json = dict[str, Any]
API_VERSIONS = {"TASPolicy": "telemetry.intel.com/v1alpha1", "TelemetryPolicy": "bayplan.dev/v1alpha1"}


class Cards:
    """Pods on cards that are to be given up, as a test says."""

    def __init__(self) -> None:
        self.pods: dict[str, str] = {}

    def apply(self, event: Event, now: float) -> None:
        """What happens is of no interest to a test's own list."""

    def descheduled(self) -> Mapping[str, str]:
        return self.pods


class Cluster:
    """Nodes, pods and policies as JSON, upkeep told of them, and a clock that the test moves."""

    def __init__(self, settings: UpkeepSettings, telemetry: TelemetrySettings, cards: GivenUpCards | None) -> None:
        self.now = 1_000.0
        self.nodes: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        self.policies: dict[tuple[str, str, str], Json] = {}
        self._arguments = settings, telemetry, cards
        self.upkeep = self._new()

    def _new(self) -> Upkeep:
        settings, telemetry, cards = self._arguments
        return Upkeep(TelemetryEngine(telemetry), settings, cards)

    def restart(self) -> None:
        """Another process takes over, which knows nothing but what is in the cluster; metrics are to be told again."""
        self.upkeep = self._new()
        for policy in self.policies.values():
            self.tell(ObjectChanged(object=policy))
        for name in self.nodes:
            self._tell_node(name)
        for pod in self.pods.values():
            self.tell(PodChanged(pod=msgspec.convert(pod, UpkeepPod)))

    def tell(self, event: Event) -> None:
        self.upkeep.apply(event, self.now)

    def policy(self, name: str, *, kind: str = "TASPolicy", namespace: str = "default", **strategies: Any) -> None:
        metadata = {"name": name, "namespace": namespace, "uid": f"policy-{namespace}-{name}", "generation": 1}
        policy = {
            "apiVersion": API_VERSIONS[kind],
            "kind": kind,
            "metadata": metadata,
            "spec": {"strategies": strategies},
        }
        self.policies[kind, namespace, name] = policy
        self.tell(ObjectChanged(object=policy))

    def remove_policy(self, name: str, *, kind: str = "TASPolicy", namespace: str = "default") -> None:
        del self.policies[kind, namespace, name]
        group = API_VERSIONS[kind].partition("/")[0]
        self.tell(ObjectGone(kind=f"{kind}.{group}", namespace=namespace, name=name))

    def node(self, name: str, labels: Mapping[str, str] | None = None, *, unschedulable: bool = False) -> None:
        metadata = {"name": name, "uid": f"node-{name}", "labels": dict(labels or {}), "annotations": {}}
        self.nodes[name] = {"metadata": metadata, "spec": {"unschedulable": unschedulable}}
        self._tell_node(name)

    def remove_node(self, name: str) -> None:
        del self.nodes[name]
        self.tell(NodeGone(name=name))

    def labels(self, name: str) -> dict[str, str]:
        labels: dict[str, str] = self.nodes[name]["metadata"]["labels"]
        return labels

    def annotations(self, name: str) -> dict[str, str]:
        annotations: dict[str, str] = self.nodes[name]["metadata"]["annotations"]
        return annotations

    def pod(
        self,
        name: str,
        node: str = "",
        *,
        policy: str = "",
        owner: str | None = None,
        owner_kind: str = "ReplicaSet",
        priority: int = 0,
        created: str = "2026-01-01T00:00:00Z",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        deleted: bool = False,
        **spec: Any,
    ) -> Json:
        owner = f"owner-of-{name}" if owner is None else owner
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": f"pod-{name}",
            "labels": {**(labels or {}), **({"telemetry-policy": policy} if policy else {})},
            "annotations": dict(annotations or {}),
            "creationTimestamp": created,
            "deletionTimestamp": "2026-01-02T00:00:00Z" if deleted else None,
            "ownerReferences": [{"kind": owner_kind, "uid": owner, "controller": True}] if owner else [],
        }
        pod = {"metadata": metadata, "spec": {"nodeName": node, "priority": priority, **spec}, "status": {}}
        self.pods[name] = pod
        self.tell(PodChanged(pod=msgspec.convert(pod, UpkeepPod)))
        return pod

    def remove_pod(self, name: str) -> None:
        self.tell(PodGone(uid=self.pods.pop(name)["metadata"]["uid"]))

    def measure(self, metric: str, values: Mapping[str, str | int], *, at: float | None = None) -> None:
        measured = self.now if at is None else at
        samples = {node: Sample.read(value, measured) for node, value in values.items()}
        self.tell(Measured(metric=MetricKey(name=metric), samples=samples))

    def fail(self, metric: str, why: str) -> None:
        self.tell(NotMeasured(metric=MetricKey(name=metric), why=why))

    def carry_out(self) -> list[NodePatch]:
        """Plan the labels of nodes and write them."""
        return self.write(self.upkeep.node_patches(self.now))

    def wake(self) -> list[NodePatch]:
        """Plan which nodes to touch and write it."""
        return self.write(self.upkeep.wake_patches(self.now))

    def write(self, patches: Iterable[NodePatch]) -> list[NodePatch]:
        done = list(patches)
        for patch in done:
            metadata = self.nodes[patch.node]["metadata"]
            assert patch.uid == metadata["uid"]
            assert patch.labels or patch.annotations
            _merge(metadata["labels"], patch.labels)
            _merge(metadata["annotations"], patch.annotations)
            self._tell_node(patch.node)
        return done

    def write_statuses(self) -> list[StatusPatch]:
        done = self.upkeep.status_patches(self.now)
        for patch in done:
            policy = self.policies[patch.kind, patch.policy.namespace, patch.policy.name]
            assert patch.uid == policy["metadata"]["uid"]
            policy["status"] = {**policy.get("status", {}), **patch.status}
            self.tell(ObjectChanged(object=policy))
        return done

    def told(self) -> list[Announcement]:
        return self.upkeep.announcements(self.now)

    def _tell_node(self, name: str) -> None:
        self.tell(NodeChanged(node=msgspec.convert(self.nodes[name], NodeObject)))


def _merge(into: dict[str, str], patch: Mapping[str, str | None]) -> None:
    for key, value in patch.items():
        if value is None:
            assert key in into, "what is not there needs no taking away"
            del into[key]
        else:
            assert into.get(key) != value, "what is there already needs no writing"
            into[key] = value


@pytest.fixture
def cards() -> Cards:
    return Cards()


@pytest.fixture
def make_cluster(cards: Cards) -> Callable[..., Cluster]:
    def make(telemetry: TelemetrySettings | None = None, **settings: Any) -> Cluster:
        return Cluster(UpkeepSettings(**settings), telemetry or TelemetrySettings(), cards)

    return make


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    return make_cluster()
