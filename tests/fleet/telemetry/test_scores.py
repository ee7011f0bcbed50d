"""Scores from 0 to 10, by value or by rank, of one metric or several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import Policy
from bayplan.fleet.telemetry.scoring import ten_minus_rank
from bayplan.fleet.telemetry.verdict import Flip, Verdict

MakePolicy = Callable[..., Policy]
Poll = Callable[..., tuple[Flip, ...]]
FREE = {"metricname": "free", "operator": "GreaterThan"}


@pytest.fixture
def scored(own: MakePolicy, poll: Poll) -> Callable[..., Verdict]:
    def score(values: dict[str, Any], **fields: Any) -> Verdict:
        engine = TelemetryEngine()
        engine.set_policy(own(scheduleonmetric={"rules": [{**FREE, **fields}]}), 0)
        poll(engine, "free", values, 0)
        return engine.verdict("default", "p", 0)

    return score


VALUES = {"a": 0, "b": 10, "c": 50, "d": 100}
SCORES: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [0, 1, 5, 10]),
    ({"operator": "LessThan"}, [10, 9, 5, 0]),
    ({"operator": "Equals", "target": 50}, [0, 2, 10, 0]),
    ({"operator": "NotEquals", "target": 50}, [10, 8, 0, 10]),
    ({"score": "rank"}, [0, 3, 7, 10]),
    ({"best": 50}, [0, 2, 10, 10]),
    ({"worst": 50}, [0, 0, 0, 10]),
    ({"best": "200", "worst": "-200"}, [5, 5, 6, 8]),
    ({"operator": "LessThan", "best": 10, "worst": 50}, [10, 10, 0, 0]),
    ({"best": -5}, [10, 10, 10, 10]),
    ({"best": 1000, "worst": 500}, [0, 0, 0, 0]),
]


@pytest.mark.parametrize(("fields", "wanted"), SCORES)
def test_scores_are_spread_over_the_whole_range(
    fields: dict[str, Any], wanted: list[int], scored: Callable[..., Verdict]
) -> None:
    verdict = scored(VALUES, **fields)
    assert [verdict.score(node) for node in "abcd"] == wanted
    assert verdict.score("without a value") == 0
    assert verdict.has_scores


def test_equal_values_have_equal_scores_and_go_by_name(scored: Callable[..., Verdict]) -> None:
    for spread in ("value", "rank"):
        verdict = scored({"c": 5, "a": 5, "b": 7, "d": 1}, score=spread)
        assert verdict.ranked == ("b", "a", "c", "d")
        assert verdict.score("a") == verdict.score("c")
    assert {scored({"a": 5, "b": 5}).score(node) for node in "ab"} == {10}


def test_several_metrics_are_weighed(own: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    rules = [{**FREE, "weight": 3}, {"metricname": "temp", "operator": "LessThan", "weight": 1}]
    engine.set_policy(own(scheduleonmetric={"rules": rules}), 0)
    poll(engine, "free", {"a": 100, "b": 0, "c": 60}, 0)
    poll(engine, "temp", {"a": 90, "b": 50}, 0)
    verdict = engine.verdict("default", "p", 0)
    assert [verdict.score(node) for node in "abc"] == [8, 3, 5]  # c has no temperature: its worst
    assert verdict.ranked == ("a", "c", "b")


def test_the_worst_part_of_a_node_speaks_for_it(scored: Callable[..., Verdict]) -> None:
    values = {"a": {"0": 1, "1": 9}, "b": {"0": 4, "1": 5}}
    assert scored(values, per="zone").ranked == ("b", "a")
    assert scored(values, per="zone", aggregate="max").ranked == ("a", "b")


def test_a_tas_policy_gives_ten_and_one_less_for_each_next_while_that_is_not_below_zero(
    tas: MakePolicy, poll: Poll
) -> None:
    engine = TelemetryEngine()
    engine.set_policy(tas(scheduleonmetric={"rules": [FREE]}), 0)
    poll(engine, "free", {f"n{i:02}": i for i in range(11)}, 0)
    verdict = engine.verdict("default", "p", 0)
    assert [verdict.score(name) for name in verdict.ranked] == list(range(10, -1, -1))
    poll(engine, "free", {f"n{i:04}": i for i in range(5000)}, 1)
    verdict = engine.verdict("default", "p", 1)
    given = [verdict.score(name) for name in verdict.ranked]
    assert given == sorted(given, reverse=True)
    assert set(given) == set(range(11))
    assert verdict.score("without a value") == 0


def test_original_scores_are_ten_minus_the_rank_among_those_that_were_asked_about() -> None:
    assert list(ten_minus_rank(("c", "a", "b", "d"), ["d", "b", "c", "unmeasured"])) == [("c", 10), ("b", 9), ("d", 8)]


def test_a_policy_without_rules_orders_nothing(tas: MakePolicy) -> None:
    engine = TelemetryEngine()
    engine.set_policy(tas(scheduleonmetric={"rules": []}), 0)
    assert not engine.verdict("default", "p", 0).has_scores
