"""Which policies are for which pods and nodes, and what there is to say where one does not exist: field case 29."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import Policy, TelemetrySettings
from bayplan.fleet.telemetry.verdict import Flip

MakePolicy = Callable[..., Policy]
Poll = Callable[..., tuple[Flip, ...]]
HOT = {"metricname": "temp", "operator": "GreaterThan", "target": 80}
NAMED = {"telemetry-policy": "p"}


def test_a_pod_has_the_policy_of_its_own_namespace(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    engine.set_policy(tas(namespace="one", dontschedule={"rules": [HOT]}), 0)
    engine.set_policy(tas(namespace="two", dontschedule={"rules": [{**HOT, "target": 10}]}), 0)
    poll(engine, "temp", {"warm": 50}, 0)
    assert engine.verdict_for("one", NAMED, 0).reason("warm") is None
    assert engine.verdict_for("two", NAMED, 0).reason("warm") is not None
    engine.remove_policy("one", "p", 1)
    assert engine.verdict_for("two", NAMED, 1).reason("warm") is not None
    assert engine.verdict_for("one", NAMED, 1).reason("warm") == "policy one/p does not exist"
    assert engine.verdict_for("one", {}, 1).reason("warm") is None


@pytest.mark.parametrize(("missing", "refused"), [("deny", True), ("allow", False)])
def test_a_policy_that_does_not_exist_is_as_configured(missing: str, refused: bool) -> None:
    engine = TelemetryEngine(TelemetrySettings(missing_policy=missing))  # type: ignore[arg-type]
    verdict = engine.verdict_for("default", NAMED, 0)
    assert verdict.reason("node") == ("policy default/p does not exist" if refused else None)


def test_pods_that_wait_for_a_policy_are_told_when_it_comes(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    (flip,) = engine.set_policy(tas(scheduleonmetric={"rules": [HOT]}), 0)
    assert (flip.others, flip.opens) == ("allowed", True)
    (flip,) = engine.remove_policy("default", "p", 1)
    assert (flip.others, flip.opens) == ("refused", False)
    assert engine.remove_policy("default", "p", 1) == ()


def test_a_flip_of_a_rule_opens_nodes(tas: MakePolicy, poll: Poll) -> None:
    """Field case 27: all nodes were unschedulable by the metric, and it becomes 1."""
    engine = TelemetryEngine()
    rule = {"metricname": "node_schedulable", "operator": "Equals", "target": 0}
    engine.set_policy(tas(dontschedule={"rules": [rule]}), 0)
    assert [flip.opens for flip in poll(engine, "node_schedulable", {"a": 0, "b": 0}, 1)] == []
    (flip,) = poll(engine, "node_schedulable", {"a": 0, "b": 1}, 2)
    assert (flip.policy, flip.allowed, flip.opens) == (("default", "p"), frozenset("b"), True)
    assert poll(engine, "node_schedulable", {"a": 0, "b": 1}, 3) == ()


def test_a_selector_takes_pods_without_the_label(own: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}],
    }
    engine.set_policy(own(spec={"podSelector": selector}, dontschedule={"rules": [HOT]}), 0)
    assert engine.policies_for("default", {"app": "web"}) == (("default", "p"),)
    assert engine.policies_for("default", {"app": "web", "tier": "x"}) == ()
    assert engine.policies_for("other", {"app": "web"}) == ()
    assert engine.policies_for("default", {"app": "web", "telemetry-policy": "p"}) == (("default", "p"),)
    assert engine.policies_for("default", {"app": "web", "telemetry-policy": "q"}) == (
        ("default", "p"),
        ("default", "q"),
    )


def test_only_policies_of_some_namespaces_reach_other_namespaces(own: MakePolicy) -> None:
    engine = TelemetryEngine()
    spec = {"podSelector": {}, "namespaces": ["shop", "default"]}
    tenant = own("tenant", namespace="default", spec=spec)
    assert [note.name for note in tenant.notices] == ["namespaces-ignored"]
    engine.set_policy(tenant, 0)
    engine.set_policy(own("all", namespace="bayplan-system", spec={"podSelector": {}, "namespaces": ["*"]}), 0)
    assert engine.policies_for("shop", {}) == (("bayplan-system", "all"),)
    assert engine.policies_for("default", {}) == (("bayplan-system", "all"), ("default", "tenant"))


def test_several_policies_refuse_together_and_score_by_their_mean(own: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    every: dict[str, Any] = {"podSelector": {}}
    more, less = {"metricname": "free", "operator": "GreaterThan"}, {"metricname": "temp", "operator": "LessThan"}
    engine.set_policy(own("a", spec=every, dontschedule={"rules": [HOT]}, scheduleonmetric={"rules": [more]}), 0)
    engine.set_policy(own("b", spec=every, scheduleonmetric={"rules": [less]}), 0)
    engine.set_policy(own("c", spec=every, dontschedule={"rules": [{**HOT, "metricname": "free"}]}), 0)
    poll(engine, "temp", {"n1": 20, "n2": 95, "n3": 60}, 0)
    poll(engine, "free", {"n1": 0, "n2": 50, "n3": 100}, 0)
    verdict = engine.verdict_for("default", {}, 0)
    assert [verdict.reason(node) is not None for node in ("n1", "n2", "n3", "n4")] == [False, True, True, True]
    assert [verdict.score(node) for node in ("n1", "n2", "n3", "n4")] == [5, 3, 7, 0]
    assert verdict.ranked == ("n3", "n1", "n2")
    assert engine.verdict_for("default", {"other": "labels"}, 0) is verdict


def test_a_policy_is_for_the_nodes_that_it_selects(own: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    selector = {
        "matchLabels": {"gpu": "yes"},
        "matchExpressions": [{"key": "cards", "operator": "Gt", "values": ["1"]}],
    }
    engine.set_policy(own(spec={"nodeSelector": selector}, dontschedule={"rules": [HOT]}), 0)
    engine.set_node("in", {"gpu": "yes", "cards": "4"})
    engine.set_node("silent", {"gpu": "yes", "cards": "4"})
    engine.set_node("out", {"gpu": "yes", "cards": "1"})
    poll(engine, "temp", {"in": 90, "out": 90}, 0)
    verdict = engine.verdict("default", "p", 0)
    assert [verdict.reason(node) is not None for node in ("in", "silent", "out", "unheard-of")] == [
        True, True, False, True
    ]  # fmt: skip
    engine.set_node("in", {})
    assert engine.next_change_at <= 0
    assert [flip.allowed for flip in engine.advance(1)] == [frozenset({"in"})]
    engine.remove_node("out")
    assert engine.verdict("default", "p", 2).reason("out") is not None


def test_metrics_to_fetch_are_those_in_use(tas: MakePolicy, own: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    engine.set_policy(
        tas("a", dontschedule={"rules": [HOT]}, scheduleonmetric={"rules": [{**HOT, "metricname": "s"}]}), 0
    )
    engine.set_policy(own("b", labeling={"rules": [{"promql": "up", "operator": "Equals", "per": "zone"}]}), 0)
    assert sorted(str(metric) for metric in engine.metrics()) == ["s", "temp", "up"]
    engine.remove_policy("default", "a", 0)
    assert [(metric.promql, metric.part) for metric in engine.metrics()] == [("up", "zone")]
    poll(engine, "temp", {"a": 1}, 0)  # nobody's: kept nowhere
    engine.set_policy(tas("a", dontschedule={"rules": [HOT]}), 1)
    assert engine.verdict("default", "a", 1).reason("a") is not None


def test_few_refused_nodes_are_told_with_numbers_and_many_by_their_rule(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine(TelemetrySettings(detailed_reasons=2))
    engine.set_policy(tas(dontschedule={"rules": [HOT]}), 0)
    poll(engine, "temp", {"a": "90500m", "b": 91, "c": 1}, 0)
    rule = "policy default/p, dontschedule: temp GreaterThan 80"
    assert engine.verdict("default", "p", 0).reason("a") == f"{rule}: 90.5, measured 1970-01-01T00:00:00Z"
    poll(engine, "temp", {"a": 90, "b": 91, "c": 92}, 0)
    verdict = engine.verdict("default", "p", 0)
    assert {verdict.reason(node) for node in "abc"} == {rule}
    assert engine.explain("default", "p", "a", 9).refused == f"{rule}: 90, 9s old"
