"""A cluster that tells of itself, from a dump or from its API server: nodes, documents and pods to a fleet's nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bayplan.errors import InputError
from bayplan.files.plugins import load_policy
from bayplan.fleet.cluster_file import NodeSpec, read_cluster
from bayplan.fleet.node import FleetNode
from bayplan.fleet.published.checks import ZoneChecks
from bayplan.fleet.published.cluster_objects import ClusterObjects, PlacedObject, as_documents, pod_object
from bayplan.fleet.published.doubts import ZoneSettings
from bayplan.fleet.published.fleet_nodes import bare_machine, bare_management, fleet_node
from bayplan.fleet.published.sources import Source
from bayplan.machine import Machine
from bayplan.policies.policy import Policy
from bayplan.protocols.kubernetes import PodObject
from bayplan.resources.plugin import ResourcePlugin
from bayplan.workload.documents import Document
from bayplan.workload.notes import Note, Notes

_EVER = float("inf")
"""What is made here does not get old."""
PartsOf = Callable[[NodeSpec], tuple[Machine, Policy, Mapping[str, int]]]
"""Machine, policy and what it offers, of a node whose machine is named."""


class ToldCluster(NamedTuple):
    """Nodes with what runs on them, the pods that wait for a node, and what was noticed."""

    nodes: list[FleetNode]
    waiting: list[Document]
    notes: list[Note]


def told_cluster(
    documents: Sequence[Document],
    objects: ClusterObjects,
    default_machine: str,
    plugins: Sequence[ResourcePlugin],
    parts_of: PartsOf,
) -> ToldCluster:
    """The cluster of a dump. Raises `InputError`.

    What a node's agent tells of it counts before a machine that is named for it, and that before numbers by zone. Of
    nodes of which none of these is there, only sums are known.
    """
    specs = list(read_cluster(documents, default_machine, machines=False, others=True))
    named = {spec.name for spec in specs}
    specs += [_unlisted(name, one) for name, one in _documents(objects) if name not in named]
    if not specs:
        raise InputError(
            "no nodes",
            source=objects.pods[0].source,
            expected="objects of kind Node, NodeLayout or NodeResourceTopology",
        )
    zones = ZoneChecks(ZoneSettings(), load_policy, plugins)
    notes = Notes()
    offers = {spec.name: _tell(zones, spec, objects, parts_of, notes) for spec in specs}
    _doubt(zones, [spec.name for spec in specs if not spec.machine or spec.name in objects.layouts], notes)
    pods = [(one, pod_object(one)) for one in objects.pods]
    waiting = [(one, pod) for one, pod in pods if not pod.spec.node_name and not pod.has_ended]
    names = {spec.name for spec in specs}
    for _, pod in sorted((pair for pair in pods if pair[1].spec.node_name), key=lambda pair: _start(pair[1])):
        if pod.spec.node_name in names:
            zones.set_pod(pod)
        else:
            notes.add("node-not-told", f"pods run on node {pod.spec.node_name}, which is not among the nodes")
    found: list[Note] = []
    nodes = []
    for spec in specs:
        node, own = fleet_node(zones, spec, offers[spec.name])
        nodes.append(node)
        found += own
    waiting.sort(key=lambda pair: (-(pair[1].spec.priority or 0), pair[1].metadata.creation_timestamp or ""))
    return ToldCluster(nodes, as_documents(one for one, _ in waiting), [*objects.notes, *notes.all(), *found])


def _documents(objects: ClusterObjects) -> list[tuple[str, PlacedObject]]:
    return list({**objects.topologies, **objects.layouts}.items())


def _unlisted(name: str, one: PlacedObject) -> NodeSpec:
    """A node of which there is a document and no Node."""
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return NodeSpec(name=name, machine="", labels=labels, source=f"{one.source}: {one.place}")


def _tell(
    zones: ZoneChecks, spec: NodeSpec, objects: ClusterObjects, parts_of: PartsOf, notes: Notes
) -> Mapping[str, int]:
    """Tell what is known of one node; gives what it offers, as far as that comes from a machine that is named."""
    layout, topology = objects.layouts.get(spec.name), objects.topologies.get(spec.name)
    problem, one = "", layout or topology
    if layout is not None:
        problem = zones.set_layout(spec.name, layout.value)
    elif spec.machine:
        machine, policy, offers = parts_of(spec)
        zones.set_source(spec.name, Source(origin="layout", kind=zones.kinds.adopt(machine, policy)))
        return offers
    elif topology is not None:
        problem = zones.set_topology(spec.name, topology.value)
    else:
        kind = zones.kinds.of(bare_machine(spec.allocatable), bare_management())
        zones.set_source(spec.name, Source(origin="layout", kind=kind, heartbeat=_EVER))
        notes.place = spec.source
        notes.add("zones-not-told", "a node does not tell its zones; only what it offers in all is looked at")
    if problem and one is not None:
        raise InputError(problem, source=one.source, place=one.place)
    return {}


def _doubt(zones: ZoneChecks, names: Sequence[str], notes: Notes) -> None:
    """Say what an extender would doubt, as of the newest heartbeat of all."""
    sources = [books.source for books in map(zones.books, names) if books is not None]
    beats = [source.heartbeat for source in sources if source is not None and source.heartbeat not in (None, _EVER)]
    newest = max((beat for beat in beats if beat is not None), default=0.0)
    for name in names:
        doubt = zones.doubt_of(name, newest)
        if doubt:
            notes.place = f"node {name}"
            notes.add("node-doubted", f"planned all the same: {doubt}")


def _start(pod: PodObject) -> str:
    started = pod.status.start_time if pod.status is not None else None
    return started or pod.metadata.creation_timestamp or "~"  # those without a time come last
