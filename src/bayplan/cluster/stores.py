"""From what reflectors tell to events: what came, changed or went, and only of what anybody wants to know.

A store keeps no objects, only which there are: of 150,000 pods most ask for nothing that is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from bayplan.fleet.scheduling.events import (
    Event,
    NodeChanged,
    NodeGone,
    ObjectChanged,
    ObjectGone,
    PodChanged,
    PodGone,
)
from bayplan.protocols.kubernetes import NodeObject, ObjectMeta, PodObject

Change = Literal["ADDED", "MODIFIED", "DELETED"]
Sink = Callable[[Event], None]


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """Who last wrote some of an object's fields, and when."""

    manager: str = ""
    time: str | None = None


class WholeMeta(ObjectMeta, frozen=True, kw_only=True, rename="camel"):
    """`metadata`, with who wrote the object: numbers by zone count only where somebody keeps them up."""

    managed_fields: tuple[Writer, ...] | None = None


class WholeObject(msgspec.Struct, frozen=True, kw_only=True):
    """A policy or a document with all that is read of it. `zones` and on: of a NodeResourceTopology."""

    metadata: WholeMeta = WholeMeta()
    spec: Any = None
    status: Any = None
    zones: Any = None
    attributes: Any = None
    topologyPolicies: Any = None  # noqa: N815 - as it is written


class NodeStore:
    """All nodes."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._versions: dict[str, str] = {}

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self._versions)

    def replace(self, items: Sequence[NodeObject]) -> None:
        """These are all nodes."""
        for name in self._versions.keys() - {node.name for node in items}:
            self._gone(name)
        for node in items:
            self._there(node)

    def apply(self, change: Change, item: NodeObject) -> None:
        """One node came, changed or went."""
        if change == "DELETED":
            self._gone(item.name)
        else:
            self._there(item)

    def _there(self, node: NodeObject) -> None:
        version = node.metadata.resource_version or ""
        if version and self._versions.get(node.name) == version:
            return
        self._versions[node.name] = version
        self._sink(NodeChanged(node=node))

    def _gone(self, name: str) -> None:
        if self._versions.pop(name, None) is not None:
            self._sink(NodeGone(name=name))


class PodStore:
    """Those pods that `wants` wants. One that it wants no more is gone, as far as anybody is told."""

    def __init__(self, sink: Sink, wants: Callable[[PodObject], bool]) -> None:
        self._sink = sink
        self._wants = wants
        self._known: set[str] = set()

    def __len__(self) -> int:
        """How many pods are wanted."""
        return len(self._known)

    def replace(self, items: Sequence[PodObject]) -> None:
        """These are all pods."""
        for uid in self._known - {pod.metadata.uid or "" for pod in items}:
            self._gone(uid)
        for pod in items:
            self._there(pod)

    def apply(self, change: Change, item: PodObject) -> None:
        """One pod came, changed or went."""
        if change == "DELETED":
            self._gone(item.metadata.uid or "")
        else:
            self._there(item)

    def _there(self, pod: PodObject) -> None:
        uid = pod.metadata.uid or ""
        if self._wants(pod):
            self._known.add(uid)
            self._sink(PodChanged(pod=pod))
        else:
            self._gone(uid)

    def _gone(self, uid: str) -> None:
        if uid in self._known:
            self._known.discard(uid)
            self._sink(PodGone(uid=uid))


class ObjectStore:
    """All objects of one kind, whole: policies, documents. `kind` with its group, `TASPolicy.telemetry.intel.com`."""

    def __init__(self, sink: Sink, kind: str, api_version: str) -> None:
        self._sink = sink
        self._kind = kind
        self._head = {"apiVersion": api_version, "kind": kind.partition(".")[0]}
        self._versions: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._versions)

    def replace(self, items: Sequence[WholeObject]) -> None:
        """These are all of them."""
        for namespace, name in self._versions.keys() - {_key(item.metadata) for item in items}:
            self._gone(namespace, name)
        for item in items:
            self._there(item)

    def apply(self, change: Change, item: WholeObject) -> None:
        """One came, changed or went."""
        if change == "DELETED":
            self._gone(*_key(item.metadata))
        else:
            self._there(item)

    def _there(self, item: WholeObject) -> None:
        key, version = _key(item.metadata), item.metadata.resource_version or ""
        if version and self._versions.get(key) == version:
            return
        self._versions[key] = version
        fields = {name: value for name, value in msgspec.to_builtins(item).items() if value is not None}
        self._sink(ObjectChanged(object={**self._head, **fields}))

    def _gone(self, namespace: str, name: str) -> None:
        if self._versions.pop((namespace, name), None) is not None:
            self._sink(ObjectGone(kind=self._kind, namespace=namespace, name=name))


def _key(metadata: ObjectMeta) -> tuple[str, str]:
    return metadata.namespace or "", metadata.name
