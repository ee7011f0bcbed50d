"""A recording: what happened and what was asked, line by line, so that it can be answered again.

The first line has the settings; every line after it is an event with its time, or a question with its time and its
answer. Put in again in the same order they give the same answers, because answers depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.scheduling.checks import Question
from bayplan.fleet.scheduling.events import Event, Measured, RecordedEvent
from bayplan.fleet.scheduling.scheduling import FilterDecision, Scheduling
from bayplan.fleet.telemetry.model import MetricKey, Sample
from bayplan.protocols.kubernetes import read_pod

VERSION = 1


class Head(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="head"):
    """The first line."""

    version: int
    settings: dict[str, Any]


class Happened(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="happened"):
    """An event, and when the extender was told of it (seconds since the epoch)."""

    at: float
    what: RecordedEvent


class Values(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="measured"):
    """A metric was fetched: node -> part (empty: the node itself) -> billionths, when measured, over how long."""

    at: float
    metric: MetricKey
    values: dict[str, dict[str, tuple[str, float, float | None]]]


class Filtered(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="filter"):
    """A filter request and why nodes were refused."""

    at: float
    pod: msgspec.Raw
    names: Sequence[str]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class Prioritized(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="prioritize"):
    """A prioritize request and the scores, in the order of the names."""

    at: float
    pod: msgspec.Raw
    names: Sequence[str]
    scores: Sequence[int]


Line: TypeAlias = Head | Happened | Values | Filtered | Prioritized
_LINE = msgspec.json.Decoder(Line)
_ENCODER = msgspec.json.Encoder()


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """One question of a recording answered again. `differences` are empty where it is answered as it was."""

    line: int
    at: float
    verb: str
    pod: str
    nodes: int
    refused: int
    differences: Sequence[str]


def head(settings: Mapping[str, Any]) -> bytes:
    """The first line of a recording."""
    return _ENCODER.encode(Head(version=VERSION, settings=dict(settings))) + b"\n"


def happened(event: Event, at: float) -> bytes:
    """An event as a line."""
    if isinstance(event, Measured):
        values = {node: _values(found) for node, found in event.samples.items()}
        return _ENCODER.encode(Values(at=at, metric=event.metric, values=values)) + b"\n"
    return _ENCODER.encode(Happened(at=at, what=event)) + b"\n"


def filtered(question: Question, decision: FilterDecision, at: float) -> bytes:
    """A filter request with its answer as a line."""
    line = Filtered(
        at=at,
        pod=question.pod_json,
        names=question.names,
        failed=decision.failed,
        unresolvable=decision.unresolvable,
    )
    return _ENCODER.encode(line) + b"\n"


def prioritized(question: Question, scores: Sequence[int], at: float) -> bytes:
    """A prioritize request with its answer as a line."""
    return _ENCODER.encode(Prioritized(at=at, pod=question.pod_json, names=question.names, scores=scores)) + b"\n"


def read_head(line: bytes) -> Head:
    """The settings of a recording, from its first line. Raises `InputError`."""
    first = _read(line, 1)
    if not isinstance(first, Head):
        raise InputError("does not begin with its settings", place="line 1", expected="a recording of bayplan record")
    if first.version != VERSION:
        raise InputError("another version", place="line 1", value=first.version, expected=str(VERSION))
    return first


def replay(scheduling: Scheduling, lines: Iterable[bytes]) -> Iterator[Replayed]:
    """Put the lines after the first in again, and give each question with what is different now.

    Raises `InputError` that names the line.
    """
    for number, text in enumerate(lines, 2):
        line = _read(text, number)
        if isinstance(line, Happened):
            scheduling.apply(line.what, line.at)
        elif isinstance(line, Values):
            scheduling.apply(_measured(line, number), line.at)
        elif isinstance(line, Filtered | Prioritized):
            yield _again(scheduling, line, number)
        else:
            raise InputError("settings for a second time", place=f"line {number}")


def _values(found: Sample | Mapping[str, Sample]) -> dict[str, tuple[str, float, float | None]]:
    parts = {"": found} if isinstance(found, Sample) else found
    return {part: (str(sample.nano), sample.at, sample.window_s) for part, sample in parts.items()}


def _measured(line: Values, number: int) -> Measured:
    try:
        parts = {
            node: {part: Sample(_nano(text), at, window_s) for part, (text, at, window_s) in found.items()}
            for node, found in line.values.items()
        }
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(f"not a measured value: {error}", place=f"line {number}") from error
    if line.metric.part:
        return Measured(metric=line.metric, samples=parts)
    return Measured(metric=line.metric, samples={node: found[""] for node, found in parts.items() if "" in found})


def _nano(text: str) -> int | Fraction:
    return Fraction(text) if "/" in text else int(text)


def _again(scheduling: Scheduling, line: Filtered | Prioritized, number: int) -> Replayed:
    try:
        pod = read_pod(line.pod)
    except InputError as error:
        raise error.within(place=f"line {number}, pod") from error
    question = Question(pod=pod, pod_json=line.pod, names=line.names)
    if isinstance(line, Prioritized):
        scores = scheduling.prioritize(question, line.at)
        before = dict(zip(line.names, line.scores, strict=False))
        now = dict(zip(line.names, scores, strict=False))
        differences = _differences(before, now, "score")
        refused, verb = 0, "prioritize"
    else:
        decision = scheduling.filter(question, line.at)
        differences = _differences(line.failed, decision.failed, "refused")
        differences += _differences(line.unresolvable, decision.unresolvable, "refused for good")
        refused, verb = len(decision.failed) + len(decision.unresolvable), "filter"
    return Replayed(
        line=number,
        at=line.at,
        verb=verb,
        pod=pod.full_name,
        nodes=len(line.names),
        refused=refused,
        differences=differences,
    )


def _differences(before: Mapping[str, object], now: Mapping[str, object], what: str) -> list[str]:
    return [
        f"{name}: {what} was {before.get(name, 'not')!r}, is {now.get(name, 'not')!r}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]


def _read(text: bytes, number: int) -> Line:
    try:
        return _LINE.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a line of a recording: {error}", place=f"line {number}") from error
