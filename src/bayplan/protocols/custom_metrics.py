"""Answers of the custom metrics API (custom.metrics.k8s.io, v1beta2 and v1beta1): bytes in, values of nodes out.

One item that cannot be read is told and leaves the others alone: items come from many exporters through an adapter.
What is no list of values at all is refused. Facts: k8s.io/metrics/pkg/apis/custom_metrics/{v1beta1,v1beta2}/types.go
(the window is `window` in the older and `windowSeconds` in the newer), k8s.io/apimachinery meta/v1 (`APIGroup`,
`Status`).
"""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction

import msgspec

from bayplan.errors import InputError
from bayplan.quantity import parse_quantity

GROUP_PATH = "/apis/custom.metrics.k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""Those that can be read, the one to be preferred first."""
LARGEST_ANSWER = 64 * 1024 * 1024
_SHOWN_PROBLEMS = 8


class NodeValue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A value of a node; `at` in seconds since 1970, `window_s` the time over which it was measured."""

    node: str
    value: Fraction
    at: float
    window_s: float | None = None


class NodeValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values of an answer; `unreadable` counts the items that are none, `problems` says why, of the first few."""

    values: tuple[NodeValue, ...]
    unreadable: int = 0
    problems: tuple[str, ...] = ()


class _Described(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""
    name: str = ""


class _Item(msgspec.Struct, frozen=True, rename="camel", gc=False):
    described_object: _Described
    value: str | int | float
    timestamp: datetime
    window_seconds: float | None = None
    window: float | None = None


class _List(msgspec.Struct, frozen=True):
    kind: str = ""
    message: str | None = None
    reason: str | None = None
    items: list[msgspec.Raw] | None = None


class _Version(msgspec.Struct, frozen=True):
    version: str = ""


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    versions: list[_Version] | None = None
    preferred_version: _Version | None = None


_LIST = msgspec.json.Decoder(_List)
_ITEM = msgspec.json.Decoder(_Item)
_GROUP = msgspec.json.Decoder(_Group)


def metric_path(version: str, metric: str) -> str:
    """The path of a metric of all nodes. The star goes escaped, as it always did. Raises `InputError`."""
    if not metric or not all(c.isascii() and (c.isalnum() or c in "_-.:") for c in metric):
        raise InputError("not the name of a metric", value=metric, expected="letters, digits and _-.:")
    return f"{GROUP_PATH}/{version}/nodes/%2A/{metric}"


def read_version(body: bytes) -> str:
    """The version to be asked for, out of the group's discovery document. Raises `InputError`."""
    try:
        group = _GROUP.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not an API group: {error}", place=GROUP_PATH) from error
    served = [version.version for version in group.versions or ()]
    preferred = group.preferred_version.version if group.preferred_version else ""
    for version in (preferred, *VERSIONS):
        if version in VERSIONS and (version in served or version == preferred):
            return version
    raise InputError("no version that can be read", place=GROUP_PATH, value=served, expected=" or ".join(VERSIONS))


def read_values(body: bytes, *, largest: int = LARGEST_ANSWER) -> NodeValues:
    """The values of a `MetricValueList`. Raises `InputError`."""
    if len(body) > largest:
        raise InputError("list of metric values too large", value=len(body), expected=f"at most {largest} bytes")
    try:
        answer = _LIST.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a list of metric values: {error}") from error
    if answer.kind != "MetricValueList":
        said = answer.message or answer.reason
        raise InputError("not a list of metric values", place="kind", value=said or answer.kind)
    values: list[NodeValue] = []
    problems: list[str] = []
    unreadable = 0
    for number, raw in enumerate(answer.items or ()):
        try:
            values.append(_value(raw))
        except InputError as error:
            unreadable += 1
            if len(problems) < _SHOWN_PROBLEMS:
                problems.append(str(error.within(place=f"items[{number}]")))
    return NodeValues(values=tuple(values), unreadable=unreadable, problems=tuple(problems))


def _value(raw: msgspec.Raw) -> NodeValue:
    try:
        item = _ITEM.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a metric value: {error}") from error
    described = item.described_object
    if described.kind.lower() not in ("", "node") or not described.name:
        raise InputError("not of a node", place="describedObject", value=f"{described.kind} {described.name}")
    if item.timestamp.tzinfo is None:
        raise InputError(
            "time without a zone", place="timestamp", value=item.timestamp.isoformat(), expected="RFC 3339"
        )
    try:
        value = parse_quantity(item.value)
    except InputError as error:
        raise error.within(place="value") from error
    window = item.window if item.window_seconds is None else item.window_seconds
    return NodeValue(node=described.name, value=value, at=item.timestamp.timestamp(), window_s=window)
