"""A cluster as `kubectl get nodes,pods,noderesourcetopologies,nodelayouts -A -o json` prints it.

Beside the nodes (`fleet.cluster_file`) it has what they publish and the pods that are there. Everything else in it is
passed over, and said so once. Values only; nothing is opened and nothing asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.cluster_file import NODE_KINDS
from bayplan.fleet.published.layout import KIND as LAYOUT
from bayplan.fleet.published.layout import LAYOUT_ANNOTATION
from bayplan.fleet.published.node_topology import KIND as TOPOLOGY
from bayplan.fleet.published.sources import values_of
from bayplan.protocols.kubernetes import PodObject, read_pod
from bayplan.workload.documents import Document
from bayplan.workload.fields import Fields, as_fields
from bayplan.workload.notes import Note, Notes

API_VERSIONS = {"Pod": "v1", LAYOUT: "bayplan.dev/v1alpha1", TOPOLOGY: "topology.node.k8s.io/v1alpha2"}
"""Kind -> apiVersion of objects in a list of their own, which need not repeat it."""
_LISTS = {"List": "", "NodeList": "Node", **{f"{kind}List": kind for kind in API_VERSIONS}}


class PlacedObject(NamedTuple):
    """An object and where it stood."""

    source: str
    place: str
    value: dict[str, Any]


class ClusterObjects(NamedTuple):
    """What is there beside the nodes. Documents are by the name of their node."""

    layouts: dict[str, PlacedObject]
    topologies: dict[str, PlacedObject]
    pods: tuple[PlacedObject, ...]
    notes: tuple[Note, ...]

    @property
    def anything(self) -> bool:
        """Whether it is more than a list of nodes."""
        return bool(self.layouts or self.topologies or self.pods)


def read_objects(documents: Iterable[Document]) -> ClusterObjects:
    """What documents hold beside nodes. Raises `InputError`."""
    found = ClusterObjects({}, {}, (), ())
    pods: list[PlacedObject] = []
    annotated: dict[str, PlacedObject] = {}
    notes = Notes()
    for one in (one for document in documents for one in _objects(document)):
        kind = one.value.get("kind")
        if kind == "Pod":
            pods.append(one)
        elif kind == "Node":
            _add_annotated(annotated, one)
        elif kind in (LAYOUT, TOPOLOGY):
            _add(found.layouts if kind == LAYOUT else found.topologies, one)
        elif kind not in NODE_KINDS and _is_list_item(one):
            notes.place = f"{one.source}: {one.place}"
            notes.add("kind-skipped", f"{kind} is neither a node nor a pod, nor told by a node, and is skipped")
    return found._replace(layouts={**annotated, **found.layouts}, pods=tuple(pods), notes=notes.all())


def pod_object(one: PlacedObject) -> PodObject:
    """A Pod as the scheduler side reads it. Raises `InputError`."""
    try:
        return read_pod(msgspec.json.encode(one.value))
    except InputError as error:
        raise error.in_document(source=one.source, document=one.place) from error


def as_documents(objects: Iterable[PlacedObject]) -> list[Document]:
    """The objects as documents of their own, for whoever reads those."""
    return [Document(one.source, number, one.value) for number, one in enumerate(objects, 1)]


def _objects(document: Document) -> Iterator[PlacedObject]:
    value = document.value
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(value, dict) or kind not in _LISTS:
        if isinstance(value, dict):
            yield PlacedObject(document.source, document.place, value)
        return
    inner = _LISTS[kind]
    header = {"kind": inner, "apiVersion": API_VERSIONS.get(inner, "v1")} if inner else {}
    try:
        items = Fields(value).entries("items")
    except InputError as error:
        raise error.in_document(source=document.source, document=document.place) from error
    for i, item in enumerate(items):
        yield PlacedObject(document.source, f"{document.place}, items[{i}]", {**header, **item.value})


def _add(table: dict[str, PlacedObject], one: PlacedObject) -> None:
    try:
        name = as_fields(one.value, "").mapping("metadata").required_text("name")
    except InputError as error:
        raise error.in_document(source=one.source, document=one.place) from error
    if name in table:
        there = f"{table[name].source}: {table[name].place}"
        raise InputError(f"two of node {name}", source=one.source, place=one.place, expected=f"one; also in {there}")
    table[name] = one


def _add_annotated(table: dict[str, PlacedObject], one: PlacedObject) -> None:
    """The layout in a Node's annotation, if it has one."""
    try:
        metadata = Fields(one.value).mapping("metadata")
        annotations = metadata.mapping("annotations")
        text = annotations.text(LAYOUT_ANNOTATION)
        value = _layout_in(text, annotations.at(LAYOUT_ANNOTATION)) if text else None
    except InputError as error:
        raise error.in_document(source=one.source, document=one.place) from error
    if value is not None:
        table[metadata.required_text("name")] = PlacedObject(one.source, f"{one.place}: {LAYOUT_ANNOTATION}", value)


def _layout_in(text: str, place: str) -> dict[str, Any]:
    try:
        return values_of(text.encode())
    except InputError as error:
        raise error.within(place=place) from error


def _is_list_item(one: PlacedObject) -> bool:
    """Whether it stands among others in a list: a whole document of another kind is for `cluster_file` to refuse."""
    return "items[" in one.place
