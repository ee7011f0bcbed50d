"""What the makers of Telemetry Aware Scheduling asserted of rules, orders and labels, case by case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import Policy, TelemetrySettings
from bayplan.fleet.telemetry.verdict import Flip

MakePolicy = Callable[..., Policy]
Poll = Callable[..., tuple[Flip, ...]]
AS_THE_ORIGINAL = TelemetrySettings(tas_on_stale="ignore", max_age_s=None)


def rule(metric: str, operator: str, target: int | None = None, labels: list[str] | None = None) -> dict[str, Any]:
    given: dict[str, Any] = {"metricname": metric, "operator": operator}
    if target is not None:
        given["target"] = target
    return given if labels is None else {**given, "labels": labels}


@pytest.mark.parametrize(
    ("value", "operator", "target", "holds"),
    [
        ("100", "LessThan", 1000, True),
        ("100000", "GreaterThan", 1, True),
        ("1", "Equals", 1, True),
        ("10000", "LessThan", 10, False),
        ("1", "GreaterThan", 10000, False),
        ("1", "Equals", 100, False),
        ("1500m", "GreaterThan", 1, True),
        ("1500m", "GreaterThan", 2, False),
        ("9900m", "LessThan", 10, True),
        ("1Ki", "Equals", 1024, True),
        ("0", "Equals", None, True),
        ("-1", "LessThan", None, True),
        ("-70", "GreaterThan", -71, True),
    ],
)
def test_operators(value: str, operator: str, target: int | None, holds: bool, tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    engine.set_policy(tas(dontschedule={"rules": [rule("m", operator, target)]}), 0)
    poll(engine, "m", {"node-1": value}, 0)
    assert ("node-1" in engine.verdict("default", "p", 0).refused) == holds


@pytest.mark.parametrize("operator", ["", "Above", "greaterthan", "NotEquals"])
def test_an_operator_that_does_not_exist_makes_the_policy_unusable_and_not_harmless(
    operator: str, tas: MakePolicy, poll: Poll
) -> None:
    policy = tas(dontschedule={"rules": [rule("m", operator, 1)]}, deschedule={"rules": [rule("m", "Equals", 1)]})
    engine = TelemetryEngine()
    engine.set_policy(policy, 0)
    poll(engine, "m", {"node-1": "100000"}, 0)
    reason = engine.verdict("default", "p", 0).reason("node-1")
    assert reason is not None
    assert reason.startswith("policy default/p, dontschedule: cannot be used: spec.strategies.dontschedule.rules[0]")
    assert policy.deschedule is not None


@pytest.mark.parametrize(
    ("operator", "order"),
    [("LessThan", ("C", "A", "B")), ("GreaterThan", ("B", "A", "C")), ("Equals", ("A", "C", "B"))],
)
def test_ordering(operator: str, order: tuple[str, ...], tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    engine.set_policy(tas(scheduleonmetric={"rules": [rule("m", operator, 90)]}), 0)
    poll(engine, "m", {"A": 100, "B": 200, "C": 10}, 0)
    assert engine.verdict("default", "p", 0).ranked == order


LOGIC: dict[str, Mapping[str, str]] = {
    "none": {},
    "blank": {"logicalOperator": ""},
    "any": {"logicalOperator": "anyOf"},
    "all": {"logicalOperator": "allOf"},
}
VIOLATED = [
    ([("memory", 9)], "none blank any all"),
    ([("memory", 11)], ""),
    ([("mem", 9)], ""),
    ([("memory", 9), ("cpu", 900)], "none blank any"),
    ([("memory", 90), ("cpu", 90)], "none blank any"),
    ([("memory", 9), ("cpu", 90)], "none blank any all"),
    ([("memory", 9), ("cpu-x", 90)], "none blank any"),
    ([("memory", 90), ("cpu", 900)], ""),
    ([], ""),
]


@pytest.mark.parametrize("logic", LOGIC)
@pytest.mark.parametrize(("rules", "violated_with"), VIOLATED)
@pytest.mark.parametrize("strategy", ["dontschedule", "deschedule"])
def test_violated(
    strategy: str, rules: list[tuple[str, int]], violated_with: str, logic: str, tas: MakePolicy, poll: Poll
) -> None:
    given = {"rules": [rule(metric, "GreaterThan", target) for metric, target in rules], **LOGIC[logic]}
    engine = TelemetryEngine(AS_THE_ORIGINAL)
    engine.set_policy(tas(settings=AS_THE_ORIGINAL, **{strategy: given}), 0)
    poll(engine, "memory", {"node-1": 10}, 0)
    poll(engine, "cpu", {"node-1": 200}, 0)
    if strategy == "dontschedule":
        found = engine.verdict("default", "p", 0).reason("node-1") is not None
    else:
        found = "node-1" in next(iter(engine.deschedule(0).values()))
    assert found == (logic in violated_with.split())


@pytest.mark.parametrize("logic", LOGIC)
@pytest.mark.parametrize(("rules", "violated_with"), VIOLATED)
def test_labeling_violated(
    rules: list[tuple[str, int]], violated_with: str, logic: str, tas: MakePolicy, poll: Poll
) -> None:
    """Each rule gives a label of its own, so that the labels tell which rules were satisfied."""
    cache = {"memory": 10, "cpu": 200}
    given = [rule(metric, "GreaterThan", target, [f"{metric}=x"]) for metric, target in rules]
    engine = TelemetryEngine()
    engine.set_policy(tas(labeling={"rules": given, **LOGIC[logic]}), 0)
    poll(engine, "memory", {"node-1": 10}, 0)
    poll(engine, "cpu", {"node-1": 200}, 0)
    satisfied = [metric for metric, target in rules if cache.get(metric, target) > target]
    wanted = {f"telemetry.aware.scheduling.p/{metric}": "x" for metric in satisfied}
    assert engine.wanted_labels(0).get("node-1", {}) == (wanted if logic in violated_with.split() else {})


def test_labeling_without_labels_gives_none(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    engine.set_policy(tas(labeling={"rules": [rule("memory", "GreaterThan", 1, []), rule("cpu", "Equals", 1)]}), 0)
    poll(engine, "memory", {"node-1": 10}, 0)
    assert engine.wanted_labels(0) == {}


ONE = rule("memory", "GreaterThan", 9, ["a=1"])
TWO = rule("cpu", "LessThan", 10, ["b=1", "c=1"])


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ([], [ONE], False),
        ([ONE], [ONE], True),
        ([ONE], [ONE, TWO], False),
        ([ONE], [{**ONE, "metricname": "cpu"}], False),
        ([ONE], [{**ONE, "operator": "LessThan"}], False),
        ([ONE], [{**ONE, "target": 8}], False),
        ([ONE, TWO], [ONE, TWO], True),
        ([ONE, TWO], [TWO, ONE], False),
        ([ONE], [{**ONE, "labels": ["a=2"]}], False),
        ([TWO], [{**TWO, "labels": ["b=1", "c=1"]}], True),
        ([TWO], [{**TWO, "labels": ["c=1", "b=1"]}], False),
        ([TWO], [{**TWO, "labels": ["b=1"]}], False),
        ([{**TWO, "labels": ["b=1"]}], [TWO], False),
    ],
)
def test_equality_of_labeling_strategies(
    first: list[dict[str, Any]], second: list[dict[str, Any]], equal: bool, tas: MakePolicy
) -> None:
    a, b = tas(labeling={"rules": first}), tas(labeling={"rules": second})
    assert (a.labeling == b.labeling) == equal
    assert a.problems == b.problems == ()


def test_deschedule_enforce(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    rules = [rule("memory", "GreaterThan", 1), rule("cpu", "LessThan", 10)]
    engine.set_policy(tas("deschedule-test", deschedule={"rules": rules}), 0)
    poll(engine, "memory", {"node-3": 100}, 0)
    poll(engine, "cpu", {"node-2": 5}, 0)
    plan = engine.labels(0)
    assert plan.changes("node-1", {"deschedule-test": "", "other": "1"}) == {"deschedule-test": None}
    assert plan.changes("node-2", {"deschedule-test": "violating", "other": "1"}) == {}
    assert plan.changes("node-3", {"other": "1"}) == {"deschedule-test": "violating"}
    assert set(next(iter(engine.deschedule(0).values()))) == {"node-2", "node-3"}


def test_deschedule_thresholds_that_are_not_met_leave_no_mark(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    engine.set_policy(tas("deschedule-test", deschedule={"rules": [rule("memory", "GreaterThan", 1000)]}), 0)
    poll(engine, "memory", {"node-1": 1, "node-2": 2, "node-3": 3}, 0)
    plan = engine.labels(0)
    for node in ("node-1", "node-2", "node-3"):
        assert plan.changes(node, {"deschedule-test": "violating"}) == {"deschedule-test": None}
        assert plan.changes(node, {"deschedule-test": "mine"}) == {}


PREFIX = "telemetry.aware.scheduling.labeling-test"
LABELING_CASES: dict[str, tuple[list[dict[str, Any]], dict[str, str]]] = {
    "one rule": (
        [rule("memory", "GreaterThan", 99, ["gpu-card1=false"])],
        {"gpu-card1": "false"},
    ),
    "not satisfied": ([rule("memory", "GreaterThan", 3000, ["gpu-card1=false"])], {}),
    "two keys": (
        [rule("memory", "GreaterThan", 99, ["card0=a"]), rule("cpu", "GreaterThan", 99, ["card1=b"])],
        {"card0": "a", "card1": "b"},
    ),
    "greatest": (
        [rule("memory", "GreaterThan", 99, ["gpu=card0"]), rule("cpu", "GreaterThan", 99, ["gpu=card1"])],
        {"gpu": "card0"},
    ),
    "greatest, later": (
        [rule("cpu", "GreaterThan", 99, ["gpu=card1"]), rule("memory", "GreaterThan", 99, ["gpu=card0"])],
        {"gpu": "card0"},
    ),
    "least": (
        [rule("memory", "LessThan", 9999, ["gpu=card0"]), rule("cpu", "LessThan", 9999, ["gpu=card1"])],
        {"gpu": "card1"},
    ),
    "equal, first": (
        [rule("memory", "Equals", 2000, ["gpu=card0"]), rule("cpu", "Equals", 200, ["gpu=card1"])],
        {"gpu": "card0"},
    ),
    "tie, first": (
        [rule("cpu", "GreaterThan", 9, ["gpu=card1"]), rule("cpu", "GreaterThan", 8, ["gpu=card0"])],
        {"gpu": "card1"},
    ),
    "two operators": (
        [rule("memory", "GreaterThan", 99, ["gpu=card0"]), rule("cpu", "LessThan", 9999, ["gpu=card1", "other=1"])],
        {},
    ),
    "less and equal": (
        [rule("memory", "LessThan", 9999, ["gpu=card0"]), rule("cpu", "Equals", 200, ["gpu=card1"])],
        {},
    ),
    "greater and equal": (
        [rule("memory", "GreaterThan", 99, ["gpu=card0"]), rule("cpu", "Equals", 200, ["gpu=card1"])],
        {},
    ),
    "the winner of a key gives that key alone": (
        [rule("cpu", "GreaterThan", 9, ["x=1", "y=1"]), rule("memory", "GreaterThan", 9, ["x=2"])],
        {"x": "2", "y": "1"},
    ),
    "an empty value": ([rule("memory", "GreaterThan", 9, ["x="])], {"x": ""}),
}


@pytest.mark.parametrize("case", LABELING_CASES)
def test_labeling_enforce(case: str, tas: MakePolicy, poll: Poll) -> None:
    rules, labels = LABELING_CASES[case]
    engine = TelemetryEngine()
    engine.set_policy(tas("labeling-test", labeling={"rules": rules}), 0)
    poll(engine, "memory", {"node-1": 2000}, 0)
    poll(engine, "cpu", {"node-1": 200}, 0)
    wanted = {f"{PREFIX}/{key}": value for key, value in labels.items()}
    assert engine.wanted_labels(0).get("node-1", {}) == wanted
    assert engine.labels(0).changes("node-1", {PREFIX: "", "mine": "1"}) == {**wanted, PREFIX: None}
    engine.remove_policy("default", "labeling-test", 1)
    assert engine.labels(1).changes("node-1", wanted) == dict.fromkeys(wanted)


def test_operators_that_differ_are_told_as_a_conflict(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    engine.set_policy(tas(labeling={"rules": LABELING_CASES["two operators"][0]}), 0)
    poll(engine, "memory", {"node-1": 2000, "node-2": 1}, 0)
    poll(engine, "cpu", {"node-1": 200, "node-2": 200}, 0)
    assert engine.labels(0).conflicts == {
        ("default", "p"): {
            "node-1": "label gpu is given by rules that cannot be compared: memory GreaterThan 99, cpu LessThan 9999"
        }
    }
    assert set(engine.wanted_labels(0)) == {"node-2"}


def test_a_changed_value_is_one_change_of_the_label(tas: MakePolicy, poll: Poll) -> None:
    rules = [rule("m", "GreaterThan", 10, ["heat=high"]), rule("n", "GreaterThan", 10, ["heat=low"])]
    engine = TelemetryEngine()
    engine.set_policy(tas(labeling={"rules": rules}), 0)
    poll(engine, "m", {"node-1": 20}, 0)
    poll(engine, "n", {"node-1": 30}, 0)
    assert engine.labels(0).changes("node-1", {"telemetry.aware.scheduling.p/heat": "high"}) == {
        "telemetry.aware.scheduling.p/heat": "low"
    }


def test_prioritize_and_filter_of_the_http_tests(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    engine.set_policy(
        tas(
            scheduleonmetric={"rules": [rule("m", "GreaterThan", 0)]},
            dontschedule={"rules": [rule("n", "GreaterThan", 40)]},
        ),
        0,
    )
    poll(engine, "m", {"A": 100, "B": 90}, 0)
    poll(engine, "n", {"A": 10, "B": 30}, 0)
    verdict = engine.verdict("default", "p", 0)
    assert (verdict.score("A"), verdict.score("B")) == (10, 9)
    assert verdict.refused == {}
    poll(engine, "n", {"A": 50, "B": 30}, 1)
    assert set(engine.verdict("default", "p", 1).refused) == {"A"}


def test_the_documented_examples(tas: MakePolicy, poll: Poll) -> None:
    """The end-to-end tests: three workers, and a policy for each strategy."""
    engine = TelemetryEngine()
    workers = ["worker", "worker2", "worker3"]
    engine.set_policy(tas("f1", dontschedule={"rules": [rule("filter1", "LessThan", 20)]}), 0)
    engine.set_policy(tas("f2", dontschedule={"rules": [rule("filter2", "Equals")]}), 0)
    engine.set_policy(tas("p1", scheduleonmetric={"rules": [rule("prioritize1", "GreaterThan", 0)]}), 0)
    engine.set_policy(tas("d1", deschedule={"rules": [rule("deschedule1", "GreaterThan", 8)]}), 0)
    engine.set_policy(tas("l1", labeling={"rules": [rule("labeling2", "GreaterThan", -11, ["foo=1"])]}), 0)
    for metric, values in {
        "filter1": (10, 20, 10),
        "filter2": (0, 0, 0),
        "prioritize1": (1000, 9999, 0),
        "labeling2": (-10, 71, 10),
    }.items():
        poll(engine, metric, dict(zip(workers, values, strict=True)), 0)
    poll(engine, "deschedule1", {"worker2": 9}, 0)
    passing = {
        name: [w for w in workers if engine.verdict("default", name, 0).reason(w) is None] for name in ("f1", "f2")
    }
    assert passing == {"f1": ["worker2"], "f2": []}
    assert engine.verdict("default", "p1", 0).ranked[0] == "worker2"
    assert engine.deschedule(0) == {("default", "d1"): {"worker2": "deschedule1 GreaterThan 8: 9, measured 1970-01-01T00:00:00Z"}}
    assert engine.wanted_labels(0)["worker2"] == {"d1": "violating", "telemetry.aware.scheduling.l1/foo": "1"}
    assert len(engine.wanted_labels(0)) == 3


def test_a_policy_that_is_set_again_unchanged_flips_nothing(tas: MakePolicy, poll: Poll) -> None:
    engine = TelemetryEngine()
    policy = tas(dontschedule={"rules": [rule("m", "GreaterThan", 40)]})
    engine.set_policy(policy, 0)
    poll(engine, "m", {"A": 50, "B": 30}, 0)
    assert engine.set_policy(msgspec.structs.replace(policy, generation=2), 1) == ()
    assert set(engine.verdict("default", "p", 1).refused) == {"A"}
