"""The nodes of a cluster, as a person writes them (kind Cluster) or as `kubectl get nodes -o yaml` prints them.

    apiVersion: bayplan.dev/v1alpha1
    kind: Cluster
    nodes:
    - name: node-a
      count: 100                          # node-a-0 ... node-a-99
      machine: preset:epyc-9654-nps4      # or the path of a capture or machine file
      labels: {zone: a}
      taints: [{key: gpu, value: "yes", effect: NoSchedule}]
      kubeletConfig: kubelet.yaml         # or the KubeletConfiguration itself
      devices: {nvidia.com/gpu: [{id: gpu-0, numaNodes: [0]}]}
      hugepages: ["1Gi=16", "2Mi=512@0"]  # as if it had them: see bayplan.machine.hugepages

Sources of machines and paths of configurations are given back as they were written, for whoever opens files to resolve
against the folder of this file; nothing is opened here. What the format does not know is an error, for a misspelt
`taint` would change every answer. Real `Node` objects tell no hardware: their machine is named by the annotation
`bayplan.dev/machine`, or by a default. Label rules: see `bayplan.workload.names`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.node_fields import (
    Taint,
    read_allocatable,
    read_devices,
    read_labels,
    read_taints,
    refuse_unknown,
)
from bayplan.machine.document import API_VERSION
from bayplan.resources.devices import DeviceUnit
from bayplan.workload.documents import Document
from bayplan.workload.fields import Fields, as_fields
from bayplan.workload.names import check_subdomain

MACHINE_ANNOTATION = "bayplan.dev/machine"
KUBELET_ANNOTATION = "bayplan.dev/kubelet-config"
MAX_NODES = 100_000
NODE_KINDS = ("Node", "Cluster")
MODES = ("", "exact", "safe")
_CLUSTER_FIELDS = frozenset({"apiVersion", "kind", "metadata", "nodes", "defaultMachine"})
_NODE_FIELDS = frozenset(
    {
        "name",
        "count",
        "machine",
        "labels",
        "taints",
        "kubeletConfig",
        "policy",
        "mode",
        "devices",
        "hugepages",
        "unschedulable",
        "allocatable",
    }
)


class InlineConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """A KubeletConfiguration that stands within the cluster file: its value, and where, for messages."""

    value: dict[str, Any]
    source: str
    place: str


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One node. `machine` and a textual `kubelet_config` are as written, not yet opened.

    `labels` has `kubernetes.io/hostname` and `kubernetes.io/os` as a kubelet sets them, unless given otherwise.
    `allocatable` overrides what the machine and its configuration would give: cpu in millicores, bytes or pieces.
    `hugepages` are wishes as `bayplan.machine.hugepages` reads them. `policy` and `mode` are empty where the file
    leaves them to the command line. `source` tells where it was written.
    """

    name: str
    machine: str
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    kubelet_config: str | InlineConfiguration | None = None
    policy: str = ""
    mode: str = ""
    devices: dict[str, tuple[DeviceUnit, ...]] = {}
    hugepages: tuple[str, ...] = ()
    unschedulable: bool = False
    allocatable: dict[str, int] = {}
    source: str = ""


def read_cluster(
    documents: Iterable[Document], default_machine: str = "", *, machines: bool = True, others: bool = False
) -> tuple[NodeSpec, ...]:
    """The nodes of all documents, in order. `default_machine` is for those which name none.

    Raises `InputError` for what cannot be used, for a node without a machine (but not without `machines`: then what it
    says to be allocatable has to do), two of one name, and for no nodes at all. With `others`, objects of other kinds
    are passed over, and no nodes are no error.
    """
    nodes: dict[str, NodeSpec] = {}
    source = ""
    default = default_machine or (None if machines else "")
    for document in documents:
        source = document.source
        for place, value in _objects(document):
            if others and isinstance(value, dict) and value.get("kind") not in NODE_KINDS:
                continue
            for node in _located(document.source, place, value, default):
                _add(nodes, node)
    if not nodes and not others:
        raise InputError("no nodes", source=source, expected="a Cluster with nodes, or Node objects")
    return tuple(nodes.values())


def _add(nodes: dict[str, NodeSpec], node: NodeSpec) -> None:
    if node.name in nodes:
        raise InputError(
            f"two nodes called {node.name}", source=node.source, expected=f"one; also in {nodes[node.name].source}"
        )
    if len(nodes) >= MAX_NODES:
        raise InputError("too many nodes", source=node.source, expected=f"at most {MAX_NODES}")
    nodes[node.name] = node


