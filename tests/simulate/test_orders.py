"""Orders of arrivals: as they are, by time, and drawn by a seed."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from bayplan.errors import InputError
from bayplan.fleet.cards.generator import Generator
from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import CardNode
from bayplan.simulate import orders
from bayplan.simulate.pod_tables import PodList, read_pods
from bayplan.simulate.trace import Trace

NODES = tuple(CardNode(name=f"n{i}", cpu_milli=1000, memory_bytes=0, cards=4) for i in (2, 0, 1))


def pods_of(*rows: str) -> PodList:
    return read_pods(["name,milli,cards,arrives_s,runs_s\n", *(f"{row}\n" for row in rows)])


def asked(trace: Trace) -> list[int]:
    return [trace.requests[i].total_milli for i in trace.arrivals]


def test_given_orders_are_taken_as_they_are_and_copies_are_not_the_workload() -> None:
    pods = pods_of("b,500,,,", "a,250,,,", "b-tuned-0,500,,,", "b-tuned-x,250,,,", "a-tuned-1,250,,,")
    trace = orders.given(NODES, pods)
    assert trace.nodes == NODES
    assert trace.names == pods.names
    assert trace.counts == Counter({PodKind(0, 500, 1, ()): 1, PodKind(0, 250, 1, ()): 2})
    assert trace.arrives_s is None


def test_times_put_pods_in_order_and_equal_times_leave_them_as_they_are() -> None:
    trace = orders.by_time(NODES, pods_of("c,100,,5,1", "b,200,,3,", "a,300,,5,2"))
    assert trace.names == ["b", "c", "a"]
    assert asked(trace) == [200, 100, 300]
    assert trace.arrives_s is not None
    assert trace.leaves_s is not None
    assert trace.leaves_s.tolist() == [math.inf, 6, 7]


def test_without_times_there_is_no_order_by_time() -> None:
    with pytest.raises(InputError, match="no times of arrival"):
        orders.by_time(NODES, pods_of("a,100,,,"))


def test_one_seed_is_one_trace_and_follows_from_the_draws_that_are_written_down() -> None:
    pods = pods_of(*(f"p{i:02d},{100 + i},,," for i in reversed(range(20))))
    trace = orders.shuffled(NODES, pods, 7, load=0.4)
    draws = Generator(7)
    assert [node.name for node in trace.nodes] == [f"n{i}" for i in draws.shuffled(3)]
    expected = [f"p{i:02d}" for i in draws.shuffled(20)]
    total = sum(100 + i for i in range(20))
    while total + 100 + (drawn := draws.below(20)) <= 4800:
        expected.append(f"p{drawn:02d}-tuned-{len(expected) - 20}")
        total += 100 + drawn
    assert trace.names == expected
    assert sum(asked(trace)) == total
    assert trace.counts.total() == 20  # type: ignore[attr-defined]
    assert orders.shuffled(NODES, pods, 7, load=0.4).names == trace.names
    assert orders.shuffled(NODES, pods, 8, load=0.4).names != trace.names
    assert orders.shuffled_nodes(NODES, 7) == trace.nodes


def test_copies_end_before_the_first_whose_part_of_a_card_would_pass_the_load() -> None:
    # 12 cards; a copy of four cards counts by one of them when it is drawn, so the last may pass the load.
    trace = orders.shuffled(NODES, pods_of("a,1000,4,,"), 1, load=1.0)
    assert asked(trace) == [4000, 4000, 4000]
    trace = orders.shuffled(NODES, pods_of("a,1000,4,,"), 1, load=1.1)
    assert asked(trace) == [4000] * 4


def test_of_too_many_pods_the_last_are_left_out() -> None:
    pods = pods_of(*(f"p{i},500,,," for i in range(40)))
    trace = orders.shuffled(NODES, pods, 3, load=0.5)
    assert len(trace.arrivals) == 12
    assert trace.names == orders.shuffled(NODES, pods, 3, load=10.0).names[:12]


def test_pods_without_cards_are_never_copied() -> None:
    trace = orders.shuffled(NODES, pods_of("a,,,,", "b,,,,"), 3)
    assert sorted(trace.names) == ["a", "b"]


def test_more_arrivals_than_can_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "MAX_ARRIVALS", 100)
    with pytest.raises(InputError, match="too many arrivals"):
        orders.shuffled(NODES, pods_of("a,1,,,"), 3)


def test_every_pod_is_as_likely_to_be_copied() -> None:
    pods = pods_of(*(f"p{i},10,,," for i in range(10)))
    trace = orders.shuffled(NODES, pods, 5, load=10.0)
    counts = np.bincount([int(name[1]) for name in trace.names])
    assert counts.sum() == 12_000
    assert counts.min() > 1000
    assert counts.max() < 1400
