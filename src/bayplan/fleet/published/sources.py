"""Where a node's state is told: its agent's NodeLayout, or a NodeResourceTopology, each as it stands now.

A source says which pods it counts. A layout names them. A NodeResourceTopology does not: its fingerprint tells, or else
the time of its last change against the time at which a pod was taken on by its kubelet; what cannot be told counts
as not counted, so that it is added and nothing is given twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.published.fingerprint import PREFIX, fingerprint
from bayplan.fleet.published.kinds import Kind, Kinds
from bayplan.fleet.published.layout import (
    KIND,
    LAYOUT_FILE,
    HeldPod,
    Offers,
    check_header,
    read_heartbeat,
    read_offers,
    read_pods,
)
from bayplan.fleet.published.node_topology import NodeTopology, topology_from
from bayplan.fleet.published.pod_objects import named, node_uid
from bayplan.fleet.published.rebuilt import STAND_IN, rebuild
from bayplan.protocols.kubernetes import PodObject
from bayplan.workload.fields import Fields
from bayplan.workload.times import parse_moment

MOST_NEWER = 16
"""No more pods than this are tried as those that a fingerprint does not have yet."""

_ANY = msgspec.json.Decoder(dict[str, Any])

Origin = Literal["layout", "annotation", "topology"]
TITLES: dict[Origin, str] = {
    "layout": KIND,
    "annotation": f"{KIND} annotation",
    "topology": "NodeResourceTopology",
}


class Source(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One document. `pods` hold what they hold; `heartbeat` in seconds since 1970, None where the form has none."""

    origin: Origin
    kind: Kind
    pods: tuple[HeldPod, ...] = ()
    heartbeat: float | None = None
    generation: int = 0
    offers: Offers = Offers()
    topology: NodeTopology | None = None

    @cached_property
    def told(self) -> frozenset[str]:
        """The uids of all pods that it says hold something."""
        return frozenset(held.pod.uid for held in self.pods)

    @property
    def by_pod(self) -> bool:
        """Whether it tells what each pod holds."""
        return self.topology is None

    def counted(self, bound: Sequence[PodObject], departed: Iterable[tuple[str, str]]) -> frozenset[str]:
        """The uids of bound pods that it counts. `departed`: namespace and name of pods that have ended or gone."""
        if self.topology is None:
            return self.told.intersection(node_uid(pod) for pod in bound)
        by_hash = _by_fingerprint(self.topology.fingerprint, bound, list(departed))
        if by_hash is not None:
            return by_hash
        return frozenset(node_uid(pod) for pod in bound if _seen_running(pod, self.topology.updated))


def layout_source(value: Mapping[str, Any], kinds: Kinds, *, node: str, origin: Origin = "layout") -> Source:
    """A NodeLayout's values. Raises `InputError`, also where it is another node's."""
    fields = Fields(dict(value))
    check_header(fields)
    _check_name(fields.mapping("metadata").text("name"), node)
    status = fields.mapping("status")
    return Source(
        origin=origin,
        kind=kinds.of_spec(fields.mapping("spec")),
        pods=read_pods(status),
        heartbeat=read_heartbeat(status),
        generation=status.integer("generation", 0, 2**62) or 0,
        offers=read_offers(status),
    )


def topology_source(value: Mapping[str, Any], kinds: Kinds, *, node: str) -> Source:
    """A NodeResourceTopology's values. Raises `InputError`."""
    topology = topology_from(Fields(dict(value)))
    _check_name(topology.name, node)
    rebuilt = rebuild(topology)
    kind = kinds.of(rebuilt.machine, rebuilt.management)
    return Source(origin="topology", kind=kind, pods=(rebuilt.held,), topology=topology)


def values_of(data: bytes) -> dict[str, Any]:
    """The values of a document that came as JSON. Raises `InputError`."""
    if len(data) > LAYOUT_FILE.text_bytes:
        raise InputError("too large", value=len(data), expected=f"at most {LAYOUT_FILE.text_bytes} bytes")
    try:
        return _ANY.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a JSON object: {error}") from error


def is_stand_in(uid: str) -> bool:
    """Whether a pod stands for what numbers by zone say is held."""
    return uid == STAND_IN


def _check_name(name: str, node: str) -> None:
    if name != node:
        raise InputError("of another node", place="metadata.name", value=name, expected=node)


def _by_fingerprint(wanted: str, bound: Sequence[PodObject], departed: list[tuple[str, str]]) -> frozenset[str] | None:
    """The pods whose fingerprint it is: all, or all but the newest few, perhaps with those that have ended."""
    if not wanted.startswith(PREFIX):
        return None
    for newer in range(min(MOST_NEWER, len(bound)) + 1):
        there = bound[: len(bound) - newer]
        names = [named(pod) for pod in there]
        if wanted in (fingerprint(names), fingerprint([*names, *departed])):
            return frozenset(node_uid(pod) for pod in there)
    return None


def _seen_running(pod: PodObject, updated: float | None) -> bool:
    """Whether what it holds was there to be counted when the numbers were written."""
    status = pod.status
    if status is None or status.phase != "Running":
        return False
    if updated is None:
        return True
    if not status.start_time:
        return False
    try:
        return parse_moment(status.start_time) < updated
    except InputError:
        return False
