"""A pod's `metadata` and `spec` as a `Pod`, checked as the API server would check what is used here.

Facts: k8s.io/api/core/v1 types and pkg/apis/core/validation; KEP-753 (an init container with restartPolicy Always is a
sidecar); pkg/apis/scheduling (the two built-in priority classes). Ephemeral containers ask for nothing and are left
out. What bears on placement and is not considered is said in a note, never dropped in silence.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.errors import InputError
from bayplan.workload.affinity import read_node_affinity, read_node_selector, read_tolerations
from bayplan.workload.fields import Fields, as_fields
from bayplan.workload.known_fields import CONTAINER_FIELDS, METADATA_FIELDS, SPEC_FIELDS
from bayplan.workload.model import Pod, Request
from bayplan.workload.names import check_label, check_subdomain
from bayplan.workload.notes import Notes
from bayplan.workload.pod_resources import Needs, read_pod_resources
from bayplan.workload.requirements import read_amounts, read_requirements, to_request, whole

DEFAULT_NAMESPACE = "default"
BUILT_IN_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_NOT_CONSIDERED = ("topologySpreadConstraints", "resourceClaims", "schedulingGates", "schedulingGroup", "workloadRef")


class PriorityClasses(msgspec.Struct, frozen=True):
    """Priority by class name, and that of pods which name no class."""

    values: dict[str, int]
    default: int = 0


class Identity(msgspec.Struct, frozen=True):
    """What an object is called. `base` is `generateName` where there is no `name` (then empty)."""

    name: str
    namespace: str
    uid: str = ""
    base: str = ""


def read_identity(metadata: Fields, notes: Notes) -> Identity:
    """Name, namespace and uid from an object's `metadata`. Raises `InputError`."""
    notes.unknown_fields(metadata.value, METADATA_FIELDS, "metadata")
    name, base = metadata.text("name"), metadata.text("generateName")
    namespace = metadata.text("namespace") or DEFAULT_NAMESPACE
    if name:
        check_subdomain(name, metadata.at("name"))
    elif base:
        check_subdomain(f"{base}0", metadata.at("generateName"))
    else:
        raise metadata.error("name", "missing", expected="text")
    check_label(namespace, metadata.at("namespace"))
    return Identity(name, namespace, metadata.text("uid"), base)


def read_pod(identity: Identity, metadata: Fields, spec: Fields, classes: PriorityClasses, notes: Notes) -> Pod:
    """A pod called as `identity` says, with labels and annotations of `metadata`. Raises `InputError`."""
    notes.unknown_fields(spec.value, SPEC_FIELDS, "a pod's spec")
    needs, requests = _read_containers(spec, notes)
    terms, preferences = read_node_affinity(spec, notes)
    overhead = _read_overhead(spec, notes)
    _note_not_considered(spec, notes)
    node_name = spec.text("nodeName")
    if node_name:
        check_subdomain(node_name, spec.at("nodeName"))
    return Pod(
        uid=identity.uid or f"{identity.namespace}/{identity.name}",
        name=identity.name,
        namespace=identity.namespace,
        labels=metadata.text_map("labels"),
        annotations=metadata.text_map("annotations"),
        init=tuple(request for request in requests if request.init),
        containers=tuple(request for request in requests if not request.init),
        resources=read_pod_resources(spec, needs, notes),
        overhead_cpu_milli=overhead.get("cpu", 0),
        overhead_memory_bytes=whole(overhead.get("memory", 0)),
        node_name=node_name,
        node_selector=read_node_selector(spec),
        node_terms=terms,
        node_preferences=preferences,
        tolerations=read_tolerations(spec),
        priority=_read_priority(spec, classes, notes),
    )


def is_finished(status: Fields) -> bool:
    """Whether a pod's `status` says that it has ended and holds nothing any more."""
    return status.text("phase") in ("Succeeded", "Failed")


def _read_containers(spec: Fields, notes: Notes) -> tuple[list[Needs], list[Request]]:
    if not spec.sequence("containers"):
        raise spec.error("containers", "missing", expected="at least one container")
    needs: list[Needs] = []
    requests: list[Request] = []
    names: set[str] = set()
    for kind in ("initContainers", "containers"):
        path = spec.at(kind)
        for i, value in enumerate(spec.sequence(kind)):
            container = as_fields(value, f"{path}[{i}]")
            need, request = _read_container(container, kind == "initContainers", notes)
            if request.name in names:
                raise container.error("name", "another container has this name", value=request.name)
            names.add(request.name)
            needs.append(need)
            requests.append(request)
    return needs, requests


def _read_container(container: Fields, init: bool, notes: Notes) -> tuple[Needs, Request]:
    notes.unknown_fields(container.value, CONTAINER_FIELDS, "a container")
    name = container.required_text("name")
    check_label(name, container.at("name"))
    restart = container.text("restartPolicy")
    if restart not in ("", "Always", "OnFailure", "Never"):
        raise container.error("restartPolicy", "unknown policy", value=restart, expected="Always, OnFailure or Never")
    restartable = init and restart == "Always"
    resources = container.mapping("resources")
    requirements = read_requirements(resources, notes)
    for port in container.entries("ports"):
        if port.integer("hostPort"):
            notes.add("not-considered", "host ports (hostPort) are not considered")
    request = to_request(name, requirements, resources.path, init=init, restartable=restartable)
    return Needs(requirements, init, restartable), request


def _read_overhead(spec: Fields, notes: Notes) -> dict[str, int]:
    overhead = read_amounts(spec.mapping("overhead"))
    if overhead.keys() - {"cpu", "memory"}:
        notes.add("not-considered", "overhead other than cpu and memory is not considered")
    if not overhead and spec.text("runtimeClassName"):
        notes.add(
            "overhead-unknown",
            f"the overhead of runtime class {spec.text('runtimeClassName')} is not known; none is counted",
        )
    return overhead


def _read_priority(spec: Fields, classes: PriorityClasses, notes: Notes) -> int:
    priority = spec.integer("priority")
    name = spec.text("priorityClassName")
    if priority is not None:
        return priority
    if not name:
        return classes.default
    if name not in classes.values:
        notes.add("priority-unknown", f"priority class {name} is not among the objects; its priority counts as 0")
    return classes.values.get(name, 0)


def _note_not_considered(spec: Fields, notes: Notes) -> None:
    for name in _NOT_CONSIDERED:
        if spec.value.get(name):
            notes.add("not-considered", f"{name} is not considered")
    scheduler = spec.text("schedulerName")
    if scheduler not in ("", "default-scheduler"):
        notes.add("not-considered", f"that scheduler {scheduler} would choose the node is not considered")
    for volume in spec.entries("volumes"):
        if volume.value.get("persistentVolumeClaim") or volume.value.get("ephemeral"):
            notes.add("not-considered", "where persistent volumes can be reached from is not considered")


def read_priority_class(obj: dict[str, Any]) -> tuple[str, int, bool]:
    """Name, value and whether it is the default, of a `PriorityClass`. Raises `InputError`."""
    fields = Fields(obj)
    value = fields.integer("value")
    if value is None:
        raise InputError("missing", place="value", expected="a whole number")
    return fields.mapping("metadata").required_text("name"), value, fields.boolean("globalDefault")
