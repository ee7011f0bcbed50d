"""A Pod of the API as a pod that can be asked about: read by the same reader as a manifest."""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.protocols.kubernetes import PodObject
from bayplan.workload.fields import Fields
from bayplan.workload.model import Pod
from bayplan.workload.notes import Notes
from bayplan.workload.pods import PriorityClasses, read_identity, read_pod

MIRROR = "kubernetes.io/config.mirror"
"""On the API's picture of a pod that a node runs from a file: the uid by which the node knows the real one."""
_NO_CLASSES = PriorityClasses({})


def node_uid(pod: PodObject) -> str:
    """The uid by which its node knows a pod."""
    return pod.annotations.get(MIRROR) or pod.metadata.uid or pod.full_name


def named(pod: PodObject) -> tuple[str, str]:
    """Namespace and name."""
    return pod.metadata.namespace or "default", pod.metadata.name


def pod_of(pod: PodObject) -> Pod:
    """The pod with what its containers ask. What it says of nodes is left out. Raises `InputError`."""
    notes = Notes()
    spec: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(pod.spec))
    meta = pod.metadata
    metadata = Fields(
        {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "labels": meta.labels,
            "annotations": meta.annotations,
        },
        "metadata",
    )
    return read_pod(read_identity(metadata, notes), metadata, Fields(spec, "spec"), _NO_CLASSES, notes)
