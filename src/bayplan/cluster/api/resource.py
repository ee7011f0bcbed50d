"""Which resource is meant, where the API server has it, and what of its objects is read.

A `Resource` is a value: group, version, plural and the type its objects are decoded into. The type names the fields
that are wanted and nothing else, so that the rest of an object is never built (`bayplan.protocols.kubernetes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from bayplan.protocols.kubernetes import NodeObject, ObjectMeta, PodObject


class KubernetesObject(Protocol):
    """What a list or a watch needs of an object: its metadata."""

    @property
    def metadata(self) -> ObjectMeta:
        """`metadata`."""


T = TypeVar("T", bound=KubernetesObject)


class Resource(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A resource of the API; the core group is the empty text.

    `type` is what its objects are decoded into: a `msgspec.Struct` with `metadata: ObjectMeta`. A field of type
    `msgspec.Raw` points into the whole answer it came in and keeps that alive: copy it (`Raw.copy`) before it is kept.
    """

    group: str = ""
    version: str = "v1"
    plural: str
    type: type[T]

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of all objects, of those of a namespace, of one object, or of a subresource of one."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(quote(part, safe="") for part in parts)


class AnyObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object of which only the metadata is read."""

    metadata: ObjectMeta = ObjectMeta()


PODS = Resource(plural="pods", type=PodObject)
NODES = Resource(plural="nodes", type=NodeObject)
LEASES = Resource(group="coordination.k8s.io", plural="leases", type=AnyObject)
EVENTS = Resource(group="events.k8s.io", plural="events", type=AnyObject)


class ObjectRef(msgspec.Struct, frozen=True, kw_only=True):
    """One object: namespace (empty for those of the cluster), name, and UID where it must be this very one."""

    namespace: str = ""
    name: str
    uid: str = ""

    @classmethod
    def of(cls, item: KubernetesObject) -> ObjectRef:
        """The very object that `item` is."""
        meta = item.metadata
        return cls(namespace=meta.namespace or "", name=meta.name, uid=meta.uid or "")

    def __str__(self) -> str:
        """`namespace/name`, or the name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def query(**parameters: str | int | bool | None) -> Mapping[str, str]:
    """Query parameters without those that are empty; names in camel case as the API has them."""
    said: dict[str, Any] = {name: value for name, value in parameters.items() if value not in (None, "", False)}
    return {name: "true" if value is True else str(value) for name, value in said.items()}
