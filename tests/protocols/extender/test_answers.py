"""Answers that kube-scheduler takes: every key, the form asked in, and no name that was not asked about."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bayplan.protocols.extender import (
    FilterAnswer,
    bind_answer,
    filter_answer,
    preempt_answer,
    prioritize_answer,
    read_args,
)

POD = {"metadata": {"name": "web"}}
KEYS = ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]


def answered(answer: FilterAnswer, **asked: Any) -> Any:
    args = read_args(json.dumps({"Pod": POD, **asked}).encode())
    return json.loads(b"".join(filter_answer(args, answer)))


def test_names_are_answered_with_names() -> None:
    answer = FilterAnswer(failed={"b": "full"}, unresolvable={"d": "cordoned"})
    found = answered(answer, NodeNames=["d", "c", "b", "a"])
    assert list(found) == KEYS
    assert found == {
        "Nodes": None,
        "NodeNames": ["c", "a"],
        "FailedNodes": {"b": "full"},
        "FailedAndUnresolvableNodes": {"d": "cordoned"},
        "Error": "",
    }


def test_nodes_are_answered_with_nodes() -> None:
    items = [{"metadata": {"name": name, "labels": {"x": name}}, "spec": {}} for name in "dcba"]
    answer = FilterAnswer(failed={"b": "full"}, unresolvable={"d": "cordoned"})
    found = answered(answer, Nodes={"items": items})
    assert list(found) == KEYS
    assert found == {
        "Nodes": {"metadata": {}, "items": [items[1], items[3]]},
        "NodeNames": None,
        "FailedNodes": {"b": "full"},
        "FailedAndUnresolvableNodes": {"d": "cordoned"},
        "Error": "",
    }


@pytest.mark.parametrize("refused", [[], ["a", "b"]])
def test_a_list_of_none_is_a_list(refused: list[str]) -> None:
    answer = FilterAnswer(failed=dict.fromkeys(refused, "no"))
    left = [] if refused else ["a", "b"]
    assert answered(answer, NodeNames=["a", "b"])["NodeNames"] == left
    nodes = {"items": [{"metadata": {"name": name}} for name in ("a", "b")]}
    assert [item["metadata"]["name"] for item in answered(answer, Nodes=nodes)["Nodes"]["items"]] == left


def test_without_nodes_the_answer_has_none() -> None:
    assert answered(FilterAnswer(failed={}), NodeNames=[])["NodeNames"] == []
    assert answered(FilterAnswer(failed={}), Nodes={"items": None})["Nodes"] == {"metadata": {}, "items": []}


def test_reasons_may_hold_any_text() -> None:
    reason = 'policy "p": 95.5 > 80 (3 s)\n<&>\x00 é 🚢'
    assert answered(FilterAnswer(failed={"a": reason}), NodeNames=["a"])["FailedNodes"] == {"a": reason}


def test_scores_are_a_bare_list() -> None:
    assert b"".join(prioritize_answer([("b", 10), ("a", 0)])) == b'[{"Host":"b","Score":10},{"Host":"a","Score":0}]'
    assert b"".join(prioritize_answer([])) == b"[]"


def test_bind_answers_with_an_error_or_none() -> None:
    assert b"".join(bind_answer()) == b'{"Error":""}'
    assert json.loads(b"".join(bind_answer('"no"'))) == {"Error": '"no"'}


def test_victims_are_answered_by_uid() -> None:
    found = json.loads(b"".join(preempt_answer({"a": (["u-1", "u-2"], 1), "b": ([], 0)})))
    assert found == {
        "NodeNameToMetaVictims": {
            "a": {"Pods": [{"UID": "u-1"}, {"UID": "u-2"}], "NumPDBViolations": 1},
            "b": {"Pods": [], "NumPDBViolations": 0},
        }
    }
