"""Zones among the checks of an extender: told by events, asked with the pod's JSON, replayed from a recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bayplan.fleet.scheduling import Question, Scheduling
from bayplan.fleet.scheduling.events import (
    Assumed,
    Event,
    NodeChanged,
    NodeGone,
    ObjectChanged,
    ObjectGone,
    PodChanged,
    PodGone,
    Unassumed,
)
from bayplan.fleet.scheduling.recording import filtered, happened, replay
from bayplan.fleet.scheduling.zones_check import LAYOUTS, ZonesCheck
from bayplan.protocols.extender import Victims
from bayplan.protocols.kubernetes import PodObject, read_node

Make = Callable[..., Any]


def question(pod: PodObject, *names: str) -> Question:
    return Question(pod=pod, pod_json=msgspec.Raw(msgspec.json.encode(pod)), names=names)


def test_events_become_answers(make_checks: Make, make_layout: Make, make_pod: Make, now: float) -> None:
    check = ZonesCheck(make_checks())
    scheduling = Scheduling([(check, 1)])
    four = question(make_pod("four", 4, 4), "n", "other")
    assert not check.concerns(four), "while no node tells anything"
    scheduling.apply(ObjectChanged(object=msgspec.json.decode(make_layout())), now)
    assert check.concerns(four)
    assert scheduling.filter(four, now).failed == {}
    for name in ("a", "b"):
        running = make_pod(name, 4, 1, node="n", phase="Pending")
        assert scheduling.wants(running)
        scheduling.apply(PodChanged(pod=running), now)
    assert scheduling.filter(four, now).failed == {}, "both in the first zone"
    scheduling.apply(Assumed(pod=make_pod("c", 4, 3), node="n"), now)
    assert list(scheduling.filter(four, now).failed) == ["n"]
    assert scheduling.preempt(four, {"n": Victims(uids=("uid-a",))}, now) == {}
    scheduling.apply(Unassumed(uid="uid-c"), now)
    assert scheduling.filter(four, now).failed == {}
    for name in ("a", "b"):
        scheduling.apply(PodGone(uid=f"uid-{name}"), now)
    scheduling.apply(Assumed(pod=make_pod("d", 4, 4), node="n"), now)
    assert scheduling.filter(four, now).failed == {}
    assert len(scheduling.prioritize(four, now)) == 2
    scheduling.apply(ObjectGone(kind=LAYOUTS, namespace="", name="n"), now)
    assert not check.concerns(four)


def test_pods_that_hold_nothing_by_themselves_are_neither_kept_nor_scored(
    make_checks: Make, make_layout: Make, make_pod: Make, now: float
) -> None:
    check = ZonesCheck(make_checks())
    check.apply(ObjectChanged(object=msgspec.json.decode(make_layout())), now)
    plain = PodObject()
    assert not check.wants(plain)
    assert not check.wants(make_pod("waiting", 4))
    assert check.wants(make_pod("ended", 4, node="n", phase="Succeeded")), "so that it is known to hold nothing"
    burstable = msgspec.convert(
        {"metadata": {"name": "b"}, "spec": {"nodeName": "n", "containers": [{"name": "c"}]}}, PodObject
    )
    assert not check.wants(burstable)
    assert check.scores(question(burstable, "n"), now) is None


def test_a_pod_that_cannot_be_read_is_refused_in_words(make_checks: Make, make_layout: Make, now: float) -> None:
    check = ZonesCheck(make_checks())
    check.apply(ObjectChanged(object=msgspec.json.decode(make_layout())), now)
    odd = question(PodObject(), "n")
    assert "metadata.name" in check.objections(odd, now).unresolvable["n"]
    assert check.scores(odd, now) is None
    assert check.without(odd, "n", [], now)
    assert check.explain(odd, "n", now)[0].startswith("the pod cannot be read")


def test_documents_that_are_of_no_kind_that_is_known_change_nothing(make_checks: Make, now: float) -> None:
    check = ZonesCheck(make_checks())
    for value in ({}, {"kind": 7}, {"kind": "NodeLayout", "apiVersion": "bayplan.dev/v1alpha1", "metadata": []}):
        check.apply(ObjectChanged(object=value), now)
    assert not check.zones.anything_told


def test_an_explanation_says_who_told_how_long_ago_and_what_is_in_the_way(
    make_checks: Make, make_layout: Make, make_pod: Make, now: float
) -> None:
    check = ZonesCheck(make_checks())
    pods = [make_pod("a", 4, 4, node="n"), make_pod("b", 4, 2, node="n")]
    check.apply(ObjectChanged(object=msgspec.json.decode(make_layout(pods=pods, generation=7))), now)
    lines = check.explain(question(make_pod("four", 4, 4), "n"), "n", now + 5)
    assert lines[0] == "told by NodeLayout, generation 7, 5 s old"
    assert "4 nvidia.com/gpu asked, most free in one zone: 2" in lines[1]
    assert "2 in node 1, 0 in node 0" in lines[1]
    assert "blocked by ml/b" in lines[1], "the one that holds less"
    assert check.explain(question(make_pod("p", 1), "x"), "x", now) == ["not asked: the node does not tell its zones"]
    assert check.explain(question(make_pod("p", 1), "n"), "n", now)[-1].startswith("admitted, score ")


def test_a_recording_answers_the_same_again(make_checks: Make, make_layout: Make, make_pod: Make, now: float) -> None:
    events: list[Event] = [
        NodeChanged(node=read_node(b'{"metadata":{"name":"n"}}')),
        ObjectChanged(object=msgspec.json.decode(make_layout())),
        PodChanged(pod=make_pod("a", 4, 1, node="n", phase="Pending")),
        Assumed(pod=make_pod("b", 4, 4), node="n"),
        NodeGone(name="gone"),
    ]
    asked = question(make_pod("four", 4, 4), "n")
    first = Scheduling([(ZonesCheck(make_checks()), 1)])
    lines = []
    for event in events:
        first.apply(event, now)
        lines.append(happened(event, now))
    decision = first.filter(asked, now)
    assert decision.failed
    lines.append(filtered(asked, decision, now))
    again = Scheduling([(ZonesCheck(make_checks()), 1)])
    (replayed,) = list(replay(again, lines))
    assert replayed.refused == 1
    assert replayed.differences == []
