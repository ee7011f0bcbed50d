"""Every call to the API server that the controller makes, as a role has to allow it.

Each name stands for what the code does; the manifests in `deploy/` are held against this list, and the tests with a
real API server run with exactly these rights.
"""

from __future__ import annotations

from typing import Any

from bayplan.cluster.api import EVENTS, LEASES, NODES, Resource
from bayplan.cluster.rights import Right, rights
from bayplan.cluster.stores import WholeObject
from bayplan.fleet.telemetry import own, tas
from bayplan.fleet.upkeep.pods import UpkeepPod

PODS = Resource(plural="pods", type=UpkeepPod)
TASPOLICIES = Resource(group="telemetry.intel.com", version="v1alpha1", plural="taspolicies", type=WholeObject)
TELEMETRYPOLICIES = Resource(group="bayplan.dev", version="v1alpha1", plural="telemetrypolicies", type=WholeObject)
POLICIES: dict[str, Resource[WholeObject]] = {tas.KIND: TASPOLICIES, own.KIND: TELEMETRYPOLICIES}
ENDED = "status.phase!=Succeeded,status.phase!=Failed"
"""Of pods that have ended there are many, and none matters here."""


def _of(
    resource: Resource[Any], verbs: str, why: str, subresource: str = "", *, own_namespace: bool = False
) -> list[Right]:
    name = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return rights(resource.group, name, verbs, why, own_namespace=own_namespace)


RIGHTS: tuple[Right, ...] = (
    *_of(NODES, "list watch", "which nodes there are, and their labels"),
    *_of(NODES, "patch", "labels of labeling and deschedule, and the annotation that wakes pods"),
    *_of(PODS, "list watch", "who waits for a node, and who runs on nodes that violate"),
    *_of(PODS, "patch", "the label of pods on cards that are to be given up"),
    *_of(TASPOLICIES, "list watch", "the policies"),
    *_of(TASPOLICIES, "patch", "what the policies' status says", "status"),
    *_of(TELEMETRYPOLICIES, "list watch", "the policies"),
    *_of(TELEMETRYPOLICIES, "patch", "what the policies' status says", "status"),
    *_of(EVENTS, "create patch", "events in words, and how often they were"),
    *_of(LEASES, "get create update", "which replica leads", own_namespace=True),
    *rights("custom.metrics.k8s.io", "*", "get", "what is measured of nodes"),
)
EVICTION_RIGHTS: tuple[Right, ...] = (
    *_of(PODS, "get", "whether a pod that could not be evicted is still the same"),
    *_of(PODS, "create", "evictions, where they are asked for", "eviction"),
)
