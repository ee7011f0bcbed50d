"""TelemetryPolicy, bayplan.dev/v1alpha1: TAS's words, and what its users missed.

A TASPolicy becomes a TelemetryPolicy by its apiVersion and kind alone. Added: PromQL, targets that are quantities, more
operators, `for` and `release` (a rule that does not flap), `maxAge` and `onStale` (what an old or missing value means),
`per` (each zone or card of a node), selectors of pods and nodes, scores over several metrics. The schema of the custom
resource is deploy/crds/telemetrypolicies.yaml; docs/telemetry.md tells it to people.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeVar

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.telemetry.model import (
    DESCHEDULE,
    DONTSCHEDULE,
    FALLING,
    LABELING,
    RISING,
    SCHEDULEONMETRIC,
    Aggregate,
    Condition,
    MetricKey,
    OnStale,
    Operator,
    Policy,
    Rule,
    Score,
    Strategy,
    TelemetrySettings,
)
from bayplan.fleet.telemetry.nano import Nano, format_nano
from bayplan.fleet.telemetry.rule_fields import (
    LONGEST_METRIC,
    check_release,
    labels_of,
    metric_name,
    operator_of,
    quantity_of,
    rule_entries,
)
from bayplan.fleet.telemetry.spans import format_span
from bayplan.fleet.telemetry.strategies import read_strategies
from bayplan.workload.affinity import read_label_selector
from bayplan.workload.fields import Fields, shown
from bayplan.workload.names import check_label
from bayplan.workload.notes import Notes, printable
from bayplan.workload.times import parse_length

_Word = TypeVar("_Word", bound=str)
API_VERSION = "bayplan.dev/v1alpha1"
KIND = "TelemetryPolicy"
OPERATORS: tuple[Operator, ...] = (
    "Equals",
    "NotEquals",
    "LessThan",
    "GreaterThan",
    "LessThanOrEqual",
    "GreaterThanOrEqual",
)
LONGEST_PROMQL = 16_384
MOST_WEIGHT = 100
MOST_NAMESPACES = 256
_NAME = re.compile(r"[a-zA-Z0-9_:.-]+", re.ASCII)
_LONGEST_SHOWN = 60
_LONGEST_TIME_S = 30 * 86_400.0
_SPEC_FIELDS = frozenset({"strategies", "podSelector", "nodeSelector", "namespaces", "maxAge"})
_METRIC_FIELDS = frozenset({"metricname", "promql", "operator", "target", "maxAge", "per", "perLabel", "aggregate"})
_RULE_FIELDS = _METRIC_FIELDS | {"release", "for", "releaseFor", "onStale", "labels"}
_SCORE_FIELDS = _METRIC_FIELDS | {"weight", "score", "best", "worst"}
_ON_STALE: dict[str, tuple[OnStale, ...]] = {  # the first is what is meant where nothing is said
    DONTSCHEDULE: ("reject", "ignore", "violate"),
    DESCHEDULE: ("ignore", "violate", "keep"),
    LABELING: ("keep", "ignore", "violate"),
}


class _Metric(NamedTuple):
    """What a rule and a score have in common."""

    key: MetricKey
    operator: Operator
    target: Nano
    max_age_s: float | None
    aggregate: Aggregate
    title: str


def read_spec(spec: Fields, policy: Policy, settings: TelemetrySettings, notes: Notes) -> Policy:
    """`spec` of a TelemetryPolicy. Raises `InputError` for what is wrong with it as a whole."""
    notes.unknown_fields(spec.value, _SPEC_FIELDS, "spec")
    pods, nodes = spec.optional("podSelector"), spec.optional("nodeSelector")
    policy = msgspec.structs.replace(
        policy,
        pod_selector=None if pods is None else read_label_selector(pods),
        node_selector=None if nodes is None else read_label_selector(nodes, numbers=True),
        namespaces=_read_namespaces(spec, policy, settings, notes),
    )
    max_age_s = _time(spec, "maxAge")
    max_age_s = settings.max_age_s if max_age_s is None else max_age_s

    def read_rules(name: str, fields: Fields) -> Strategy:
        return _read_strategy(name, fields, policy.name, max_age_s, notes)

    def read_scores(fields: Fields) -> tuple[Score, ...]:
        return tuple(_read_score(entry, max_age_s, notes) for entry in rule_entries(fields))

    return read_strategies(spec.mapping("strategies"), policy, notes, read_rules, read_scores)


def _read_strategy(name: str, fields: Fields, policy: str, max_age_s: float | None, notes: Notes) -> Strategy:
    logical = _one_of(fields, "logicalOperator", ("anyOf", "allOf"))
    rules = []
    for entry in rule_entries(fields):
        notes.unknown_fields(entry.value, _RULE_FIELDS, f"a rule of {name}")
        rules.append(_read_rule(name, entry, policy, max_age_s))
    return Strategy(rules=tuple(rules), all_of=logical == "allOf")


def _read_rule(strategy: str, entry: Fields, policy: str, max_age_s: float | None) -> Rule:
    aggregates: tuple[Aggregate, ...] = ("any", "all", "max", "min")
    metric = _read_metric(entry, aggregates, max_age_s)
    release = quantity_of(entry, "release")
    check_release(entry, metric.operator, metric.target, release)
    for_s = _time(entry, "for") or 0.0
    condition = Condition(
        metric=metric.key,
        operator=metric.operator,
        target=metric.target,
        release=release,
        for_s=for_s,
        release_for_s=_time(entry, "releaseFor") or 0.0,
        max_age_s=metric.max_age_s,
        aggregate=metric.aggregate,
    )
    return Rule(
        condition=condition,
        text=f"{metric.title}{f' for {format_span(for_s)}' if for_s else ''}",
        on_stale=_one_of(entry, "onStale", _ON_STALE[strategy]),
        labels=labels_of(entry, policy) if strategy == LABELING else (),
    )


def _read_score(entry: Fields, max_age_s: float | None, notes: Notes) -> Score:
    notes.unknown_fields(entry.value, _SCORE_FIELDS, f"a rule of {SCHEDULEONMETRIC}")
    operator = operator_of(entry, OPERATORS)
    # Of the parts of a node the worst one speaks where nothing is said.
    worst_first: tuple[Aggregate, ...] = ("min", "max") if operator in RISING else ("max", "min")
    metric = _read_metric(entry, worst_first, max_age_s)
    best, worst = quantity_of(entry, "best"), quantity_of(entry, "worst")
    _check_bounds(entry, operator, best, worst)
    return Score(
        metric=metric.key,
        operator=operator,
        target=metric.target,
        weight=entry.integer("weight", 1, MOST_WEIGHT) or 1,
        spread=_one_of(entry, "score", ("value", "rank")),
        best=best,
        worst=worst,
        max_age_s=metric.max_age_s,
        aggregate=metric.aggregate,
        text=metric.title,
    )


def _check_bounds(entry: Fields, operator: Operator, best: Nano | None, worst: Nano | None) -> None:
    if best is None and worst is None:
        return
    if operator not in RISING + FALLING:
        raise entry.error("best" if best is not None else "worst", f"a bound for {operator}", expected="none")
    if entry.text("score") == "rank":
        raise entry.error("score", "ranks have no bounds", value="rank", expected="value, or neither best nor worst")
    if best is not None and worst is not None and (best <= worst if operator in RISING else best >= worst):
        raise entry.error("best", "no better than worst", expected=f"what {operator} prefers")


def _read_metric(entry: Fields, aggregates: tuple[Aggregate, ...], max_age_s: float | None) -> _Metric:
    operator = operator_of(entry, OPERATORS)
    per = _one_of(entry, "per", ("", "zone", "card"))
    part = (entry.text("perLabel") or per) if per else ""
    if not per:
        for field in ("perLabel", "aggregate"):
            if entry.value.get(field) is not None:
                raise entry.error(field, "for a metric that has no parts", expected="per: zone or card beside it")
    aggregate: Aggregate = _one_of(entry, "aggregate", aggregates) if per else ""
    key = _metric_key(entry, part)
    target = quantity_of(entry, "target") or 0
    own_age_s = _time(entry, "maxAge")
    called = str(key)
    called = called if len(called) <= _LONGEST_SHOWN else f"{called[: _LONGEST_SHOWN - 3]}..."
    whose = f"{aggregate} {per} " if per else ""
    written = entry.value.get("target")
    title = f"{whose}{printable(called)} {operator} {written if isinstance(written, str) else format_nano(target)}"
    return _Metric(key, operator, target, max_age_s if own_age_s is None else own_age_s, aggregate, title)


def _metric_key(entry: Fields, part: str) -> MetricKey:
    promql = entry.text("promql").strip()
    if promql and entry.text("metricname"):
        raise entry.error("promql", "beside a metricname", expected="one of them")
    if promql:
        if len(promql) > LONGEST_PROMQL:
            raise entry.error("promql", "too long", expected=f"at most {LONGEST_PROMQL} characters")
        return MetricKey(promql=promql, part=_part_label(entry, part))
    return MetricKey(name=metric_name(entry, _NAME), part=_part_label(entry, part))


def _part_label(entry: Fields, part: str) -> str:
    if part and (len(part) > LONGEST_METRIC or not part.replace("_", "a").isalnum() or not part.isascii()):
        raise entry.error("perLabel", "not the name of a label", value=shown(part), expected="letters, digits and _")
    return part


def _read_namespaces(spec: Fields, policy: Policy, settings: TelemetrySettings, notes: Notes) -> tuple[str, ...]:
    names = spec.texts("namespaces")
    if len(names) > MOST_NAMESPACES:
        raise spec.error("namespaces", "too many", value=len(names), expected=f"at most {MOST_NAMESPACES}")
    for number, name in enumerate(names):
        if name != "*":
            check_label(name, f"{spec.at('namespaces')}[{number}]")
    foreign = [name for name in names if name != policy.namespace]
    if foreign and not settings.reaching & {"*", policy.namespace}:
        allowed = ", ".join(sorted(settings.reaching)) or "nowhere"
        notes.add(
            "namespaces-ignored",
            f"namespaces: policies of {policy.namespace} are for pods of their own namespace alone (others: {allowed})",
        )
        return (policy.namespace,)
    return tuple(dict.fromkeys(names)) or (policy.namespace,)


def _time(fields: Fields, name: str) -> float | None:
    """A length of time in seconds, not zero, at most 30 days; None where nothing is said."""
    text = fields.text(name)
    if not text:
        return None
    try:
        length = parse_length(text)
    except InputError as error:
        raise error.within(place=fields.at(name)) from error
    if not 0 < length <= _LONGEST_TIME_S:
        raise fields.error(name, "out of range", value=text, expected="more than nothing, at most 720h")
    return length


def _one_of(fields: Fields, name: str, choices: tuple[_Word, ...]) -> _Word:
    """One of some words; the first where nothing is said."""
    given = fields.text(name)
    if not given:
        return choices[0]
    for choice in choices:
        if given == choice:
            return choice
    raise fields.error(
        name, "not one of those allowed here", value=shown(given), expected=", ".join(filter(None, choices))
    )
