"""TASPolicy, telemetry.intel.com/v1alpha1, as it is.

Facts: the custom resource's schema and the way Telemetry Aware Scheduling 0.7 reads it. What it did with mistakes is
kept where it is harmless and told (`notices`), and refused where it meant "no restriction" in silence: an operator that
does not exist made a rule that never holds.
"""

from __future__ import annotations

from bayplan.fleet.telemetry.model import (
    DESCHEDULE,
    DONTSCHEDULE,
    LABELING,
    SCHEDULEONMETRIC,
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
from bayplan.fleet.telemetry.nano import ONE
from bayplan.fleet.telemetry.rule_fields import (
    labels_of,
    metric_name,
    operator_of,
    rule_entries,
)
from bayplan.fleet.telemetry.strategies import read_strategies
from bayplan.workload.fields import Fields
from bayplan.workload.notes import Notes, printable

API_VERSION = "telemetry.intel.com/v1alpha1"
KIND = "TASPolicy"
OPERATORS: tuple[Operator, ...] = ("Equals", "LessThan", "GreaterThan")
_INT64 = 2**63
_ON_STALE: dict[str, OnStale] = {DESCHEDULE: "ignore", LABELING: "keep"}
_RULE_FIELDS = frozenset({"metricname", "operator", "target", "labels"})


def read_spec(spec: Fields, policy: Policy, settings: TelemetrySettings, notes: Notes) -> Policy:
    """`spec` of a TASPolicy. Raises `InputError` where there are no strategies to speak of."""
    notes.unknown_fields(spec.value, frozenset({"strategies"}), "spec")

    def read_rules(name: str, fields: Fields) -> Strategy:
        return _read_strategy(name, fields, policy.name, settings, notes)

    def read_scores(fields: Fields) -> tuple[Score, ...]:
        return _read_scores(fields, settings, notes)

    return read_strategies(spec.mapping("strategies"), policy, notes, read_rules, read_scores)


def _read_strategy(name: str, fields: Fields, policy: str, settings: TelemetrySettings, notes: Notes) -> Strategy:
    on_stale = settings.tas_on_stale if name == DONTSCHEDULE else _ON_STALE[name]
    logical = fields.text("logicalOperator")
    if logical not in ("", "anyOf", "allOf"):
        notes.add("unknown-operator", f"{name}: logicalOperator {printable(logical)} is taken for anyOf")
    rules = []
    for entry in rule_entries(fields):
        notes.unknown_fields(entry.value, _RULE_FIELDS, f"a rule of {name}")
        condition, text = _read_condition(entry, settings)
        labels = labels_of(entry, policy) if name == LABELING else ()
        rules.append(Rule(condition=condition, text=text, on_stale=on_stale, labels=labels))
    return Strategy(rules=tuple(rules), all_of=logical == "allOf")


def _read_condition(entry: Fields, settings: TelemetrySettings) -> tuple[Condition, str]:
    metric, operator, target = metric_name(entry), operator_of(entry, OPERATORS), _target(entry)
    condition = Condition(
        metric=MetricKey(name=metric), operator=operator, target=target * ONE, max_age_s=settings.max_age_s
    )
    return condition, f"{metric} {operator} {target}"


def _read_scores(fields: Fields, settings: TelemetrySettings, notes: Notes) -> tuple[Score, ...]:
    rules = rule_entries(fields)
    if len(rules) > 1:
        notes.add("rule-ignored", f"{SCHEDULEONMETRIC}: only the first of {len(rules)} rules counts in a {KIND}")
    scores = []
    for entry in rules[:1]:
        notes.unknown_fields(entry.value, _RULE_FIELDS, f"a rule of {SCHEDULEONMETRIC}")
        condition, text = _read_condition(entry, settings)
        score = Score(
            metric=condition.metric,
            operator=condition.operator,
            target=condition.target,
            spread="places",
            max_age_s=condition.max_age_s,
            text=text,
        )
        scores.append(score)
    return tuple(scores)


def _target(entry: Fields) -> int:
    return entry.integer("target", -_INT64, _INT64 - 1) or 0
