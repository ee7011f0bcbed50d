"""Policies are read whole, or say which part of them cannot be used and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import MetricKey, Policy, TelemetrySettings
from bayplan.fleet.telemetry.reading import is_policy, read_policy

MakePolicy = Callable[..., Policy]
SETTINGS = TelemetrySettings()
LOAD = {"metricname": "load", "operator": "GreaterThan", "target": 80}
TAS: dict[str, Any] = {
    "apiVersion": "telemetry.intel.com/v1alpha1",
    "kind": "TASPolicy",
    "metadata": {"name": "p", "namespace": "shop", "generation": 3},
    "spec": {
        "strategies": {
            "dontschedule": {"policyName": "p", "logicalOperator": "allOf", "rules": [LOAD]},
            "scheduleonmetric": {"rules": [LOAD, {**LOAD, "metricname": "other"}]},
            "deschedule": {"rules": [LOAD]},
            "labeling": {"rules": [{**LOAD, "labels": ["hot=yes", "empty="]}]},
        }
    },
}


def test_a_tas_policy_from_json_yaml_and_a_mapping_is_the_same() -> None:
    policy = read_policy(json.dumps(TAS).encode(), SETTINGS)
    assert policy == read_policy(TAS, SETTINGS)
    yaml = b"""
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: p, namespace: shop, generation: 3}
spec:
  strategies:
    dontschedule:
      policyName: p
      logicalOperator: allOf
      rules: [&load {metricname: load, operator: GreaterThan, target: 80}]
    scheduleonmetric: {rules: [*load, {metricname: other, operator: GreaterThan, target: 80}]}
    deschedule: {rules: [*load]}
    labeling: {rules: [{metricname: load, operator: GreaterThan, target: 80, labels: ["hot=yes", "empty="]}]}
