"""Controllers (Deployment, StatefulSet, Job, ...) as the pods they would make.

A controller becomes one model pod and a count; `manifests` gives the copies their names. Counts and defaults are those
of pkg/apis/apps/v1 and pkg/apis/batch/v1; a CronJob stands for one run. A DaemonSet is one pod with `every_node`, and
has the tolerations that its controller adds (pkg/controller/daemon/util).
"""

from __future__ import annotations

import msgspec

from bayplan.errors import InputError
from bayplan.workload.fields import Fields
from bayplan.workload.known_fields import CONTROLLER_FIELDS, JOB_FIELDS, METADATA_FIELDS
from bayplan.workload.model import Pod, Toleration
from bayplan.workload.notes import Notes
from bayplan.workload.pods import Identity, PriorityClasses, read_identity, read_pod

# Kubernetes itself is made for 150,000 pods in a cluster; this bounds memory against `replicas: 2000000000`.
MAX_COPIES = 500_000

GROUPS: dict[str, frozenset[str]] = {
    "Pod": frozenset({""}),
    "ReplicationController": frozenset({""}),
    "Deployment": frozenset({"apps", "extensions"}),
    "ReplicaSet": frozenset({"apps", "extensions"}),
    "DaemonSet": frozenset({"apps", "extensions"}),
    "StatefulSet": frozenset({"apps"}),
    "Job": frozenset({"batch"}),
    "CronJob": frozenset({"batch"}),
    "PriorityClass": frozenset({"scheduling.k8s.io"}),
}
_DAEMON_TOLERATIONS = tuple(
    Toleration(key=f"node.kubernetes.io/{condition}", operator="Exists", effect=effect)
    for condition, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_NETWORK_TOLERATION = Toleration(key="node.kubernetes.io/network-unavailable", operator="Exists", effect="NoSchedule")


class Expansion(msgspec.Struct, frozen=True):
    """`count` copies of `pod`, numbered from `first`. `pod.name` is the controller's; a DaemonSet's is not numbered."""

    kind: str
    pod: Pod
    count: int
    first: int = 0


def read_controller(kind: str, obj: Fields, classes: PriorityClasses, notes: Notes) -> Expansion:
    """A controller's pods; `count` is 0 where it makes none (any more). Raises `InputError`."""
    identity = read_identity(obj.mapping("metadata"), notes)
    spec = _required(obj, "spec")
    notes.unknown_fields(spec.value, CONTROLLER_FIELDS[kind], f"a {kind}'s spec")
    count, first = _count(kind, obj, spec, notes)
    template = _template(kind, spec, notes)
    pod = _template_pod(kind, identity, template, classes, notes)
    return Expansion(kind, pod, count, first)


def _count(kind: str, obj: Fields, spec: Fields, notes: Notes) -> tuple[int, int]:
    if kind == "DaemonSet":
        return 1, 0
    if kind == "CronJob":
        if spec.boolean("suspend"):
            notes.add("suspended", "a suspended CronJob makes no pods")
            return 0, 0
        return _job_count(_job_spec(spec), notes), 0
    if kind == "Job":
        return (0 if _job_is_over(obj, notes) else _job_count(spec, notes)), 0
    replicas = spec.integer("replicas", 0)
    ordinals = spec.mapping("ordinals") if kind == "StatefulSet" else None
    first = (ordinals.integer("start", 0) or 0) if ordinals else 0
    return _bounded(spec, "replicas", 1 if replicas is None else replicas), first


def _job_count(spec: Fields, notes: Notes) -> int:
    parallelism, completions = spec.integer("parallelism", 0), spec.integer("completions", 0)
    if spec.boolean("suspend"):
        notes.add("suspended", "a suspended Job makes no pods")
        return 0
    count = 1 if parallelism is None else parallelism
    return _bounded(spec, "parallelism", count if completions is None else min(count, completions))


def _job_is_over(obj: Fields, notes: Notes) -> bool:
    conditions = obj.mapping("status").entries("conditions")
    over = any(c.text("type") in ("Complete", "Failed") and c.text("status") == "True" for c in conditions)
    if over:
        notes.add("finished", "a Job that has ended makes no pods")
    return over


def _bounded(spec: Fields, name: str, count: int) -> int:
    if count > MAX_COPIES:
        raise spec.error(name, "too many pods", value=count, expected=f"at most {MAX_COPIES}")
    return count


def _job_spec(spec: Fields) -> Fields:
    return _required(_required(spec, "jobTemplate"), "spec")


def _template(kind: str, spec: Fields, notes: Notes) -> Fields:
    if kind == "CronJob":
        spec = _job_spec(spec)
        notes.unknown_fields(spec.value, JOB_FIELDS, "a CronJob's job spec")
    return _required(spec, "template")


def _template_pod(kind: str, identity: Identity, template: Fields, classes: PriorityClasses, notes: Notes) -> Pod:
    metadata, spec = template.mapping("metadata"), _required(template, "spec")
    notes.unknown_fields(metadata.value, METADATA_FIELDS, "a template's metadata")
    name = identity.name or identity.base.rstrip("-.")
    pod = read_pod(Identity(name, identity.namespace), metadata, spec, classes, notes)
    if kind != "DaemonSet":
        return msgspec.structs.replace(pod, owner=f"{kind}/{name}")
    added = (*_DAEMON_TOLERATIONS, _NETWORK_TOLERATION) if spec.boolean("hostNetwork") else _DAEMON_TOLERATIONS
    missing = tuple(toleration for toleration in added if toleration not in pod.tolerations)
    return msgspec.structs.replace(
        pod, owner=f"{kind}/{name}", every_node=True, tolerations=(*pod.tolerations, *missing)
    )


def _required(fields: Fields, name: str) -> Fields:
    found = fields.optional(name)
    if found is None:
        raise InputError("missing", place=fields.at(name), expected="a mapping")
    return found
