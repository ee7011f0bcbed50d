"""What a value is worth that is old or missing: field case 28, a series that nobody feeds any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bayplan.errors import InputError
from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import MetricKey, Policy, Sample, TelemetrySettings
from bayplan.fleet.telemetry.verdict import Flip

MakePolicy = Callable[..., Policy]
Poll = Callable[..., tuple[Flip, ...]]
HOT = {"metricname": "temp", "operator": "GreaterThan", "target": 80}


def test_a_frozen_series_refuses_the_node_when_it_grows_too_old(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine(TelemetrySettings(max_age_s=60))
    engine.set_policy(tas(settings=engine.settings, dontschedule={"rules": [HOT]}), 0)
    poll(engine, "temp", {"cool": 20, "live": 20}, 100)
    for now in range(110, 200, 10):  # polled again and again, and never measured again
        engine.update(MetricKey(name="temp"), {"cool": Sample.read(20, 100), "live": Sample.read(20, now)}, float(now))
    verdict = engine.verdict("default", "p", 190)
    assert verdict.reason("live") is None
    assert verdict.reason("cool") == (
        "policy default/p, dontschedule: temp 20 is too old: measured 1970-01-01T00:01:40Z, at most 1m allowed"
    )
    assert engine.explain("default", "p", "cool", 520).refused == (
        "policy default/p, dontschedule: temp 20 is too old: 7m old, at most 1m allowed"
    )


def test_the_moment_is_known_beforehand_and_the_flip_is_told(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine(TelemetrySettings(max_age_s=60))
    engine.set_policy(tas(settings=engine.settings, dontschedule={"rules": [HOT]}), 0)
    poll(engine, "temp", {"a": 20, "b": 20}, 100.2)
    assert engine.next_change_at == 161
    assert engine.verdict("default", "p", 100.2).next_change_at == 161
    assert engine.advance(160.9) == ()
    assert [(flip.refused, flip.allowed) for flip in engine.advance(161)] == [(frozenset("ab"), frozenset())]
    flips = poll(engine, "temp", {"a": 20, "b": 90}, 170)
    assert [(flip.allowed, flip.opens) for flip in flips] == [(frozenset("a"), True)]


def test_a_poll_that_fails_keeps_values_and_lets_them_age(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine(TelemetrySettings(max_age_s=60))
    engine.set_policy(tas(settings=engine.settings, dontschedule={"rules": [HOT]}), 0)
    poll(engine, "temp", {"a": 20}, 100)
    engine.failed(MetricKey(name="temp"), "connection refused", 110)
    assert engine.verdict("default", "p", 110).reason("a") is None
    (age,) = engine.ages(115)
    assert (age.oldest_s, age.newest_s, age.polled_s, age.failing) == (15, 15, 15, "connection refused")
    assert engine.verdict("default", "p", 160).reason("a") is not None


def test_a_node_without_a_value_is_refused_also_before_the_first_poll(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    engine.set_policy(tas(dontschedule={"rules": [HOT]}), 0)
    assert engine.verdict("default", "p", 0).reason("x") == "policy default/p, dontschedule: temp has no value"
    poll(engine, "temp", {"a": 20}, 100)
    assert engine.verdict("default", "p", 100).reason("x") == "policy default/p, dontschedule: temp has no value"
    assert engine.verdict("default", "p", 100).reason("a") is None


def test_as_the_original_nothing_grows_old_and_nodes_without_a_value_pass(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine(TelemetrySettings(max_age_s=None, tas_on_stale="ignore", original_messages=True))
    engine.set_policy(tas(settings=engine.settings, dontschedule={"rules": [HOT]}), 0)
    poll(engine, "temp", {"a": 90}, 100)
    verdict = engine.verdict("default", "p", 1e9)
    assert verdict.reason("a") == "Node violates"
    assert verdict.reason("x") is None


@pytest.mark.parametrize(("on_stale", "refused"), [("ignore", False), ("violate", True), ("reject", True)])
@pytest.mark.parametrize("missing", [True, False])
def test_a_rule_says_what_it_is_worth_without_a_value(
    on_stale: str, refused: bool, missing: bool, own: MakePolicy, poll: Poll
) -> None:
    engine = TelemetryEngine()
    engine.set_policy(own(dontschedule={"rules": [{**HOT, "onStale": on_stale, "maxAge": "30s"}]}), 0)
    poll(engine, "temp", {"other": 20} if missing else {"other": 20, "a": 20}, 0)
    poll(engine, "temp", {"other": 20} if missing else {"other": 20, "a": 20}, 40, at=0)
    assert (engine.verdict("default", "p", 40).reason("a") is not None) == refused


def test_one_false_rule_is_enough_against_allof_whatever_the_others_are(own: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    rules = [HOT, {"metricname": "load", "operator": "GreaterThan", "target": 10}]
    engine.set_policy(own(dontschedule={"rules": rules, "logicalOperator": "allOf"}), 0)
    poll(engine, "temp", {"cool": 20, "hot": 90}, 0)
    verdict = engine.verdict("default", "p", 0)
    assert verdict.reason("cool") is None
    assert verdict.reason("hot") == "policy default/p, dontschedule: load has no value"


def test_a_clock_that_goes_wrong_keeps_no_value_fresh_for_ever(own: MakePolicy) -> None:
    engine = TelemetryEngine()
    engine.set_policy(own(dontschedule={"rules": [{**HOT, "maxAge": "1m"}]}), 0)
    metric, frozen = MetricKey(name="temp"), {"a": Sample.read(20, 10_000)}
    for now in (100, 130, 159):
        engine.update(metric, frozen, now)
        assert engine.verdict("default", "p", now).reason("a") is None
    engine.update(metric, frozen, 160)
    assert engine.verdict("default", "p", 160).reason("a") is not None
    engine.update(metric, {"a": Sample.read(20, 10_060)}, 170)
    assert engine.verdict("default", "p", 170).reason("a") is None


def test_stale_values_count_for_no_score(own: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    rule = {"metricname": "free", "operator": "GreaterThan", "maxAge": "30s"}
    engine.set_policy(own(scheduleonmetric={"rules": [rule]}), 0)
    engine.update(
        MetricKey(name="free"), {"old": Sample.read(9, 0), "a": Sample.read(5, 20), "b": Sample.read(1, 20)}, 20
    )
    assert [engine.verdict("default", "p", 20).score(node) for node in ("old", "a", "b", "none")] == [10, 5, 0, 0]
    verdict = engine.verdict("default", "p", 30)
    assert [verdict.score(node) for node in ("old", "a", "b", "none")] == [0, 10, 0, 0]
    assert verdict.ranked == ("a", "b")


def test_several_values_of_a_node_need_a_rule_that_says_how_to_take_them(tas: MakePolicy) -> None:
    engine = TelemetryEngine()
    engine.set_policy(tas(dontschedule={"rules": [HOT]}), 0)
    with pytest.raises(InputError, match="several values for a node"):
        engine.update(MetricKey(name="temp"), {"a": {"0": Sample.read(20, 0)}}, 0)
