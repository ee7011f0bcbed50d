"""Kubernetes objects as pods: what `kubectl get -o yaml` prints or a person writes.

Pods stand for themselves, controllers for the pods they would make. Where both a controller and pods that it owns are
given (a dump of a cluster), the pods speak and the controller is not expanded again; the same for a ReplicaSet that a
given Deployment owns.

Names: a controller's copies are `web-0`, `web-1`, ...; StatefulSet's names are the real ones, the others' stand in for
random ones. Where a name is taken already, the kind goes between: `web-deployment-0`. A DaemonSet is one pod with
`every_node`, under its own name. Without `metadata.uid`, and for all copies, the uid is `namespace/name`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from bayplan.errors import InputError
from bayplan.workload.documents import Document
from bayplan.workload.fields import Fields, wrong_type
from bayplan.workload.known_fields import POD_FIELDS
from bayplan.workload.model import Pod
from bayplan.workload.notes import Note, Notes, nearest, printable
from bayplan.workload.pods import (
    BUILT_IN_PRIORITIES,
    PriorityClasses,
    is_finished,
    read_identity,
    read_pod,
    read_priority_class,
)
from bayplan.workload.templates import GROUPS, MAX_COPIES, Expansion, read_controller
from bayplan.workload.times import PodTimes, read_times

MAX_LIST_DEPTH = 4
_LONGEST_NAME = 60
_LONGEST_TITLE = 180
_Key = tuple[str, str, str]  # kind, namespace, name


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Pods in the order of the documents, and what was noticed while reading them. `times`: by a pod's `source`."""

    pods: tuple[Pod, ...]
    notes: tuple[Note, ...] = ()
    times: dict[str, PodTimes] = {}


class _Object(msgspec.Struct, frozen=True):
    """One object of a stream. `place` is `document 2, items[3]`."""

    source: str
    place: str
    kind: str
    version: str
    value: dict[str, Any]

    @property
    def group(self) -> str:
        """`apps` of `apps/v1`; empty for the core's `v1`."""
        return self.version.rpartition("/")[0]

    @property
    def title(self) -> str:
        """`document 2, items[3] (Pod default/web)`, from values that may be anything."""
        metadata = self.value.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        name, namespace = metadata.get("name") or metadata.get("generateName"), metadata.get("namespace") or "default"
        named = f" {namespace}/{name}" if isinstance(name, str) and isinstance(namespace, str) else ""
        return f"{self.place} ({printable(self.kind + named, _LONGEST_TITLE)})"


class _Read(msgspec.Struct, frozen=True):
    """An object that was read. `copies` is None for a finished pod."""

    origin: _Object
    key: _Key
    owner: _Key | None
    copies: Expansion | None


def read(documents: Iterable[Document], *, over_time: bool = False) -> Workload:
    """The pods of all documents. Raises `InputError` (`file: document 2 (Pod default/web): spec...: problem`).

    `over_time`: pods that have ended are given too, and the times of all.
    """
    notes = Notes()
    objects = [obj for document in documents for obj in _objects(document)]
    classes = _priority_classes(objects)
    given: dict[_Key, _Read] = {}
    for obj in objects:
        notes.place = f"{obj.source}: {obj.title}"
        read_one = _located(obj, classes, notes, ended=over_time)
        if read_one is None:
            continue
        if read_one.key in given:
            earlier = given[read_one.key].origin
            raise InputError(
                "given twice",
                source=obj.source,
                place=obj.title,
                expected=f"one; it is in {_seen_from(obj, earlier)} too",
            )
        given[read_one.key] = read_one
    pods = _name_copies(_expanded(given, notes))
    return Workload(pods=tuple(pods), notes=notes.all(), times=_times(given.values()) if over_time else {})


def _times(given: Iterable[_Read]) -> dict[str, PodTimes]:
    """By a pod's `source`, its times; the copies that a controller makes have those of its template's annotations."""
    times = {}
    for one in given:
        if one.copies is None:
            continue
        pod = one.copies.pod
        value = one.origin.value if one.key[0] == "Pod" else {"metadata": {"annotations": pod.annotations}}
        try:
            times[pod.source] = read_times(Fields(value))
        except InputError as error:
            raise error.in_document(source=one.origin.source, document=one.origin.title) from error
    return times