def _objects(document: Document) -> Iterator[tuple[str, Any]]:
    """A document, or the items of a list of nodes."""
    value = document.value
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind not in ("List", "NodeList"):
        yield document.place, value
        return
    try:
        items = Fields(value).sequence("items")
    except InputError as error:
        raise error.within(source=document.source, place=document.place) from error
    for i, item in enumerate(items):
        # Items of a NodeList, as the API server gives it, do not repeat what they are.
        header = {"kind": "Node", "apiVersion": "v1"} if kind == "NodeList" else {}
        yield f"{document.place}, items[{i}]", {**header, **item} if isinstance(item, dict) else item


def _located(source: str, place: str, value: Any, default: str | None) -> list[NodeSpec]:
    try:
        fields = as_fields(value, "")
        return _read_object(fields, f"{source}: {place}", source, place, default)
    except InputError as error:
        raise error.in_document(source=source, document=place) from error


def _read_object(fields: Fields, where: str, source: str, place: str, default: str | None) -> list[NodeSpec]:
    kind, version = fields.text("kind"), fields.text("apiVersion")
    if (kind, version) == ("Node", "v1"):
        return [_read_real_node(fields, where, default)]
    if kind != "Cluster":
        raise fields.error(
            "kind", "wrong" if kind else "missing", value=kind or ..., expected="Cluster, Node or a List"
        )
    if version != API_VERSION:
        raise fields.error("apiVersion", "wrong", value=version or ..., expected=API_VERSION)
    refuse_unknown(fields, _CLUSTER_FIELDS)
    machine = fields.text("defaultMachine") or default
    nodes: list[NodeSpec] = []
    for entry in fields.entries("nodes"):
        nodes += _read_entry(entry, source, place, machine)
    return nodes


def _read_entry(entry: Fields, source: str, place: str, default: str | None) -> list[NodeSpec]:
    """The nodes of one entry of `nodes`; a `count` numbers them."""
    refuse_unknown(entry, _NODE_FIELDS)
    name = entry.required_text("name")
    check_subdomain(name, entry.at("name"))
    machine = entry.text("machine") or default
    if machine is None:
        raise entry.error("machine", "missing", expected="like preset:epyc-9654-nps4, or the path of a machine file")
    count = entry.integer("count", 0, MAX_NODES)
    if entry.text("mode") not in MODES:
        raise entry.error("mode", "unknown mode", value=entry.text("mode"), expected="exact or safe")
    labels = read_labels(entry)
    model = NodeSpec(
        name=name,
        machine=machine,
        labels=labels,
        taints=read_taints(entry),
        kubelet_config=_read_configuration(entry, source, place),
        policy=entry.text("policy"),
        mode=entry.text("mode"),
        devices=read_devices(entry),
        hugepages=entry.texts("hugepages"),
        unschedulable=entry.boolean("unschedulable"),
        allocatable=read_allocatable(entry.mapping("allocatable")),
        source=f"{source}: {place}: {entry.path}",
    )
    names = [name] if count is None else [f"{name}-{i}" for i in range(count)]
    return [msgspec.structs.replace(model, name=each, labels=_with_own(labels, each)) for each in names]


def _read_configuration(entry: Fields, source: str, place: str) -> str | InlineConfiguration | None:
    value = entry.value.get("kubeletConfig")
    if isinstance(value, dict):
        return InlineConfiguration(value=value, source=source, place=f"{place}: {entry.at('kubeletConfig')}")
    return entry.text("kubeletConfig") or None


def _read_real_node(fields: Fields, where: str, default: str | None) -> NodeSpec:
    metadata, spec, status = fields.mapping("metadata"), fields.mapping("spec"), fields.mapping("status")
    name = metadata.required_text("name")
    check_subdomain(name, metadata.at("name"))
    annotations = metadata.mapping("annotations")
    machine = annotations.text(MACHINE_ANNOTATION) or default
    if machine is None:
        raise annotations.error(
            MACHINE_ANNOTATION,
            f"missing, and a Node does not tell its hardware (node {name})",
            expected="the annotation, like preset:dgx-h100, or --machine for all nodes",
        )
    return NodeSpec(
        name=name,
        machine=machine,
        labels=_with_own(read_labels(metadata), name),
        taints=read_taints(spec),
        kubelet_config=annotations.text(KUBELET_ANNOTATION) or None,
        unschedulable=spec.boolean("unschedulable"),
        allocatable=read_allocatable(status.mapping("allocatable")),
        source=where,
    )


def _with_own(labels: dict[str, str], name: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}
