"""How a metric is asked for together with its times, and what samples the answer has: pure.

Three ways to a time, of `MetricQuery.time`: every series of a plain selector brings its own; the value of an expression
is as old as the oldest series that it reads of the node; or an expression of its own tells, for values that look new
whenever they are scraped, as those of node-exporter's text files do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple, TypeGuard

import msgspec

from bayplan.cluster.sources.gathering import Duplicates, Gathering, Measurement
from bayplan.cluster.sources.nodes import ClusterNodes, NodeNaming
from bayplan.cluster.sources.source import Polled
from bayplan.errors import InputError
from bayplan.fleet.telemetry.model import MetricKey
from bayplan.protocols.prometheus import Series, Vector
from bayplan.protocols.promql import (
    PART,
    TIME,
    VALUE,
    is_label_name,
    is_selector,
    oldest_inputs,
    selector_of,
    selectors,
    with_times,
)

AUTO, EVALUATION = "auto", "evaluation"
NAME = "{name}"
_LATEST_S = 1e11
_SHOWN = 200


class MetricQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """How one metric is asked for.

    query:  PromQL with one series per node (or per part of a node); `{name}` is the metric's selector.
    time:   `auto`: of the series that the query reads. `evaluation`: always now. Otherwise PromQL whose values are
            seconds since 1970, with labels that lead to a node: `node_textfile_mtime_seconds{file="/x.prom"}`.
    """

    query: str = NAME
    time: str = AUTO
    duplicates: Duplicates = "max"

    def __post_init__(self) -> None:
        for place, text in (("query", self.query), ("time", self.time)):
            try:
                selectors(text.replace(NAME, "name"))
            except InputError as error:
                raise error.within(place=place) from error


class Ask(NamedTuple):
    """`text` is sent. `own_times`: every series brings its own time; `is_dated`: some time comes with the values."""

    text: str
    own_times: bool
    is_dated: bool
    duplicates: Duplicates


def ask_for(metric: MetricKey, how: MetricQuery, naming: NodeNaming) -> Ask:
    """How a metric is asked for. Raises `InputError` for PromQL that cannot be read."""
    if metric.part and not is_label_name(metric.part):
        raise InputError("not a label name", place="part", value=metric.part)
    query = metric.promql or how.query.replace(NAME, selector_of(metric.name))
    if how.time == AUTO and is_selector(query):
        return Ask(with_times(query, ()), own_times=True, is_dated=True, duplicates=how.duplicates)
    times = _times_of(query, metric, how, naming)
    text = with_times(query, times) if times else query
    return Ask(text, own_times=False, is_dated=bool(times), duplicates=how.duplicates)


def _times_of(query: str, metric: MetricKey, how: MetricQuery, naming: NodeNaming) -> tuple[str, ...]:
    if how.time == EVALUATION:
        return ()
    if how.time != AUTO:
        return (how.time.replace(NAME, selector_of(metric.name)),)
    return oldest_inputs(query, (*naming.labels, *((metric.part,) if metric.part else ())))


def samples_of(
    vector: Vector, part: str, ask: Ask, naming: NodeNaming, nodes: ClusterNodes, skew_s: float = 0.0
) -> Polled:
    """One sample per node, or per part of a node where `part` is the label that tells them."""
    gathering = Gathering(ask.duplicates, parts=bool(part))
    times = _own_times(vector) if ask.own_times else _node_times(vector, part, naming, nodes)
    for series in vector.series:
        if ask.is_dated and series.labels.get(PART) != VALUE:
            continue
        node = naming.node_of(series.labels, nodes)
        which = series.labels.get(part, "") if part else ""
        if node is None:
            gathering.leave_out("foreign", _shown(series, naming))
        elif series.value is None:
            gathering.leave_out("valueless", f"node {node} has no finite value")
        elif part and not which:
            gathering.leave_out("partless", f"node {node} has a series without {part}")
        else:
            at = series.at if not ask.is_dated else _time_of(series, times, node, which, own=ask.own_times)
            if at is None:
                gathering.leave_out("undated", f"node {node} has no series any more that the value is made of")
            else:
                gathering.add(Measurement(node, which, series.value, at - skew_s))
    return gathering.polled(vector.warnings)


_Times = Mapping[object, float]


def _own_times(vector: Vector) -> _Times:
    """Labels of a series, without its name -> its time."""
    return {
        _identity(series): float(series.value)
        for series in vector.series
        if series.labels.get(PART) == TIME and _is_time(series.value)
    }


def _node_times(vector: Vector, part: str, naming: NodeNaming, nodes: ClusterNodes) -> _Times:
    """(node, part or "") -> the oldest of the times that were asked for beside the values."""
    times: dict[object, float] = {}
    for series in vector.series:
        if series.labels.get(PART, VALUE) == VALUE or not _is_time(series.value):
            continue
        node = naming.node_of(series.labels, nodes)
        if node is not None:
            key = (node, series.labels.get(part, "") if part else "")
            times[key] = min(times.get(key, float("inf")), float(series.value))
    return times


def _time_of(series: Series, times: _Times, node: str, part: str, *, own: bool) -> float | None:
    if own:
        return times.get(_identity(series))
    found = [times[key] for key in {(node, part), (node, "")} if key in times]
    return min(found, default=None)


def _is_time(value: Fraction | None) -> TypeGuard[Fraction]:
    return value is not None and abs(value) < _LATEST_S


def _identity(series: Series) -> frozenset[tuple[str, str]]:
    return frozenset(_without_name(series.labels))


def _without_name(labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((label, text) for label, text in labels.items() if label not in (PART, "__name__"))


def _shown(series: Series, naming: NodeNaming) -> str:
    told = [f"{label}={series.labels[label]}" for label in naming.labels if label in series.labels]
    return f"no node for {', '.join(told) or 'a series without any label of nodes'}"[:_SHOWN]