def _seen_from(obj: _Object, other: _Object) -> str:
    return other.place if other.source == obj.source else f"{other.source}: {other.place}"


def _objects(document: Document) -> Iterator[_Object]:
    """The objects of a document, those of lists one by one."""
    pending: list[tuple[str, Any, str, str, int]] = [(document.place, document.value, "", "", 0)]
    while pending:
        place, value, kind, version, depth = pending.pop()
        obj = _object(document.source, place, value, kind, version)
        inner = obj.kind.removesuffix("List")
        if not obj.kind.endswith("List") or (inner and inner not in GROUPS):
            yield obj
            continue
        if depth >= MAX_LIST_DEPTH:
            raise InputError("lists within lists within lists", source=document.source, place=place)
        version = obj.version if inner else ""
        items = _items(obj)
        pending.extend(
            (f"{place}, items[{i}]", items[i], inner, version, depth + 1) for i in reversed(range(len(items)))
        )


def _items(obj: _Object) -> list[Any]:
    try:
        return Fields(obj.value).sequence("items")
    except InputError as error:
        raise error.in_document(source=obj.source, document=obj.place) from error


def _object(source: str, place: str, value: Any, default_kind: str, default_version: str) -> _Object:
    """Kind and group of an object; items of a typed list (PodList) need not repeat them."""
    if not isinstance(value, dict):
        error = wrong_type("", value, "a Kubernetes object, which is a mapping with apiVersion and kind")
        raise error.within(source=source, place=place)
    try:
        fields = Fields(value)
        kind = fields.text("kind") or default_kind or fields.required_text("kind")
        version = fields.text("apiVersion") or default_version or fields.required_text("apiVersion")
    except InputError as error:
        raise error.in_document(source=source, document=place) from error
    return _Object(source, place, kind, version, value)


def _priority_classes(objects: list[_Object]) -> PriorityClasses:
    values, default = dict(BUILT_IN_PRIORITIES), 0
    for obj in objects:
        if obj.kind == "PriorityClass" and obj.group in GROUPS["PriorityClass"]:
            try:
                name, value, is_default = read_priority_class(obj.value)
            except InputError as error:
                raise error.in_document(source=obj.source, document=obj.title) from error
            values[name] = value
            default = value if is_default else default
    return PriorityClasses(values, default)


def _located(obj: _Object, classes: PriorityClasses, notes: Notes, *, ended: bool) -> _Read | None:
    try:
        return _read_object(obj, classes, notes, ended=ended)
    except InputError as error:
        raise error.in_document(source=obj.source, document=obj.title) from error


def _read_object(obj: _Object, classes: PriorityClasses, notes: Notes, *, ended: bool) -> _Read | None:
    if obj.group not in GROUPS.get(obj.kind, ()):
        group = f" ({printable(obj.group, _LONGEST_TITLE)})" if obj.group else ""
        hint = "" if obj.kind in GROUPS else nearest(obj.kind, GROUPS)
        kind = printable(obj.kind, _LONGEST_TITLE)
        notes.add("kind-skipped", f"{kind}{group} makes no pods and is skipped{hint}")
        return None
    if obj.kind == "PriorityClass":
        return None
    fields = Fields(obj.value)
    copies = _read_pod(obj, fields, classes, notes, ended=ended) if obj.kind == "Pod" else None
    if obj.kind != "Pod":
        copies = read_controller(obj.kind, fields, classes, notes)
        copies = msgspec.structs.replace(copies, pod=_with_source(copies.pod, obj))
    metadata = fields.mapping("metadata")
    namespace = metadata.text("namespace") or "default"
    name = metadata.text("name") or f"{metadata.text('generateName')}*{obj.source}{obj.place}"
    owner = _owner(metadata)
    return _Read(obj, (obj.kind, namespace, name), (owner[0], namespace, owner[1]) if owner else None, copies)


