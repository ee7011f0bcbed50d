"""What kube-scheduler asks an extender: the bodies of filter, prioritize, bind and preempt, read.

Exactly one of `Nodes` and `NodeNames` is filled, by the scheduler's `nodeCacheCapable`; both are taken here, and of
both the names. Keys are read as the scheduler writes them; if what must be there is not, those of the outermost object
are read in any case, as Go's decoder does. Every error is an `InputError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from bayplan.errors import InputError
from bayplan.protocols.extender.bounds import (
    LONGEST_NAME,
    MOST_POD_BYTES,
    SMALL_BYTES,
    Body,
    check_count,
    check_density,
    check_name,
)
from bayplan.protocols.extender.node_list import NodeList
from bayplan.protocols.kubernetes import PodObject, read_pod

_NULL = msgspec.Raw(b"null")
T = TypeVar("T")


class _Nodes(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Args(msgspec.Struct):
    Pod: msgspec.Raw = _NULL
    Nodes: _Nodes | None = None
    NodeNames: list[str] | None = None


class _Bind(msgspec.Struct):
    PodName: str | None = ""
    PodNamespace: str | None = ""
    PodUID: str | None = ""
    Node: str | None = ""


class _Victims(msgspec.Struct):
    Pods: list[msgspec.Raw] | None = None
    NumPDBViolations: int | None = 0


class _Preempt(msgspec.Struct):
    Pod: msgspec.Raw = _NULL
    NodeNameToVictims: dict[str, _Victims] | None = None
    NodeNameToMetaVictims: dict[str, _Victims] | None = None


class _Identity(msgspec.Struct):
    uid: str = ""


class _Victim(msgspec.Struct):
    UID: str = ""
    metadata: _Identity | None = None


class ExtenderArgs(msgspec.Struct, frozen=True, kw_only=True):
    """What filter and prioritize are asked: a pod, and nodes by name. `nodes`: they came as whole objects.

    `pod_json` is the pod as it was written.
    """

    pod: PodObject
    pod_json: msgspec.Raw
    names: list[str]
    nodes: NodeList | None = None


class BindArgs(msgspec.Struct, frozen=True, kw_only=True):
    """What bind is asked."""

    pod_name: str
    pod_namespace: str
    pod_uid: str
    node: str


class Victims(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that would have to go from one node, by UID; `budget_violations` of disruption budgets that breaks."""

    uids: tuple[str, ...]
    budget_violations: int = 0


class PreemptArgs(msgspec.Struct, frozen=True, kw_only=True):
    """What preempt is asked: the pod that wants room, and for each candidate node its victims."""

    pod: PodObject
    pod_json: msgspec.Raw
    victims: Mapping[str, Victims]


def read_args(body: Body) -> ExtenderArgs:
    """Read what filter or prioritize is asked. The result holds the body. Raises `InputError`."""
    args = _decoded(_ARGS, body, "ExtenderArgs")
    if _is_null(args.Pod) or (args.Nodes is None and args.NodeNames is None):
        body = _in_our_case(body, _Args)
        args = _decoded(_ARGS, body, "ExtenderArgs")
    pod = _pod(args.Pod)
    if args.NodeNames is not None:
        _check_names(args.NodeNames)
        return ExtenderArgs(pod=pod, pod_json=args.Pod, names=args.NodeNames)
    if args.Nodes is None:
        raise InputError("neither Nodes nor NodeNames", expected="one of them")
    nodes = NodeList(body, args.Nodes.items or ())
    return ExtenderArgs(pod=pod, pod_json=args.Pod, names=nodes.names, nodes=nodes)