"""
    assert read_policy(yaml, SETTINGS) == policy
    assert policy.dontschedule is not None
    assert policy.dontschedule.all_of
    assert policy.dontschedule.rules[0].text == "load GreaterThan 80"
    assert policy.labeling is not None
    assert policy.labeling.rules[0].labels == (("hot", "yes"), ("empty", ""))
    assert [str(note) for note in policy.notices] == [
        "scheduleonmetric: only the first of 2 rules counts in a TASPolicy"
    ]
    assert (policy.key, policy.generation, policy.problems) == (("shop", "p"), 3, ())


def test_a_tas_policy_becomes_a_telemetry_policy_by_its_kind_alone() -> None:
    moved = read_policy({**TAS, "apiVersion": "bayplan.dev/v1alpha1", "kind": "TelemetryPolicy"}, SETTINGS)
    before = read_policy(TAS, SETTINGS)
    assert moved.dontschedule == before.dontschedule
    assert moved.deschedule == before.deschedule
    assert moved.labeling == before.labeling
    assert moved.scheduleonmetric is not None
    assert [score.metric.name for score in moved.scheduleonmetric] == ["load", "other"]


def test_unknown_strategies_and_fields_are_told_and_stop_nothing(tas: MakePolicy) -> None:
    policy = tas(dontshedule={"rules": [LOAD]}, dontschedule={"rules": [{**LOAD, "tarjet": 1}]})
    assert policy.dontschedule is not None
    assert [str(note) for note in policy.notices] == [
        "unknown strategy dontshedule is ignored; did you mean dontschedule?",
        "unknown field tarjet in a rule of dontschedule is ignored; did you mean target?",
    ]


def test_a_logical_operator_that_does_not_exist_is_anyof_and_told(tas: MakePolicy) -> None:
    policy = tas(dontschedule={"rules": [LOAD], "logicalOperator": "AllOf"})
    assert policy.dontschedule is not None
    assert not policy.dontschedule.all_of
    assert [note.name for note in policy.notices] == ["unknown-operator"]


BAD_TAS: list[tuple[dict[str, Any], str]] = [
    ({"dontschedule": {"rules": [{**LOAD, "target": 1.5}]}}, "rules[0].target: is a number: 1.5"),
    ({"dontschedule": {"rules": [{**LOAD, "target": 2**63}]}}, "rules[0].target: out of range"),
    ({"dontschedule": {"rules": [{**LOAD, "target": "80"}]}}, "rules[0].target: is text"),
    ({"dontschedule": {"rules": [{**LOAD, "metricname": ""}]}}, "rules[0].metricname: missing"),
    ({"dontschedule": {"rules": [{**LOAD, "metricname": "a b"}]}}, "rules[0].metricname: not the name of a metric"),
    ({"dontschedule": {"rules": [{**LOAD, "metricname": "m" * 300}]}}, "rules[0].metricname: not the name of a metric"),
    ({"dontschedule": {"rules": [{**LOAD, "operator": "NotEquals"}]}}, "rules[0].operator: unknown operator"),
    ({"dontschedule": {"rules": {}}}, "rules: is a mapping"),
    ({"dontschedule": {"rules": ["x"]}}, "rules[0]: is text"),
    ({"dontschedule": {"rules": [LOAD] * 129}}, "rules: too many: 129"),
    ({"dontschedule": [LOAD]}, "dontschedule: is a list"),
    ({"labeling": {"rules": [{**LOAD, "labels": ["hot"]}]}}, "rules[0].labels[0]: not a label: 'hot'"),
    ({"labeling": {"rules": [{**LOAD, "labels": ["a=1", "b=1=2"]}]}}, "rules[0].labels[1]: not a label: 'b=1=2'"),
    ({"labeling": {"rules": [{**LOAD, "labels": ["=1"]}]}}, "rules[0].labels[0]: not a label"),
    ({"labeling": {"rules": [{**LOAD, "labels": ["a=b c"]}]}}, "rules[0].labels[0]: not a valid label value"),
    ({"labeling": {"rules": [{**LOAD, "labels": [f"{'k' * 64}=1"]}]}}, "rules[0].labels[0]: not a valid key"),
    ({"labeling": {"rules": [{**LOAD, "labels": ["a=1", "a=2"]}]}}, "rules[0].labels[1]: label with two values"),
]


@pytest.mark.parametrize(("strategies", "problem"), BAD_TAS)
def test_a_bad_strategy_says_why_and_leaves_the_others_alone(
    strategies: dict[str, Any], problem: str, tas: MakePolicy
) -> None:
    policy = tas(scheduleonmetric={"rules": [LOAD]}, **strategies)
    assert policy.scheduleonmetric is not None
    assert len(policy.problems) == 1
    assert f"{problem}" in policy.problems[0].why
    assert policy.problems[0].strategy in strategies
    assert getattr(policy, policy.problems[0].strategy) is None


def test_a_name_that_is_no_label_key_cannot_mark_nodes(tas: MakePolicy) -> None:
    policy = tas("n" * 64, deschedule={"rules": [LOAD]}, dontschedule={"rules": [LOAD]})
    assert [problem.strategy for problem in policy.problems] == ["deschedule"]
    assert policy.dontschedule is not None


OWN_RULE = {"metricname": "load", "operator": "GreaterThan", "target": "800m"}
BAD_OWN: list[tuple[str, dict[str, Any], str]] = [
    ("dontschedule", {"target": "many"}, "target: not a quantity: 'many'"),
    ("dontschedule", {"for": "soon"}, "for: not a length of time: 'soon'"),
    ("dontschedule", {"for": "721h"}, "for: out of range"),
    ("dontschedule", {"maxAge": "0s"}, "maxAge: out of range"),
    ("dontschedule", {"release": "900m"}, "release: on the wrong side of the target"),
    ("dontschedule", {"operator": "Equals", "release": "1"}, "release: a second target for Equals"),
    ("dontschedule", {"onStale": "keep"}, "onStale: not one of those allowed here: 'keep'"),
    ("deschedule", {"onStale": "reject"}, "onStale: not one of those allowed here: 'reject'"),
    ("dontschedule", {"promql": "up"}, "promql: beside a metricname"),
    ("dontschedule", {"per": "rack"}, "per: not one of those allowed here"),
    ("dontschedule", {"aggregate": "max"}, "aggregate: for a metric that has no parts"),
    ("dontschedule", {"per": "card", "perLabel": "a-b"}, "perLabel: not the name of a label"),
    ("dontschedule", {"metricname": None, "promql": "x" * 20_000}, "promql: too long"),
    ("dontschedule", {"metricname": None}, "metricname: missing"),
    ("scheduleonmetric", {"weight": 0}, "weight: out of range"),
    ("scheduleonmetric", {"score": "rank", "best": 1}, "score: ranks have no bounds"),
    ("scheduleonmetric", {"best": 1, "worst": 2}, "best: no better than worst"),
    ("scheduleonmetric", {"operator": "Equals", "best": 1}, "best: a bound for Equals"),
    ("scheduleonmetric", {"per": "card", "aggregate": "any"}, "aggregate: not one of those allowed here"),
]


@pytest.mark.parametrize(("strategy", "fields", "problem"), BAD_OWN)
def test_a_bad_rule_of_a_telemetry_policy_says_where_and_why(
    strategy: str, fields: dict[str, Any], problem: str, own: MakePolicy
) -> None:
    rule = {**OWN_RULE, **fields}
    policy = own(**{strategy: {"rules": [rule]}})
    assert [each.strategy for each in policy.problems] == [strategy]
    assert policy.problems[0].why.startswith(f"spec.strategies.{strategy}.rules[0].{problem}")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"podSelector": {"app": "x"}}, "spec.podSelector.app: unknown field"),
        ({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}, "unknown operator"),
        ({"nodeSelector": {"matchLabels": {"a b": "c"}}}, "spec.nodeSelector.matchLabels: not a valid key"),
        ({"namespaces": ["A"]}, "spec.namespaces[0]: not a valid name"),
        ({"maxAge": 60}, "spec.maxAge: is a number"),
    ],
)
def test_what_is_wrong_with_the_whole_makes_all_of_it_unusable(
    spec: dict[str, Any], problem: str, own: MakePolicy
) -> None:
    policy = own(spec=spec, dontschedule={"rules": [OWN_RULE]})
    assert [each.strategy for each in policy.problems] == [""]
    assert problem in policy.problems[0].why
    engine = TelemetryEngine()
    engine.set_policy(policy, 0)
    reason = engine.verdict("default", "p", 0).reason("any")
    assert reason is not None
    assert policy.problems[0].why in reason


def test_rules_of_a_telemetry_policy(own: MakePolicy) -> None:
    rule = {
        "promql": "max by (node, gpu) (temp)",
        "operator": "GreaterThanOrEqual",
        "target": "85500m",
        "release": 80,
        "for": "2m",
        "releaseFor": "30s",
        "maxAge": "1m30s",
        "onStale": "violate",
        "per": "card",
        "perLabel": "gpu",
    }
    policy = own(dontschedule={"rules": [rule]})
    assert policy.problems == ()
    assert policy.dontschedule is not None
    found = policy.dontschedule.rules[0]
    assert found.condition.metric == MetricKey(promql="max by (node, gpu) (temp)", part="gpu")
    assert (found.condition.target, found.condition.release) == (85_500_000_000, 80_000_000_000)
    assert (found.condition.for_s, found.condition.release_for_s, found.condition.max_age_s) == (120, 30, 90)
    assert found.condition.aggregate == "any"
    assert found.on_stale == "violate"
    assert found.text == "any card max by (node, gpu) (temp) GreaterThanOrEqual 85500m for 2m"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"kind": "TASPolicy"}',
        b"[" * 100_000,
        b'{"a": 1, "a": 2}',
        b"---\nkind: x\n---\nkind: y\n",
        json.dumps({**TAS, "metadata": {}}).encode(),
        json.dumps({**TAS, "metadata": {"name": "x" * 300}}).encode(),
        json.dumps({**TAS, "apiVersion": "telemetry.intel.com/v2"}).encode(),
        json.dumps({**TAS, "metadata": {"name": ["p"]}}).encode(),
    ],
)
def test_what_is_no_policy_with_a_name_is_refused(data: bytes) -> None:
    with pytest.raises(InputError) as error:
        read_policy(data, SETTINGS, source="cluster")
    assert error.value.source == "cluster"


def test_policies_are_told_from_other_objects() -> None:
    assert is_policy(TAS)
    assert not is_policy({**TAS, "kind": "Pod"})
    assert not is_policy([TAS])
    assert not is_policy({"apiVersion": [], "kind": {}})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5) | st.just("a=b"),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["rules", "metricname", "operator", "target", "labels", "for", "release", "maxAge", "dontschedule",
             "labeling", "scheduleonmetric", "podSelector", "matchLabels", "strategies", "per", "promql", "best"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


@given(
    JSON, st.sampled_from([("telemetry.intel.com/v1alpha1", "TASPolicy"), ("bayplan.dev/v1alpha1", "TelemetryPolicy")])
)
def test_any_spec_is_read_or_explained(spec: Any, kind: tuple[str, str]) -> None:
    value = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "p"}, "spec": spec}
    policy = read_policy(value, SETTINGS)
    engine = TelemetryEngine()
    engine.set_policy(policy, 0)
    assert all(problem.why for problem in policy.problems)
    assert (engine.verdict("default", "p", 0).reason("node") is not None) >= bool(policy.problem("dontschedule"))
