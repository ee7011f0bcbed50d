"""Labels: what is written, what is left alone where nobody knows, and whose they are."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import Policy, TelemetrySettings
from bayplan.fleet.telemetry.verdict import Flip

MakePolicy = Callable[..., Policy]
Poll = Callable[..., tuple[Flip, ...]]
HOT = {"metricname": "temp", "operator": "GreaterThan", "target": 80, "labels": ["gas-disable-card0=true"]}
KEY = "telemetry.aware.scheduling.p/gas-disable-card0"


def test_labels_are_left_alone_until_something_is_known(tas: MakePolicy, poll: Poll) -> None:
    """A restart takes no label away, and a source that is down puts no broken card back."""
    engine = TelemetryEngine(TelemetrySettings(max_age_s=60))
    engine.set_policy(tas(settings=engine.settings, labeling={"rules": [HOT]}, deschedule={"rules": [HOT]}), 0)
    there = {KEY: "true", "p": "violating"}
    assert engine.labels(0).changes("a", there) == {}
    poll(engine, "temp", {"a": 90, "b": 20}, 0)
    assert engine.labels(0).changes("a", {}) == there
    assert engine.labels(0).changes("b", there) == dict.fromkeys(there)
    assert engine.labels(60).changes("a", there) == {"p": None}
    assert engine.labels(60).changes("never-measured", there) == {"p": None}


def test_onstale_ignore_takes_the_label_away(own: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    engine.set_policy(own(labeling={"rules": [{**HOT, "onStale": "ignore", "maxAge": "1m"}]}), 0)
    poll(engine, "temp", {"a": 90}, 0)
    assert engine.labels(60).changes("a", {KEY: "true"}) == {KEY: None}


def test_onstale_violate_labels_what_is_not_known(own: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    rule = {**HOT, "onStale": "violate", "maxAge": "1m"}
    engine.set_policy(own(labeling={"rules": [rule]}, deschedule={"rules": [rule]}), 0)
    poll(engine, "temp", {"a": 20}, 0)
    assert engine.labels(0).changes("a", {}) == {}
    assert engine.labels(0).changes("dark", {}) == {KEY: "true", "p": "violating"}
    assert engine.labels(60).changes("a", {}) == {KEY: "true", "p": "violating"}
    assert engine.deschedule(60) == {
        ("default", "p"): {"a": "temp 20 is too old: measured 1970-01-01T00:00:00Z, at most 1m allowed"}
    }


def test_a_known_winner_is_written_where_another_rule_is_not_known(own: MakePolicy, poll: Poll) -> None:
    rules = [
        {"metricname": "m", "operator": "GreaterThan", "target": 1, "labels": ["x=m", "y=m"]},
        {"metricname": "n", "operator": "GreaterThan", "target": 1, "labels": ["x=n", "z=n"]},
    ]
    engine = TelemetryEngine()
    engine.set_policy(own(labeling={"rules": rules}), 0)
    poll(engine, "m", {"a": 5}, 0)
    prefix = "telemetry.aware.scheduling.p/"
    old = {f"{prefix}x": "n", f"{prefix}z": "n", f"{prefix}gone": "1"}
    assert engine.labels(0).changes("a", old) == {f"{prefix}x": "m", f"{prefix}y": "m", f"{prefix}gone": None}


def test_allof_leaves_labels_alone_only_while_it_may_still_hold(own: MakePolicy, poll: Poll) -> None:
    rules = [HOT, {"metricname": "n", "operator": "GreaterThan", "target": 1}]
    engine = TelemetryEngine()
    engine.set_policy(own(labeling={"rules": rules, "logicalOperator": "allOf"}), 0)
    poll(engine, "temp", {"a": 90, "b": 20}, 0)
    plan = engine.labels(0)
    assert plan.changes("a", {KEY: "true"}) == {}
    assert plan.changes("a", {}) == {}
    assert plan.changes("b", {KEY: "true"}) == {KEY: None}
    poll(engine, "n", {"a": 5, "b": 5}, 0)
    assert engine.labels(0).changes("a", {}) == {KEY: "true"}


def test_a_policy_that_cannot_be_read_loses_no_label(tas: MakePolicy) -> None:
    engine = TelemetryEngine()
    engine.set_policy(tas(labeling={"rules": [{**HOT, "labels": ["nonsense"]}]}, deschedule={"rules": [{}]}), 0)
    there = {KEY: "true", "p": "violating", "telemetry.aware.scheduling.other/x": "1"}
    assert engine.labels(0).changes("a", there) == {"telemetry.aware.scheduling.other/x": None}
    assert engine.deschedule(0) == {}


def test_policies_of_one_name_share_their_labels(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    for namespace, target, value in (("one", 10, "one"), ("two", 20, "two")):
        rule = {**HOT, "target": target, "labels": [f"x={value}", f"{value}=1"]}
        engine.set_policy(tas(namespace=namespace, labeling={"rules": [rule]}, deschedule={"rules": [rule]}), 0)
    poll(engine, "temp", {"warm": 15, "hot": 25}, 0)
    prefix = "telemetry.aware.scheduling.p/"
    wanted = engine.wanted_labels(0)
    assert wanted["warm"] == {f"{prefix}x": "one", f"{prefix}one": "1", "p": "violating"}
    assert wanted["hot"] == {f"{prefix}x": "one", f"{prefix}one": "1", f"{prefix}two": "1", "p": "violating"}
    assert set(engine.deschedule(0)) == {("one", "p"), ("two", "p")}


def test_nodes_that_are_not_selected_lose_the_labels(own: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    selector = {"nodeSelector": {"matchLabels": {"gpu": "yes"}}}
    engine.set_policy(own(spec=selector, labeling={"rules": [HOT]}, deschedule={"rules": [HOT]}), 0)
    engine.set_node("in", {"gpu": "yes"})
    engine.set_node("out", {})
    poll(engine, "temp", {"in": 90, "out": 90}, 0)
    there = {KEY: "true", "p": "violating"}
    assert engine.labels(0).changes("in", {}) == there
    assert engine.labels(0).changes("out", there) == dict.fromkeys(there)
    assert set(engine.deschedule(0)[("default", "p")]) == {"in"}  # type: ignore[index]


def test_a_strategy_dropped_by_an_update_is_dropped(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    engine.set_policy(tas(labeling={"rules": [HOT]}, deschedule={"rules": [HOT]}), 0)
    poll(engine, "temp", {"a": 90}, 0)
    assert engine.labels(0).marks == {"p"}
    engine.set_policy(tas(dontschedule={"rules": [HOT]}), 1)
    assert engine.wanted_labels(1) == {}
    assert engine.deschedule(1) == {}
    assert engine.verdict("default", "p", 1).reason("a") is not None  # the value was not lost in between