def read_bind_args(body: Body) -> BindArgs:
    """Read what bind is asked. Raises `InputError`, also if one of its fields is missing."""
    args = _decoded(_BIND, body, "ExtenderBindingArgs")
    if not all(getattr(args, field) for field in _Bind.__struct_fields__):
        args = _decoded(_BIND, _in_our_case(body, _Bind), "ExtenderBindingArgs")
    for field in _Bind.__struct_fields__:
        check_name(getattr(args, field) or "", field)
    return BindArgs(
        pod_name=args.PodName or "",
        pod_namespace=args.PodNamespace or "",
        pod_uid=args.PodUID or "",
        node=args.Node or "",
    )


def read_preempt_args(body: Body) -> PreemptArgs:
    """Read what preempt is asked, victims as whole pods or by UID. Raises `InputError`."""
    args = _decoded(_PREEMPT, body, "ExtenderPreemptionArgs")
    if _is_null(args.Pod) or (args.NodeNameToVictims is None and args.NodeNameToMetaVictims is None):
        args = _decoded(_PREEMPT, _in_our_case(body, _Preempt), "ExtenderPreemptionArgs")
    found = args.NodeNameToVictims if args.NodeNameToMetaVictims is None else args.NodeNameToMetaVictims
    if found is None:
        raise InputError("neither NodeNameToVictims nor NodeNameToMetaVictims", expected="one of them")
    check_count(len(found), "the candidate nodes")
    return PreemptArgs(
        pod=_pod(args.Pod), pod_json=args.Pod, victims={node: _victims(node, found[node]) for node in found}
    )


_ARGS = msgspec.json.Decoder(_Args)
_BIND = msgspec.json.Decoder(_Bind)
_PREEMPT = msgspec.json.Decoder(_Preempt)
_VICTIM = msgspec.json.Decoder(_Victim)
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _decoded(decoder: msgspec.json.Decoder[T], data: Body | msgspec.Raw, kind: str) -> T:
    if not isinstance(data, msgspec.Raw):
        check_density(data)
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not {kind}: {error}") from error


def _in_our_case(body: Body, fields: type[msgspec.Struct]) -> Body:
    """The body with those of its keys that name a field in another case as the field is written; the rest left out.

    Of the same key in several cases the last one counts. A large body is left as it is: its keys may be millions.
    """
    if len(body) > SMALL_BYTES:
        return body
    names = {field.lower(): field for field in fields.__struct_fields__}
    found = _decoded(_KEYS, body, "a request of the extender protocol")
    pairs = {names[key.lower()]: raw for key, raw in found.items() if key.lower() in names}
    return b"{" + b",".join(b'"%s":%s' % (name.encode(), bytes(raw)) for name, raw in pairs.items()) + b"}"


def _is_null(raw: msgspec.Raw) -> bool:
    return bytes(memoryview(raw)[:4]) == b"null"


def _pod(raw: msgspec.Raw) -> PodObject:
    if _is_null(raw):
        raise InputError("no Pod", place="Pod", expected="a Pod")
    size = len(memoryview(raw))
    if size > MOST_POD_BYTES:
        raise InputError("too large", place="Pod", value=size, expected=f"at most {MOST_POD_BYTES} bytes")
    pod = read_pod(raw)
    check_name(pod.metadata.name, "Pod.metadata.name")
    return pod


def _check_names(names: list[str]) -> None:
    check_count(len(names), "NodeNames")
    if all(names) and (not names or len(max(names, key=len)) <= LONGEST_NAME):
        return
    for i, name in enumerate(names):
        check_name(name, f"NodeNames[{i}]")


def _victims(node: str, found: _Victims) -> Victims:
    check_name(node, "a candidate node")
    return Victims(
        uids=tuple(_uid(raw, f"victims of {node}, Pods[{i}]") for i, raw in enumerate(found.Pods or ())),
        budget_violations=found.NumPDBViolations or 0,
    )


def _uid(raw: msgspec.Raw, place: str) -> str:
    victim = _decoded(_VICTIM, raw, "a victim")
    uid = victim.UID or (victim.metadata.uid if victim.metadata else "")
    check_name(uid, place)
    return uid
