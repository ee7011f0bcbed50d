"""A NodeResourceTopology (topology.node.k8s.io/v1alpha2), the object in which exporters tell a node's zones in numbers.

Who keeps an object up is read from its managed fields: one that people wrote (`kubectl`) is kept up by nobody, and its
`available` never falls as pods come. Only zones of type Node count; none of the exporters tells what is inside one.

Facts: k8stopologyawareschedwg/noderesourcetopology-api, pkg/apis/topology/v1alpha2/types.go (fields, the deprecated
`topologyPolicies`); the pod fingerprint's attribute names; meta/v1 ManagedFieldsEntry.
"""

from __future__ import annotations

import re

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.node_fields import read_allocatable
from bayplan.policies.kubelet.configuration import TOPOLOGY_POLICIES, TOPOLOGY_SCOPES
from bayplan.workload.fields import Fields
from bayplan.workload.names import check_subdomain
from bayplan.workload.times import parse_moment

KIND = "NodeResourceTopology"
GROUP = "topology.node.k8s.io"
VERSIONS = (f"{GROUP}/v1alpha2", f"{GROUP}/v1alpha1")
MAX_ZONES = 1_024
MAX_RESOURCES = 256
_NUMBERED = re.compile(r"(?:.*\D)?(\d{1,4})", re.ASCII)
_BY_HAND = ("kubectl", "before-first-apply", "k9s", "helm")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_OLD_POLICIES = {
    "SingleNUMANodeContainerLevel": ("single-numa-node", "container"),
    "SingleNUMANodePodLevel": ("single-numa-node", "pod"),
    "Restricted": ("restricted", "container"),
    "RestrictedContainerLevel": ("restricted", "container"),
    "RestrictedPodLevel": ("restricted", "pod"),
    "BestEffort": ("best-effort", "container"),
    "BestEffortContainerLevel": ("best-effort", "container"),
    "BestEffortPodLevel": ("best-effort", "pod"),
    "None": ("none", "container"),
}


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a zone has of a resource (millicores, bytes, pieces): in all, for pods, and left for pods to come."""

    capacity: int
    allocatable: int
    available: int


class TopologyZone(msgspec.Struct, frozen=True, kw_only=True):
    """A NUMA node. `costs`: name of a zone -> its distance from here."""

    name: str
    id: int
    resources: dict[str, Amounts]
    costs: dict[str, int] = {}


class NodeTopology(msgspec.Struct, frozen=True, kw_only=True):
    """A node in numbers by zone.

    `policy` and `scope` are the Topology manager's; `cpu_policy` and `memory_policy` those of the managers, None where
    the object does not say. `updated`: seconds since 1970 of the last change by whoever keeps it up (None: not told).
    `by_hand`: who wrote it, if that was nobody who keeps it up. `fingerprint` is of the pods that it counts.
    """

    name: str
    policy: str
    scope: str
    zones: tuple[TopologyZone, ...]
    cpu_policy: str | None = None
    memory_policy: str | None = None
    fingerprint: str = ""
    updated: float | None = None
    by_hand: str = ""


def topology_from(fields: Fields) -> NodeTopology:
    """A NodeResourceTopology from its values. Raises `InputError`."""
    version, kind = fields.text("apiVersion"), fields.text("kind")
    if kind != KIND or version not in VERSIONS:
        place = "kind" if kind != KIND else "apiVersion"
        raise fields.error(place, "wrong", value=fields.value.get(place, ...), expected=f"{KIND}, {VERSIONS[0]}")
    metadata = fields.mapping("metadata")
    name = metadata.required_text("name")
    check_subdomain(name, metadata.at("name"))
    attributes = {entry.required_text("name"): entry.text("value") for entry in fields.entries("attributes")}
    policy, scope = _policy(fields, attributes)
    updated, by_hand = _owner(metadata)
    annotations = metadata.mapping("annotations")
    return NodeTopology(
        name=name,
        policy=policy,
        scope=scope,
        zones=_zones(fields),
        cpu_policy=attributes.get("cpuManagerPolicy"),
        memory_policy=attributes.get("memoryManagerPolicy"),
        fingerprint=attributes.get("nodeTopologyPodsFingerprint") or annotations.text(f"{GROUP}/fingerprint"),
        updated=updated,
        by_hand=by_hand,
    )


def _policy(fields: Fields, attributes: dict[str, str]) -> tuple[str, str]:
    """Policy and scope, from attributes or else from the deprecated list."""
    old = fields.texts("topologyPolicies")
    policy, scope = _OLD_POLICIES.get(old[0], ("none", "container")) if old else ("none", "container")
    if old and old[0] not in _OLD_POLICIES:
        raise fields.error("topologyPolicies", "unknown policy", value=old[0], expected=", ".join(_OLD_POLICIES))
    policy = attributes.get("topologyManagerPolicy") or policy
    scope = attributes.get("topologyManagerScope") or scope
    for name, value, allowed in (
        ("topologyManagerPolicy", policy, TOPOLOGY_POLICIES),
        ("topologyManagerScope", scope, TOPOLOGY_SCOPES),
    ):
        if value not in allowed:
            raise InputError("unknown name", place=f"attributes[{name}]", value=value, expected=", ".join(allowed))
    return policy, scope


def _zones(fields: Fields) -> tuple[TopologyZone, ...]:
    entries = fields.entries("zones")
    if len(entries) > MAX_ZONES:
        raise fields.error("zones", "too many", value=len(entries), expected=f"at most {MAX_ZONES}")
    nodes = [entry for entry in entries if entry.text("type").lower() in ("node", "numa node")]
    if not nodes:
        raise fields.error("zones", "no zone of type Node", expected="the NUMA nodes of the node")
    named = [_NUMBERED.fullmatch(entry.required_text("name")) for entry in nodes]
    numbers = [int(found[1]) for found in named if found]
    if len(set(numbers)) != len(nodes):  # names that are no numbers, or not each its own
        numbers = list(range(len(nodes)))
    zones = [_zone(entry, number) for entry, number in zip(nodes, numbers, strict=True)]
    if len({zone.name for zone in zones}) != len(zones):
        raise fields.error("zones", "two of one name")
    return tuple(sorted(zones, key=lambda zone: zone.id))


def _zone(entry: Fields, number: int) -> TopologyZone:
    resources: dict[str, Amounts] = {}
    given = entry.entries("resources")
    if len(given) > MAX_RESOURCES:
        raise entry.error("resources", "too many", value=len(given), expected=f"at most {MAX_RESOURCES}")
    for resource in given:
        name = resource.required_text("name")
        if name in resources:
            raise resource.error("name", "given twice", value=name)
        resources[name] = Amounts(**{part: _amount(resource, name, part) for part in Amounts.__struct_fields__})
    costs = {cost.required_text("name"): cost.integer("value", 0) or 0 for cost in entry.entries("costs")}
    return TopologyZone(name=entry.required_text("name"), id=number, resources=resources, costs=costs)


def _amount(resource: Fields, name: str, part: str) -> int:
    """A quantity; where an old exporter leaves out what is there for pods, it is all that there is."""
    value = resource.value.get(part)
    if value is None and part == "allocatable":
        value = resource.value.get("capacity")
    if value is None:
        raise resource.error(part, "missing", expected="a quantity")
    try:
        return read_allocatable(Fields({name: value}))[name]
    except InputError as error:
        raise error.within(place=resource.at(part)) from error


def _owner(metadata: Fields) -> tuple[float | None, str]:
    """When it was last changed by whoever keeps it up, and who wrote it where that is nobody."""
    updated, hands = None, []
    for entry in metadata.entries("managedFields"):
        manager = entry.text("manager")
        if manager.startswith(_BY_HAND):
            hands.append(manager)
            continue
        text = entry.text("time")
        moment = parse_moment(text) if text else None
        if moment is not None and (updated is None or moment > updated):
            updated = moment
    kept = any(not entry.text("manager").startswith(_BY_HAND) for entry in metadata.entries("managedFields"))
    if kept:
        return updated, ""
    if metadata.mapping("annotations").value.get(_APPLIED) is not None:
        hands.append("kubectl apply")
    return None, hands[0] if hands else ""
