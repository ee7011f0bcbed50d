"""Pages of a list and lines of a watch, decoded straight from their bytes into the wanted parts of objects.

Pure. An object that cannot be decoded never takes others with it: it comes out as an `Unreadable` that names it. What
is no page and no event at all raises `UnavailableError`, because it is the stream that is broken then.
Facts: meta/v1 List and WatchEvent.
"""

from __future__ import annotations

from typing import Any, Final, Generic, Literal, TypeVar, cast

import msgspec

from bayplan.cluster.api.errors import UnavailableError, error_from_event
from bayplan.cluster.api.resource import KubernetesObject, Resource

Change = Literal["ADDED", "MODIFIED", "DELETED"]

T = TypeVar("T", bound=KubernetesObject)
U = TypeVar("U")

_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """An object that is not of the expected form: which one, and what is wrong with it."""

    namespace: str
    name: str
    resource_version: str
    change: str = ""
    problem: str

    def __str__(self) -> str:
        """`namespace/name`, or the name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Some of the objects of a list. `next` is the token of the page after it, empty on the last."""

    items: list[T]
    unreadable: tuple[Unreadable, ...] = ()
    resource_version: str
    next: str


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object that came, changed or went."""

    change: Change
    item: T

    @property
    def resource_version(self) -> str:
        """Where a watch after this event goes on."""
        return self.item.metadata.resource_version or ""


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """Nothing happened up to this resourceVersion that was not told."""

    resource_version: str


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = ""
    next: str | None = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, Generic[U]):
    items: list[U] | None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _Event(msgspec.Struct, Generic[U], gc=False):
    type: str
    object: U


class _AnyMeta(msgspec.Struct, rename="camel"):
    name: Any = ""
    namespace: Any = ""
    resource_version: Any = ""


class _Any(msgspec.Struct):
    metadata: _AnyMeta | None = None


_RAW_LIST: Final = msgspec.json.Decoder(_List[msgspec.Raw])
_RAW_EVENT: Final = msgspec.json.Decoder(_Event[msgspec.Raw])
_ANY: Final = msgspec.json.Decoder(_Any)
_CHANGES: Final = frozenset(("ADDED", "MODIFIED", "DELETED"))


class Codec(Generic[T]):
    """Decodes the lists and watches of one resource."""

    def __init__(self, resource: Resource[T]) -> None:
        kind: Any = resource.type
        self._path = resource.path()
        self._object: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)
        self._list: msgspec.json.Decoder[_List[T]] = msgspec.json.Decoder(_List[kind])
        self._event: msgspec.json.Decoder[_Event[T]] = msgspec.json.Decoder(_Event[kind])

    def page(self, body: bytes) -> Page[T]:
        """A page of a list. Raises `UnavailableError` where it is none."""
        try:
            found = self._list.decode(body)
        except _FAULTS:
            return self._page_by_object(body)
        return _page(found, found.items or [], ())

    def event(self, line: bytes) -> WatchEvent[T] | Bookmark | Unreadable:
        """A line of a watch. Raises the `ApiError` of an ERROR event, `UnavailableError` for what is no event."""
        try:
            found = self._event.decode(line)
        except _FAULTS:
            return self._odd_event(line)
        if found.type in _CHANGES:
            return WatchEvent(cast("Change", found.type), found.object)
        return self._odd_event(line)

    def _page_by_object(self, body: bytes) -> Page[T]:
        try:
            found = _RAW_LIST.decode(body)
        except _FAULTS as error:
            raise UnavailableError(f"not a list: {error}", verb="LIST", path=self._path) from error
        read = [self._read(raw) for raw in found.items or ()]
        unreadable = tuple(item for item in read if isinstance(item, Unreadable))
        return _page(found, [item for item in read if not isinstance(item, Unreadable)], unreadable)

    def _odd_event(self, line: bytes) -> WatchEvent[T] | Bookmark | Unreadable:
        try:
            found = _RAW_EVENT.decode(line)
        except _FAULTS as error:
            raise UnavailableError(f"not a watch event: {error}", verb="WATCH", path=self._path) from error
        if found.type == "ERROR":
            raise error_from_event(self._path, found.object)
        if found.type == "BOOKMARK":
            return Bookmark(_named(found.object, "").resource_version)
        if found.type not in _CHANGES:
            raise UnavailableError(f"a watch event of unknown type {found.type!r}", verb="WATCH", path=self._path)
        item = self._read(found.object, found.type)
        return item if isinstance(item, Unreadable) else WatchEvent(cast("Change", found.type), item)

    def _read(self, raw: msgspec.Raw, change: str = "") -> T | Unreadable:
        try:
            return self._object.decode(raw)
        except _FAULTS as error:
            return _named(raw, str(error), change)


def _page(found: _List[Any], items: list[T], unreadable: tuple[Unreadable, ...]) -> Page[T]:
    meta = found.metadata
    return Page(items=items, unreadable=unreadable, resource_version=meta.resource_version or "", next=meta.next or "")


def _named(raw: msgspec.Raw, problem: str, change: str = "") -> Unreadable:
    """What can be told of an object without believing anything of its form."""
    try:
        meta = _ANY.decode(raw).metadata or _AnyMeta()
    except _FAULTS:
        meta = _AnyMeta()
    return Unreadable(
        namespace=_text(meta.namespace),
        name=_text(meta.name),
        resource_version=_text(meta.resource_version),
        change=change,
        problem=problem,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
