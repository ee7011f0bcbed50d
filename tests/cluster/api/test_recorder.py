"""Events: each thing is said once and counted, in words people can read, never too often, and never at a cost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from bayplan.cluster.api import Api, EventRecorder, ObjectRef

pytestmark = pytest.mark.anyio

POD = ObjectRef(namespace="ns", name="p", uid="u1")
EVENTS_OF_NS = "/apis/events.k8s.io/v1/namespaces/ns/events"
SAID = {"reason": "Refused", "action": "Filter"}


class Clock:
    def __init__(self) -> None:
        self.now = 1_767_225_845.5

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder_of(emulated: Api, clock: Clock) -> Callable[..., EventRecorder]:
    def make(**more: Any) -> EventRecorder:
        rng = random.Random(1)
        return EventRecorder(
            emulated, controller="bayplan.dev/extender", instance="extender-0", rng=rng, now=clock, **more
        )

    return make


@pytest.fixture
def sent(emulator: Any) -> Callable[[], list[Any]]:
    emulator.resources["events.k8s.io/v1/events"] = {}
    return lambda: [(request.method.value, request.data) for request in emulator]


async def test_an_event(recorder_of: Any, sent: Any) -> None:
    recorder = recorder_of()
    recorder.tell("Pod", POD, note="load 95.5 > 80, 3 s old", is_warning=True, **SAID)
    await recorder.flush()
    ((verb, event),) = sent()
    assert verb == "POST"
    assert event.pop("metadata")["name"].startswith("p.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-01-01T00:04:05.500000Z",
        "reportingController": "bayplan.dev/extender",
        "reportingInstance": "extender-0",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "p", "uid": "u1"},
        "reason": "Refused",
        "action": "Filter",
        "note": "load 95.5 > 80, 3 s old",
        "type": "Warning",
    }


async def test_again_is_counted(recorder_of: Any, sent: Any, clock: Clock) -> None:
    recorder = recorder_of(window_s=60)
    for _ in range(4):
        recorder.tell("Pod", POD, note="x", **SAID)
        clock.now += 10
    await recorder.flush()
    await recorder.flush()
    (_, made), (verb, series) = sent()
    assert made["note"] == "x"
    assert (verb, series) == ("PATCH", {"series": {"count": 4, "lastObservedTime": "2026-01-01T00:04:35.500000Z"}})
    assert (recorder.counters.sent, recorder.counters.repeated) == (1, 3)
    clock.now += 60
    recorder.tell("Pod", POD, note="y", **SAID)
    await recorder.flush()
    assert [(verb, event.get("note")) for verb, event in sent()[2:]] == [("POST", "y")]


async def test_what_differs_is_told(recorder_of: Any, sent: Any) -> None:
    recorder = recorder_of()
    recorder.tell("Pod", POD, note="x", **SAID)
    recorder.tell("Pod", ObjectRef(namespace="ns", name="p", uid="u2"), note="x", **SAID)
    recorder.tell("Pod", POD, note="x", reason="Placed", action="Bind")
    recorder.tell("Node", ObjectRef(name="n"), note="x", **SAID)
    await recorder.flush()
    assert [event["metadata"]["namespace"] for _, event in sent()] == ["ns", "ns", "ns", "default"]


async def test_a_flood_is_cut(recorder_of: Any, sent: Any, clock: Clock) -> None:
    recorder = recorder_of(qps=1, burst=3)
    for number in range(10):
        recorder.tell("Pod", ObjectRef(namespace="ns", name=f"p{number}"), note="x", **SAID)
    clock.now += 1
    recorder.tell("Pod", ObjectRef(namespace="ns", name="later"), note="x", **SAID)
    await recorder.flush()
    assert len(sent()) == 4
    assert (recorder.counters.sent, recorder.counters.dropped) == (4, 7)


async def test_long_notes_are_cut_between_characters(recorder_of: Any, sent: Any) -> None:
    recorder = recorder_of()
    recorder.tell("Pod", POD, note="x" + "é" * 1000, **SAID)
    await recorder.flush()
    assert sent()[0][1]["note"] == "x" + "é" * 511


async def test_a_refusal_harms_nobody(recorder_of: Any, answer: Any, emulator: Any) -> None:
    answer(f"post {EVENTS_OF_NS}", (403, {"message": "namespace is being terminated"}))
    recorder = recorder_of()
    recorder.tell("Pod", POD, note="x", **SAID)
    await recorder.flush()
    assert (recorder.counters.sent, recorder.counters.failed) == (0, 1)


async def test_it_runs_beside_the_work(recorder_of: Any, sent: Any, running: Any, eventually: Any) -> None:
    recorder = recorder_of(series_s=0.02)
    async with running(recorder.run()):
        recorder.tell("Pod", POD, note="x", **SAID)
        await eventually(lambda: len(sent()) == 1)
        await asyncio.sleep(0)
        recorder.tell("Pod", POD, note="x", **SAID)
        await eventually(lambda: len(sent()) == 2)
    assert sent()[1][1]["series"]["count"] == 2
