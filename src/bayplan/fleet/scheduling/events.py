"""What happens in a cluster, as far as an extender's answers depend on it; what a recording is made of.

Each is a value of its own, so that a recording can be written, read and put in again in the same order.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from bayplan.fleet.telemetry.model import MetricKey, NodeSamples
from bayplan.protocols.kubernetes import NodeObject, PodObject


class NodeChanged(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="node"):
    """A node is there, or is not as it was."""

    node: NodeObject


class NodeGone(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="node-gone"):
    """A node is no more."""

    name: str


class PodChanged(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="pod"):
    """A pod is there, or is not as it was."""

    pod: PodObject


class PodGone(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="pod-gone"):
    """A pod is no more."""

    uid: str


class ObjectChanged(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="object"):
    """A policy or a document is there, or is not as it was; `object` is all of it."""

    object: dict[str, Any]


class ObjectGone(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="object-gone"):
    """A policy or a document is no more. `kind` with its group: `TASPolicy.telemetry.intel.com`."""

    kind: str
    namespace: str
    name: str


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A metric was fetched. Its numbers are exact, so a recording has a form of its own for it."""

    metric: MetricKey
    samples: NodeSamples


class NotMeasured(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="not-measured"):
    """A metric could not be fetched."""

    metric: MetricKey
    why: str


class Assumed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="assumed"):
    """The extender has decided to bind a pod to a node."""

    pod: PodObject
    node: str


class Unassumed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="unassumed"):
    """The pod could not be bound after all."""

    uid: str


RecordedEvent: TypeAlias = (
    NodeChanged | NodeGone | PodChanged | PodGone | ObjectChanged | ObjectGone | NotMeasured | Assumed | Unassumed
)
Event: TypeAlias = RecordedEvent | Measured
