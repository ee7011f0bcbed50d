"""When pods came and ended: of objects that were dumped from a cluster, and as a person writes it beside a pod.

Annotations: `bayplan.dev/arrives` (a moment) and `bayplan.dev/runs-for` (a length of time) come before what the cluster
says. Facts: k8s.io/apimachinery meta/v1 (`creationTimestamp`, `deletionTimestamp`, RFC 3339), core/v1
(`containerStatuses[].state.terminated.finishedAt`); lengths as Go's time.ParseDuration reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from bayplan.errors import InputError
from bayplan.workload.fields import Fields

ARRIVES = "bayplan.dev/arrives"
RUNS_FOR = "bayplan.dev/runs-for"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?", re.ASCII)
_LENGTH = re.compile(r"(?:[0-9]{1,15}(?:\.[0-9]{1,9})?(?:ns|us|µs|ms|s|m|h))+", re.ASCII)
_PIECE = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_S = 1e12


class PodTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds since 1970, or since whatever all moments are counted from. None: not known, or not yet."""

    arrives_s: float | None = None
    ends_s: float | None = None


def read_times(pod: Fields) -> PodTimes:
    """The times of a Pod object. Raises `InputError` for one that is no time, or an end before the start."""
    metadata = pod.mapping("metadata")
    annotations = metadata.mapping("annotations")
    arrives = _moment(annotations, ARRIVES)
    if arrives is None:
        arrives = _moment(metadata, "creationTimestamp")
    ends = _moment(metadata, "deletionTimestamp")
    if ends is None:
        ends = max(_finished(pod.mapping("status")), default=None)
    length = annotations.text(RUNS_FOR)
    if length:
        if arrives is None:
            raise annotations.error(RUNS_FOR, "a time to run but none of arrival", expected=ARRIVES)
        ends = arrives + _located(annotations, RUNS_FOR, length, parse_length)
    if ends is not None and (arrives is None or ends < arrives):
        raise metadata.error("deletionTimestamp", "ends before it arrives", expected=f"{arrives} or later")
    return PodTimes(arrives_s=arrives, ends_s=ends)


def parse_moment(text: str) -> float:
    """`2026-01-31T12:00:00Z`, or seconds. Raises `InputError`."""
    if _NUMBER.fullmatch(text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InputError("not a moment", value=text, expected="like 2026-01-31T12:00:00Z, or seconds")
    return (moment - _EPOCH) / timedelta(seconds=1)


def parse_length(text: str) -> float:
    """`1h30m`, `90s`, `250ms`, or seconds. Raises `InputError`."""
    if _NUMBER.fullmatch(text):
        length = float(text)
    elif _LENGTH.fullmatch(text):
        try:
            length = sum(float(number) * _UNIT_S[unit] for number, unit in _PIECE.findall(text))
        except ValueError:  # 1.2.3s
            length = _LONGEST_S
    else:
        length = _LONGEST_S
    if length >= _LONGEST_S:
        raise InputError("not a length of time", value=text, expected="like 1h30m, or seconds")
    return length


def _moment(fields: Fields, name: str) -> float | None:
    text = fields.text(name)
    return _located(fields, name, text, parse_moment) if text else None


def _finished(status: Fields) -> Iterator[float]:
    """When its containers ended, where all of them have."""
    if status.text("phase") not in ("Succeeded", "Failed"):
        return
    for container in status.entries("containerStatuses"):
        found = _moment(container.mapping("state").mapping("terminated"), "finishedAt")
        if found is not None:
            yield found


def _located(fields: Fields, name: str, text: str, parse: Callable[[str], float]) -> float:
    try:
        return parse(text)
    except InputError as error:
        raise error.within(place=fields.at(name)) from error
