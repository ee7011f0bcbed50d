"""Metrics at a load are those of the FGD paper's tables, for any fleet."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.fleet.cards.fragmentation import CAUSES
from bayplan.fleet.cards.model import CardNode, CardRequest
from bayplan.simulate.record import NO_CPU, Record, Standing
from bayplan.simulate.result import RunResult, kind_name, result
from bayplan.simulate.summary import summary
from bayplan.simulate.trace import Trace


def record_of(arrived: list[int], alloc: list[int], frag: list[float], capacity: int, node: list[int]) -> Record:
    count = len(arrived)
    zeroes = np.zeros(count, np.int64)
    standing = Standing(
        alloc_milli=np.array(alloc, np.int64),
        alloc_cpu_milli=zeroes,
        frag_milli=np.array(frag, np.float64),
        frag_by_cause=np.zeros((count, len(CAUSES))),
        cpu_w=np.full(count, 100.0),
        gpu_w=np.array(alloc, np.float64),
        used_nodes=zeroes,
    )
    reason = np.where(np.array(node) < 0, NO_CPU, 0)
    return Record(np.array(node), zeroes, ((),), reason, np.array(arrived, np.int64), standing, capacity)


def trace_of(requests: list[CardRequest], cards: int) -> Trace:
    nodes = (CardNode(name="n", cpu_milli=1, memory_bytes=1, cards=cards),)
    return Trace(nodes, tuple(requests), np.arange(len(requests)), [str(i) for i in range(len(requests))], {})


SHARE = CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=500)


def test_a_load_is_rounded_half_to_even_and_what_stands_at_it_is_a_mean() -> None:
    # 8 cards: 40 milli are half a percent, which is 0; 120 are one and a half, which is 2.
    arrived = [40, 41, 119, 120, 200]
    record = record_of(arrived, [40, 41, 119, 120, 120], [8.0, 9.0, 10.0, 0.0, 4.0], 8000, [0] * 5)
    found = result(trace_of([SHARE] * 5, 8), record, "p", 1)
    assert found.allocation_percent == {"0": 0.5, "1": pytest.approx((0.51 + 1.49) / 2), "2": 1.5}
    assert found.fragmentation_percent == {"0": 0.1, "1": pytest.approx((0.11 + 0.12) / 2, abs=0.011), "2": 0.025}
    assert found.power_kw["2"] == pytest.approx(0.22)
    assert list(found.fragmentation_ratio) == ["0", "1", "2"]


@given(st.integers(1, 256), st.lists(st.integers(0, 400_000), min_size=1, max_size=30))
def test_loads_and_allocation_are_exact(cards: int, milli: list[int]) -> None:
    record = record_of(milli, milli, [0.0] * len(milli), 1000 * cards, [0] * len(milli))
    found = result(trace_of([SHARE] * len(milli), cards), record, "p", 1)
    expected: dict[str, list[float]] = {}
    for each in milli:
        load = round(Fraction(100 * each, 1000 * cards))
        expected.setdefault(str(load), []).append(float(round(Fraction(100 * each, 1000 * cards), 2)))
    assert list(found.allocation_percent) == sorted(expected, key=int)
    for key, values in expected.items():
        assert found.allocation_percent[key] == pytest.approx(sum(values) / len(values), abs=1e-4)


def test_refused_pods_are_counted_by_kind_and_by_what_was_lacking() -> None:
    requests = [
        CardRequest(cpu_milli=0, memory_bytes=0, cards=8, milli=1000),
        CardRequest(cpu_milli=0, memory_bytes=0),
        SHARE,
        CardRequest(cpu_milli=0, memory_bytes=0, cards=2, milli=1000),
        SHARE,
    ]
    record = record_of([0] * 5, [0] * 5, [0.0] * 5, 8000, [-1, -1, -1, -1, 0])
    found = result(trace_of(requests, 8), record, "p", 1)
    assert list(found.refused.items()) == [("cpu-only", 1), ("shared", 1), ("2-card", 1), ("8-card", 1)]
    assert found.refused_by_cause == {"cpu": 4}
    assert found.failed == 4
    assert [kind_name(request) for request in requests] == ["8-card", "cpu-only", "shared", "2-card", "shared"]


def run(policy: str, seed: int, **loads: float) -> RunResult:
    curve = {load.removeprefix("at"): value for load, value in loads.items()}
    return RunResult(
        policy=policy,
        seed=seed,
        nodes=1,
        cards=8,
        arrivals=5,
        failed=seed,
        refused={"shared": seed},
        refused_by_cause={"cpu": seed},
        final_allocation_percent=90.0 + seed,
        final_unallocated_cards=1.0,
        allocation_percent=curve,
        fragmentation_percent=curve,
        fragmentation_ratio=curve,
        power_kw=curve,
        by_cause={"satisfied": 1.0},
    )


def test_several_runs_are_summed_up_by_policy() -> None:
    runs = [run("a", 1, at9=1.0, at10=2.0), run("b", 1, at9=7.0), run("a", 2, at9=2.0, at10=4.0, at11=5.0)]
    found = summary(runs)
    assert found.runs == tuple(runs)
    assert list(found.mean) == ["a", "b"]
    mean = found.mean["a"]
    assert mean.seeds == (1, 2)
    assert list(mean.allocation_percent.items()) == [("9", 1.5), ("10", 3.0), ("11", 5.0)]
    assert mean.deviation["power_kw"] == {"9": 0.7071, "10": 1.4142, "11": 0.0}
    assert (mean.failed, mean.refused, mean.final_allocation_percent) == (1.5, {"shared": 1.5}, 91.5)
    assert mean.energy_kwh is None


def test_the_metrics_of_a_whole_run_add_up() -> None:
    record = record_of([500], [500], [100.0], 1000, [0])
    found = result(trace_of([SHARE], 1), record, "p", 1)
    assert (found.final_allocation_percent, found.final_unallocated_cards) == (50.0, 0.5)
    assert found.fragmentation_ratio == {"50": 20.0}
    assert found.fragmentation_percent == {"50": 10.0}
    assert (found.energy_kwh, found.over_time) == (None, None)
