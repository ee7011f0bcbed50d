"""Labels of nodes: what Telemetry Aware Scheduling's makers asserted of Enforce and Cleanup, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.fleet.telemetry.labeling import LabelPlan, PolicyLabels
from bayplan.fleet.telemetry.model import PolicyKey
from bayplan.fleet.upkeep.nodes import MARKS, NodeFacts, wanted_of

PREFIX = "telemetry.aware.scheduling."
MakeCluster = Callable[..., Any]


def rule(metric: str, operator: str, target: int = 0, labels: list[str] | None = None) -> dict[str, Any]:
    return {"metricname": metric, "operator": operator, "target": target} | ({"labels": labels} if labels else {})


def deschedule(*rules: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"deschedule": {"rules": list(rules), **more}}


HEAVY = deschedule(rule("memory", "GreaterThan", 1), rule("cpu", "LessThan", 10))


def three_nodes(cluster: Any) -> None:
    cluster.node("node-1", {"heavy": "", "other": "label"})
    cluster.node("node-2", {"heavy": "violating", "other": "label"})
    cluster.node("node-3", {"other": "label"})


def test_deschedule_marks_those_that_violate_and_unmarks_the_others(cluster: Any) -> None:
    cluster.policy("heavy", **HEAVY)
    three_nodes(cluster)
    cluster.measure("memory", {"node-3": 100})
    cluster.measure("cpu", {"node-2": 5})
    patches = cluster.carry_out()
    assert cluster.labels("node-1") == {"other": "label"}
    assert cluster.labels("node-2") == {"heavy": "violating", "other": "label"}
    assert cluster.labels("node-3") == {"heavy": "violating", "other": "label"}
    assert len(patches) == len({patch.node for patch in patches})
    assert cluster.carry_out() == []


def test_deschedule_unmarks_all_where_nothing_is_violated(cluster: Any) -> None:
    cluster.policy("heavy", **HEAVY)
    three_nodes(cluster)
    cluster.measure("memory", dict.fromkeys(("node-1", "node-2", "node-3"), 0))
    cluster.measure("cpu", dict.fromkeys(("node-1", "node-2", "node-3"), 100))
    cluster.carry_out()
    assert [cluster.labels(name) for name in cluster.nodes] == [{"other": "label"}] * 3
    assert not any(cluster.annotations(name) for name in cluster.nodes)


def test_marks_go_with_their_policy_and_values_that_are_not_ours_stay(cluster: Any) -> None:
    cluster.policy("heavy", **HEAVY)
    cluster.node("marked")
    cluster.measure("memory", {"marked": 100})
    cluster.measure("cpu", {"marked": 100})
    cluster.carry_out()
    cluster.remove_policy("heavy")
    for name, value in (("empty", ""), ("null", "null")):
        cluster.node(name, {"heavy": value})
    cluster.carry_out()
    assert cluster.labels("marked") == {}
    assert cluster.annotations("marked") == {}
    assert cluster.labels("empty") == {"heavy": ""}
    assert cluster.labels("null") == {"heavy": "null"}


def test_a_node_is_marked_again_after_its_policy_came_back(cluster: Any) -> None:
    cluster.node("a")
    for _ in range(2):
        cluster.policy("heavy", **HEAVY)
        cluster.measure("memory", {"a": 100})
        cluster.carry_out()
        assert cluster.labels("a") == {"heavy": "violating"}
        cluster.remove_policy("heavy")
        cluster.carry_out()
        assert cluster.labels("a") == {}


def test_marks_of_a_policy_deleted_while_no_controller_ran_are_taken_away(cluster: Any) -> None:
    cluster.policy("heavy", **HEAVY)
    cluster.node("a")
    cluster.node("users-own", {"heavy": "violating"})
    cluster.measure("memory", {"a": 100})
    cluster.measure("cpu", {"a": 100})
    cluster.carry_out()
    del cluster.policies["TASPolicy", "default", "heavy"]
    cluster.nodes["users-own"]["metadata"]["labels"]["heavy"] = "violating"
    cluster.restart()
    cluster.carry_out()
    assert cluster.labels("a") == {}
    assert cluster.labels("users-own") == {"heavy": "violating"}


def test_marks_that_the_original_left_are_taken_over_and_go_with_their_policy(cluster: Any) -> None:
    cluster.policy("heavy", **HEAVY)
    cluster.node("a", {"heavy": "violating"})
    cluster.measure("memory", {"a": 100})
    cluster.carry_out()
    assert cluster.annotations("a") == {MARKS: "heavy"}
    del cluster.policies["TASPolicy", "default", "heavy"]
    cluster.restart()
    cluster.carry_out()
    assert cluster.labels("a") == {}


def test_a_strategy_dropped_from_a_policy_takes_its_mark_along(cluster: Any) -> None:
    cluster.policy("heavy", **HEAVY)
    cluster.node("a")
    cluster.measure("memory", {"a": 100})
    cluster.carry_out()
    cluster.policy("heavy", dontschedule={"rules": [rule("memory", "GreaterThan", 1)]})
    cluster.carry_out()
    assert cluster.labels("a") == {}


def test_a_users_label_in_the_place_of_a_mark_is_left_alone_and_told_of(cluster: Any) -> None:
    cluster.policy("heavy", **HEAVY)
    cluster.node("a", {"heavy": "yes"})
    cluster.measure("memory", {"a": 100})
    assert cluster.carry_out() == []
    assert cluster.labels("a") == {"heavy": "yes"}
    (told,) = [each for each in cluster.told() if each.reason == "LabelTaken"]
    assert told.name == "heavy"
    assert "node a violates this policy, but has a label heavy=yes" in told.note
    assert cluster.told() == []
    cluster.measure("memory", {"a": 0})
    cluster.carry_out()
    assert cluster.labels("a") == {"heavy": "yes"}


def test_two_policies_of_one_name_share_the_mark_until_both_are_gone(cluster: Any) -> None:
    cluster.policy("heavy", namespace="x", **HEAVY)
    cluster.policy("heavy", namespace="y", **HEAVY)
    cluster.node("a")
    cluster.measure("memory", {"a": 100})
    cluster.carry_out()
    cluster.remove_policy("heavy", namespace="x")
    assert cluster.carry_out() == []
    cluster.remove_policy("heavy", namespace="y")
    cluster.carry_out()
    assert cluster.labels("a") == {}


def test_nothing_is_taken_away_before_anything_was_measured(cluster: Any) -> None:
    cluster.policy("heavy", **HEAVY)
    cluster.policy("cards", labeling={"rules": [rule("memory", "GreaterThan", 1, ["card=1"])]})
    cluster.node("a")
    cluster.measure("memory", {"a": 100})
    cluster.measure("cpu", {"a": 100})
    cluster.carry_out()
    there = {"heavy": "violating", f"{PREFIX}cards/card": "1"}
    assert cluster.labels("a") == there
    cluster.restart()
    assert cluster.carry_out() == []
    assert cluster.labels("a") == there


LABELED = [
    ("one rule", [rule("memory", "GreaterThan", 99, ["gpu-card1=false"])], {"gpu-card1": "false"}),
    ("not satisfied", [rule("memory", "GreaterThan", 3000, ["gpu-card1=false"])], {}),
    (
        "two rules, two keys",
        [rule("memory", "GreaterThan", 99, ["a=1"]), rule("cpu", "GreaterThan", 99, ["b=2"])],
        {"a": "1", "b": "2"},
    ),
    (
        "same key, the greater value wins",
        [rule("memory", "GreaterThan", 99, ["gpu-device=card0"]), rule("cpu", "GreaterThan", 99, ["gpu-device=card1"])],
        {"gpu-device": "card0"},
    ),
    (
        "same key, the lesser value wins",
        [rule("memory", "LessThan", 9999, ["gpu-device=card0"]), rule("cpu", "LessThan", 9999, ["gpu-device=card1"])],
        {"gpu-device": "card1"},
    ),
    (
        "same key, Equals: the first wins",
        [rule("memory", "Equals", 2000, ["gpu-device=card0"]), rule("cpu", "Equals", 200, ["gpu-device=card1"])],
        {"gpu-device": "card0"},
    ),
    (
        "unsupported: operators differ",
        [rule("memory", "GreaterThan", 99, ["gpu-device=card0"]), rule("cpu", "LessThan", 999, ["gpu-device=card1"])],
        {},
    ),
    (
        "unsupported: GreaterThan and Equals",
        [rule("memory", "GreaterThan", 99, ["gpu-device=card0"]), rule("cpu", "Equals", 200, ["gpu-device=card1"])],
        {},
    ),
]


@pytest.mark.parametrize(("rules", "labels"), [case[1:] for case in LABELED], ids=[case[0] for case in LABELED])
def test_labeling(rules: list[dict[str, Any]], labels: Mapping[str, str], cluster: Any) -> None:
    cluster.policy("labeling-test", labeling={"rules": rules})
    cluster.node("a", {f"{PREFIX}labeling-test": "", "other": "label"})
    cluster.measure("memory", {"a": 2000})
    cluster.measure("cpu", {"a": 200})
    cluster.carry_out()
    wanted = {f"{PREFIX}labeling-test/{key}": value for key, value in labels.items()}
    assert cluster.labels("a") == {"other": "label", **wanted}
    assert cluster.carry_out() == []
    cluster.remove_policy("labeling-test")
    cluster.carry_out()
    assert cluster.labels("a") == {"other": "label"}


def test_a_changed_value_replaces_the_label_in_one_patch_and_it_never_vanishes(cluster: Any) -> None:
    cluster.policy(
        "p",
        labeling={
            "rules": [
                rule("m", "GreaterThan", 0, ["level=low"]),
                rule("high", "GreaterThan", 0, ["level=high"]),
            ]
        },
    )
    cluster.node("a")
    cluster.measure("m", {"a": 1})
    cluster.measure("high", {"a": 0})
    cluster.carry_out()
    cluster.measure("high", {"a": 9})
    (patch,) = cluster.carry_out()
    assert patch.labels == {f"{PREFIX}p/level": "high"}


def test_labels_of_labeling_left_behind_go_even_where_no_such_policy_is_left(cluster: Any) -> None:
    cluster.node("a", {f"{PREFIX}gone/key": "1", "other": "label"})
    cluster.carry_out()
    assert cluster.labels("a") == {"other": "label"}


def test_what_could_not_be_written_comes_again_and_nodes_at_rest_are_not_looked_at(cluster: Any) -> None:
    cluster.policy("heavy", **HEAVY)
    for name in ("a", "b"):
        cluster.node(name)
    cluster.measure("memory", {"a": 100, "b": 100})
    patches = cluster.upkeep.node_patches(cluster.now)
    assert [patch.node for patch in patches] == ["a", "b"]
    assert cluster.upkeep.node_patches(cluster.now) == []
    cluster.remove_node("b")
    cluster.upkeep.nodes.again(["a", "b"])
    assert [patch.node for patch in cluster.carry_out()] == ["a"]


KEYS = ("p", "q", "gone", "users", f"{PREFIX}p/x", f"{PREFIX}old/y")
labels_there = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["violating", "", "1", "2"]))
remembered = st.one_of(st.none(), st.lists(st.sampled_from(["p", "q", "gone", "", "x=y"])).map(",".join))


@st.composite
def plans(draw: st.DrawFn) -> LabelPlan:
    """Marks of any of two policies, wanted, kept or neither, and a label of labeling."""
    marks = draw(st.frozensets(st.sampled_from(["p", "q"])))
    marking = []
    for key in sorted(marks):
        state = draw(st.sampled_from(["wanted", "kept", "neither"]))
        marking.append(
            PolicyLabels(
                policy=PolicyKey("default", key),
                wanted={"n": {key: "violating"}} if state == "wanted" else {},
                kept={"n": frozenset({key})} if state == "kept" else {},
                judged=frozenset({"n"}),
            )
        )
    value = draw(st.sampled_from(["", "1", "2"]))
    wanted = {"n": {f"{PREFIX}p/x": value}} if value else {}
    labeling = PolicyLabels(policy=PolicyKey("default", "p"), wanted=wanted, judged=frozenset({"n"}))
    return LabelPlan(labeling=(labeling,), marking=tuple(marking), marks=marks)


@given(plan=plans(), labels=labels_there, marks=remembered)
def test_one_patch_makes_a_node_right_and_leaves_what_is_not_ours(
    plan: LabelPlan, labels: dict[str, str], marks: str | None
) -> None:
    node = NodeFacts(name="n", uid="u", labels=labels, marks=marks, is_open=True)
    patch = wanted_of(plan, node).patch
    after = dict(labels)
    for key, value in (patch.labels if patch else {}).items():
        if value is None:
            del after[key]
        else:
            after[key] = value
    new_marks = patch.annotations.get(MARKS, marks) if patch else marks
    wanted = plan.for_node("n")
    for key, value in wanted.wanted.items():
        taken = key in plan.marks and labels.get(key) not in (None, "", "violating")
        assert after[key] == (labels[key] if taken else value)
    for key, value in after.items():
        if key.startswith(PREFIX):
            assert wanted.wanted.get(key) == value
        if key in plan.marks and value == "violating":
            assert key in wanted.wanted or key in wanted.kept
    known = set((marks or "").split(","))
    for key, value in labels.items():
        ours = key.startswith(PREFIX) or (key in plan.marks and value in ("", "violating"))
        ours = ours or (key in known and value == "violating")
        assert ours or after.get(key) == value
    settled = NodeFacts(name="n", uid="u", labels=after, marks=new_marks, is_open=True)
    assert wanted_of(plan, settled).patch is None
    # Whoever comes after all policies are gone takes away all that is ours and nothing else.
    nothing = LabelPlan()
    last = wanted_of(nothing, settled).patch
    gone = {key for key, value in (last.labels if last else {}).items() if value is None}
    assert gone == {
        key
        for key in after
        if key.startswith(PREFIX) or (key in set((new_marks or "").split(",")) and after[key] == "violating")
    }