def _read_pod(obj: _Object, fields: Fields, classes: PriorityClasses, notes: Notes, *, ended: bool) -> Expansion | None:
    metadata = fields.mapping("metadata")
    identity = read_identity(metadata, notes)
    if not ended and is_finished(fields.mapping("status")):
        notes.add("finished", "a pod that has ended is skipped")
        return None
    notes.unknown_fields(obj.value, POD_FIELDS, "a Pod")
    pod = read_pod(identity, metadata, fields.mapping("spec"), classes, notes)
    owner = _owner(metadata)
    pod = msgspec.structs.replace(_with_source(pod, obj), owner=f"{owner[0]}/{owner[1]}" if owner else "")
    if identity.name:
        return Expansion("Pod", pod, 1)
    return Expansion("GeneratedPod", msgspec.structs.replace(pod, name=identity.base.rstrip("-.")), 1)


def _with_source(pod: Pod, obj: _Object) -> Pod:
    return msgspec.structs.replace(pod, source=f"{obj.source}: {obj.place}")


def _owner(metadata: Fields) -> tuple[str, str] | None:
    """Kind and name of the controller among `ownerReferences`."""
    for reference in metadata.entries("ownerReferences"):
        if reference.boolean("controller"):
            return reference.required_text("kind"), reference.required_text("name")
    return None


def _expanded(given: dict[_Key, _Read], notes: Notes) -> list[Expansion]:
    """What is to become pods: controllers only where neither their owner nor their pods are given."""
    have_pods: set[_Key] = set()
    for one in given.values():
        owner = one.owner if one.key[0] == "Pod" else None
        while owner is not None and owner not in have_pods:
            have_pods.add(owner)
            owner = given[owner].owner if owner in given else None
    chosen = []
    for key, one in given.items():
        notes.place = f"{one.origin.source}: {one.origin.title}"
        if key in have_pods:
            notes.add("pods-given", f"a {key[0]} whose pods are given too is not expanded")
        elif key[0] != "Pod" and one.owner in given:
            notes.add("owner-given", f"a {key[0]} whose owner is given too is not expanded")
        elif one.copies is not None:
            chosen.append(one.copies)
    total = sum(copies.count for copies in chosen)
    if total > MAX_COPIES:
        raise InputError("too many pods in all", value=total, expected=f"at most {MAX_COPIES}")
    return chosen


def _name_copies(expansions: list[Expansion]) -> list[Pod]:
    """All pods, with names and uids that are theirs alone. Real names (Pod, StatefulSet) are taken first."""
    taken: dict[str, str] = {}
    named: dict[int, list[Pod]] = {}
    for real in (True, False):
        for i, copies in enumerate(expansions):
            if (copies.kind in ("Pod", "StatefulSet")) == real:
                named[i] = _copies(copies, taken)
    pods = [pod for i in range(len(expansions)) for pod in named[i]]
    _check_uids(pods)
    return pods


def _copies(copies: Expansion, taken: dict[str, str]) -> list[Pod]:
    pod = copies.pod
    names = [pod.name] if copies.kind == "Pod" else _free_names(copies, taken)
    full = [f"{pod.namespace}/{name}" for name in names]
    for name in full:
        if name in taken:
            raise InputError(f"pod {name} is there twice", place=pod.source, expected=f"one; also in {taken[name]}")
        taken[name] = pod.source
    if copies.kind == "Pod":
        return [pod]
    return [msgspec.structs.replace(pod, name=name, uid=uid) for name, uid in zip(names, full, strict=True)]


def _free_names(copies: Expansion, taken: dict[str, str]) -> list[str]:
    """`web-0`, ...; or `web-deployment-0`, ... where one of those is taken."""
    bases = [copies.pod.name, f"{copies.pod.name}-{copies.kind.lower()}"]
    for base in bases:
        numbers = range(copies.first, copies.first + copies.count)
        names = [base] if copies.kind == "DaemonSet" else [f"{base}-{i}" for i in numbers]
        if copies.kind == "StatefulSet" or all(f"{copies.pod.namespace}/{name}" not in taken for name in names):
            break
    return names


def _check_uids(pods: list[Pod]) -> None:
    seen: dict[str, Pod] = {}
    for pod in pods:
        other = seen.setdefault(pod.uid, pod)
        if other is not pod:
            raise InputError(
                f"pods {other.full_name} and {pod.full_name} have one uid",
                place=pod.source,
                value=pod.uid[:_LONGEST_NAME],
            )
