"""Every call to the API server that the controller makes, as a role has to allow it.

Each name stands for what the code does; the manifests in `deploy/` are held against this list, and the tests with a
real API server run with exactly these rights.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.cluster.api import EVENTS, LEASES, NODES, Resource
from bayplan.cluster.stores import WholeObject
from bayplan.fleet.telemetry import own, tas
from bayplan.fleet.upkeep.pods import UpkeepPod

PODS = Resource(plural="pods", type=UpkeepPod)
TASPOLICIES = Resource(group="telemetry.intel.com", version="v1alpha1", plural="taspolicies", type=WholeObject)
TELEMETRYPOLICIES = Resource(group="bayplan.dev", version="v1alpha1", plural="telemetrypolicies", type=WholeObject)
POLICIES: dict[str, Resource[WholeObject]] = {tas.KIND: TASPOLICIES, own.KIND: TELEMETRYPOLICIES}
ENDED = "status.phase!=Succeeded,status.phase!=Failed"
"""Of pods that have ended there are many, and none matters here."""


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """A verb on a resource, and what it is for. `own_namespace`: only where the controller runs."""

    group: str
    resource: str
    verb: str
    why: str
    own_namespace: bool = False


def _rights(resource: Resource[Any], verbs: str, why: str, subresource: str = "", **more: bool) -> list[Right]:
    name = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return [Right(group=resource.group, resource=name, verb=verb, why=why, **more) for verb in verbs.split()]


RIGHTS: tuple[Right, ...] = (
    *_rights(NODES, "list watch", "which nodes there are, and their labels"),
    *_rights(NODES, "patch", "labels of labeling and deschedule, and the annotation that wakes pods"),
    *_rights(PODS, "list watch", "who waits for a node, and who runs on nodes that violate"),
    *_rights(PODS, "patch", "the label of pods on cards that are to be given up"),
    *_rights(PODS, "get", "whether a pod that could not be evicted is still the same"),
    *_rights(PODS, "create", "evictions, where they are asked for", "eviction"),
    *_rights(TASPOLICIES, "list watch", "the policies"),
    *_rights(TASPOLICIES, "patch", "what the policies' status says", "status"),
    *_rights(TELEMETRYPOLICIES, "list watch", "the policies"),
    *_rights(TELEMETRYPOLICIES, "patch", "what the policies' status says", "status"),
    *_rights(EVENTS, "create patch", "events in words, and how often they were"),
    *_rights(LEASES, "get create update", "which replica leads", own_namespace=True),
)
