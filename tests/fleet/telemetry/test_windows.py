"""Rules that do not flap: `for`, `release`, `releaseFor`; and rules over the parts of a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import Policy
from bayplan.fleet.telemetry.verdict import Flip

MakePolicy = Callable[..., Policy]
Poll = Callable[..., tuple[Flip, ...]]
LOAD = {"metricname": "load", "operator": "GreaterThan", "target": 80}


def engine_with(own: MakePolicy, **fields: Any) -> TelemetryEngine:
    engine = TelemetryEngine()
    engine.set_policy(own(dontschedule={"rules": [{**LOAD, **fields}]}), 0)
    return engine


def refused(engine: TelemetryEngine, now: float) -> bool:
    return engine.verdict("default", "p", now).reason("a") is not None


def test_a_rule_holds_only_after_it_held_for_so_long(own: MakePolicy, poll: Poll) -> None:
    engine = engine_with(own, **{"for": "1m"})
    poll(engine, "load", {"a": 90}, 10)
    assert engine.next_change_at == 70
    assert not refused(engine, 69)
    assert refused(engine, 70)
    poll(engine, "load", {"a": 70}, 80)
    assert not refused(engine, 80)


def test_a_dip_starts_the_time_anew(own: MakePolicy, poll: Poll) -> None:
    engine = engine_with(own, **{"for": "1m"})
    for now, load in ((0, 90), (30, 79), (40, 90), (70, 90)):
        poll(engine, "load", {"a": load}, now)
    assert not refused(engine, 99)
    assert refused(engine, 100)


def test_the_end_of_the_window_is_a_flip_by_time_alone(own: MakePolicy, poll: Poll) -> None:
    engine = engine_with(own, **{"for": "1m"})
    poll(engine, "load", {"a": 90}, 0)
    assert [flip.refused for flip in engine.advance(60)] == [frozenset("a")]


def test_a_rule_lets_go_at_its_second_target(own: MakePolicy, poll: Poll) -> None:
    engine = engine_with(own, release=60)
    seen = []
    for now, load in enumerate((70, 81, 79, 61, 60, 79, 80, 81)):
        poll(engine, "load", {"a": load}, now)
        seen.append(refused(engine, now))
    assert seen == [False, True, True, True, False, False, False, True]


def test_a_rule_lets_go_only_after_so_long(own: MakePolicy, poll: Poll) -> None:
    engine = engine_with(own, releaseFor="30s")
    poll(engine, "load", {"a": 90}, 0)
    poll(engine, "load", {"a": 70}, 10)
    assert refused(engine, 39)
    poll(engine, "load", {"a": 90}, 39)
    poll(engine, "load", {"a": 70}, 50)
    assert refused(engine, 79)
    assert not refused(engine, 80)


def test_what_is_not_known_is_forgotten(own: MakePolicy, poll: Poll) -> None:
    engine = engine_with(own, release=60, onStale="ignore", maxAge="30s")
    poll(engine, "load", {"a": 90}, 0)
    assert refused(engine, 0)
    assert not refused(engine, 30)
    poll(engine, "load", {"a": 70}, 40)
    assert not refused(engine, 40)


def test_a_policy_that_is_changed_elsewhere_keeps_its_windows(own: MakePolicy, poll: Poll) -> None:
    engine = engine_with(own, **{"for": "1m"})
    poll(engine, "load", {"a": 90}, 0)
    engine.set_policy(own(dontschedule={"rules": [{**LOAD, "for": "1m"}, {**LOAD, "target": 200}]}), 30)
    assert refused(engine, 60)


def test_an_explanation_tells_of_a_window_that_is_not_over(own: MakePolicy, poll: Poll) -> None:
    engine = engine_with(own, **{"for": "1m"})
    poll(engine, "load", {"a": 90}, 10)
    (rule,) = engine.explain("default", "p", "a", 20).rules
    assert (rule.state, rule.value, rule.age_s, rule.waits_since) == ("false", "90", 10, 10)
    assert rule.text == "load GreaterThan 80 for 1m: 90, 10s old"


PARTS = [
    ("GreaterThan", "any", {"0": 10, "1": 90}, True),
    ("GreaterThan", "all", {"0": 10, "1": 90}, False),
    ("GreaterThan", "all", {"0": 85, "1": 90}, True),
    ("GreaterThan", "max", {"0": 10, "1": 90}, True),
    ("GreaterThan", "min", {"0": 10, "1": 90}, False),
    ("LessThan", "any", {"0": 10, "1": 90}, True),
    ("LessThan", "all", {"0": 10, "1": 90}, False),
    ("LessThan", "max", {"0": 10, "1": 90}, False),
    ("Equals", "any", {"0": 80, "1": 90}, True),
    ("Equals", "all", {"0": 80, "1": 90}, False),
    ("Equals", "all", {"0": 80, "1": 80}, True),
    ("NotEquals", "any", {"0": 80, "1": 90}, True),
    ("NotEquals", "any", {"0": 80, "1": 80}, False),
    ("NotEquals", "all", {"0": 80, "1": 90}, False),
    ("NotEquals", "all", {"0": 81, "1": 90}, True),
]


@pytest.mark.parametrize(("operator", "aggregate", "values", "holds"), PARTS)
def test_parts_of_a_node_are_taken_together_as_the_rule_says(
    operator: str, aggregate: str, values: dict[str, int], holds: bool, own: MakePolicy, poll: Poll
) -> None:
    engine = engine_with(own, operator=operator, per="zone", aggregate=aggregate)
    poll(engine, "load", {"a": values}, 0)
    assert refused(engine, 0) == holds


def test_the_part_that_decides_is_named(own: MakePolicy, poll: Poll) -> None:
    engine = engine_with(own, per="card")
    poll(engine, "load", {"a": {"0": 10, "3": 90, "4": 90}}, 0)
    assert engine.verdict("default", "p", 0).reason("a") == (
        "policy default/p, dontschedule: any card load GreaterThan 80: 90 (card 3, 4), measured 1970-01-01T00:00:00Z"
    )


def test_a_node_is_as_old_as_the_oldest_of_its_parts(own: MakePolicy) -> None:
    from bayplan.fleet.telemetry.model import MetricKey, Sample

    engine = engine_with(own, per="card", maxAge="30s")
    engine.update(MetricKey(name="load", part="card"), {"a": {"0": Sample.read(1, 0), "1": Sample.read(1, 20)}}, 20)
    assert not refused(engine, 29)
    assert refused(engine, 30)
