"""The fast replay against one that is written out, pods that leave, and policies that decline."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.simulate import naive
from tests.simulate.least_left import GIB, NODES, LeastLeft

from bayplan.fleet.cards.mix import counted
from bayplan.fleet.cards.model import CardNode, CardRequest, Spot
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.simulate import meter
from bayplan.simulate.record import REASONS, Record
from bayplan.simulate.replay import replay
from bayplan.simulate.result import result
from bayplan.simulate.trace import Trace

CPUS = st.sampled_from([0, 500, 2000, 7000, 16_000])
REQUEST = st.one_of(
    st.builds(CardRequest, cpu_milli=CPUS, memory_bytes=st.sampled_from([0, GIB, 40 * GIB])),
    st.builds(
        CardRequest,
        cpu_milli=CPUS,
        memory_bytes=st.sampled_from([0, 9 * GIB]),
        cards=st.just(1),
        milli=st.sampled_from([1, 250, 500, 501, 1000]),
        models=st.sampled_from([(), ("A10",), ("A10", "T4"), ("X",)]),
    ),
    st.builds(
        CardRequest,
        cpu_milli=CPUS,
        memory_bytes=st.just(GIB),
        cards=st.integers(2, 5),
        milli=st.just(1000),
    ),
)
TIMES = st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0, 1, 5, 20, math.inf])), min_size=40, max_size=40)


def trace_of(requests: list[CardRequest], times: list[tuple[int, float]] | None = None) -> Trace:
    trace = Trace(
        nodes=NODES,
        requests=tuple(dict.fromkeys(requests)),
        arrivals=np.array([list(dict.fromkeys(requests)).index(request) for request in requests], np.int64),
        names=[f"p{i}" for i in range(len(requests))],
        counts=counted(requests),
    )
    if times is None:
        return trace
    arrives = np.sort(np.array([start for start, _ in times[: len(requests)]], np.float64))
    runs = np.array([length for _, length in times[: len(requests)]], np.float64)
    return trace._replace(arrives_s=arrives, leaves_s=arrives + runs)


def same(record: Record, expected: naive.Naive) -> None:
    steps, standing = expected.steps, record.standing
    assert record.node.tolist() == [step.node for step in steps]
    assert record.arrived_milli.tolist() == [step.arrived for step in steps]
    assert standing.alloc_milli.tolist() == [step.alloc for step in steps]
    assert standing.used_nodes.tolist() == [step.used for step in steps]
    assert [REASONS[reason] for reason in record.reason] == [step.reason for step in steps]
    np.testing.assert_allclose(standing.frag_milli, [step.frag for step in steps], atol=1e-6)
    np.testing.assert_allclose(standing.cpu_w + standing.gpu_w, [step.watts for step in steps])
    np.testing.assert_allclose(standing.frag_by_cause.sum(axis=1), record.idle_milli, atol=1e-6)


@given(st.lists(REQUEST, min_size=1, max_size=40))
def test_each_step_is_that_of_a_replay_written_out(requests: list[CardRequest]) -> None:
    trace = trace_of(requests)
    same(replay(trace, LeastLeft), naive.replay(trace))


@given(st.lists(REQUEST, min_size=1, max_size=40), TIMES)
def test_so_it_is_where_pods_leave(requests: list[CardRequest], times: list[tuple[int, float]]) -> None:
    trace = trace_of(requests, times)
    record, expected = replay(trace, LeastLeft), naive.replay(trace)
    same(record, expected)
    found = result(trace, record, "least-left", 0)
    assert found.energy_kwh == pytest.approx(expected.energy_joule / 3.6e6, abs=1e-3)
    assert trace.arrives_s is not None
    span = float(trace.arrives_s[-1] - trace.arrives_s[0])
    if span:
        share = 100 * expected.alloc_seconds / span / record.capacity_milli
        assert found.mean_allocation_percent == pytest.approx(share, abs=1e-3)
    else:
        assert found.mean_allocation_percent is None


@pytest.mark.parametrize("at_once", [1, 2, 7])
def test_how_many_changes_are_measured_at_once_does_not_matter(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [
        CardRequest(cpu_milli=500 * (i % 4), memory_bytes=0, cards=1, milli=100 + i % 7 * 150) for i in range(30)
    ]
    trace = trace_of(requests, [(i, 3.5) for i in range(30)])
    whole = replay(trace, LeastLeft)
    monkeypatch.setattr(meter, "AT_ONCE", at_once)
    pieces = replay(trace, LeastLeft)
    for one, other in zip(whole.standing, pieces.standing, strict=True):
        assert one.tolist() == other.tolist()


def test_those_that_end_leave_before_others_arrive() -> None:
    whole = CardRequest(cpu_milli=1000, memory_bytes=0, cards=4, milli=1000)
    record = replay(trace_of([whole] * 3, [(0, 10), (9, 10), (10, 5)]), LeastLeft)
    assert record.node.tolist() == [1, -1, 1]
    assert record.arrived_milli.tolist() == [4000, 8000, 8000]  # the refused one would still be there


def test_a_policy_that_declines_although_there_is_room_is_told_as_such() -> None:
    class Declines(LeastLeft):
        def place(self, request: CardRequest, among: object = None) -> Spot | None:
            return None

    record = replay(trace_of([CardRequest(cpu_milli=1, memory_bytes=0)]), Declines)
    assert [REASONS[reason] for reason in record.reason] == ["declined"]


def test_every_pod_is_seen_before_it_is_placed() -> None:
    order: list[str] = []

    class Watched(LeastLeft):
        def seen(self, request: CardRequest) -> None:
            order.append("seen")

        def place(self, request: CardRequest, among: object = None) -> Spot | None:
            order.append("place")
            return super().place(request)

    replay(trace_of([CardRequest(cpu_milli=10**9, memory_bytes=0), CardRequest(cpu_milli=1, memory_bytes=0)]), Watched)
    assert order == ["seen", "place"] * 2


def test_a_placement_that_cannot_be_stops_the_replay() -> None:
    class Wrong(LeastLeft):
        def place(self, request: CardRequest, among: object = None) -> Spot | None:
            return Spot(3, (0,))

    with pytest.raises(ValueError, match="Spot"):
        replay(trace_of([CardRequest(cpu_milli=1, memory_bytes=0, cards=1, milli=500)]), Wrong)


def test_progress_is_told_to_the_end() -> None:
    told: list[int] = []
    replay(trace_of([CardRequest(cpu_milli=1, memory_bytes=0)] * 3), LeastLeft, progress=told.append)
    assert told == [0, 3]


def test_a_trace_without_arrivals_and_a_fleet_without_cards_are_no_trouble() -> None:
    nobody = trace_of([])
    assert result(nobody, replay(nobody, LeastLeft), "x", 1).failed == 0
    bare = trace_of([CardRequest(cpu_milli=1, memory_bytes=0)])._replace(
        nodes=(CardNode(name="d", cpu_milli=8000, memory_bytes=GIB),)
    )
    found = result(bare, replay(bare, LeastLeft), "x", 1)
    assert found.cards == 0
    assert found.allocation_percent == {"0": 0.0}


def test_a_policy_that_is_not_informed_knows_no_mix_and_is_measured_all_the_same() -> None:
    known: list[int] = []

    class Curious(LeastLeft):
        def __init__(self, setup: PolicySetup) -> None:
            super().__init__(setup)
            known.append(len(setup.counts))

    trace = trace_of([CardRequest(cpu_milli=1000 * i, memory_bytes=0, cards=1, milli=300 + i) for i in range(9)])
    informed, not_informed = replay(trace, Curious), replay(trace, Curious, informed=False)
    assert known == [9, 0]
    assert informed.standing.frag_milli.tolist() == not_informed.standing.frag_milli.tolist()
    assert max(informed.standing.frag_milli) > 0
