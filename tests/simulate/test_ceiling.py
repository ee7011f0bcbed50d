"""Bounds beside results: of which pods, at which loads, and never below what a policy gives out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from bayplan.fleet.cards.dialects import KNOWN
from bayplan.fleet.cards.model import WHOLE, CardNode, CardRequest
from bayplan.simulate.ceiling import arrived, busiest, by_load, ceiling
from bayplan.simulate.run import PolicyName, Run, run_one
from bayplan.simulate.sources import TraceSource, Wishes, open_nodes
from bayplan.simulate.trace import Trace

GIB = 1 << 30
HALF, WHOLE_CARD, CPU = (
    CardRequest(cpu_milli=1000, memory_bytes=GIB, cards=cards, milli=milli)
    for cards, milli in ((1, 500), (1, WHOLE), (0, 0))
)


def nodes(count: int, cards: int, cpus: int = 64) -> tuple[CardNode, ...]:
    return tuple(
        CardNode(name=f"n{i}", cpu_milli=1000 * cpus, memory_bytes=64 * GIB, cards=cards) for i in range(count)
    )


def trace(fleet: tuple[CardNode, ...], *pods: CardRequest, times: list[tuple[float, float]] | None = None) -> Trace:
    kinds = tuple(dict.fromkeys(pods))
    arrivals = np.array([kinds.index(pod) for pod in pods], np.int64)
    made = Trace(fleet, kinds, arrivals, [str(i) for i in range(len(pods))], {})
    if times is None:
        return made
    arrives, leaves = (np.array(each, np.float64) for each in zip(*times, strict=True))
    return made._replace(arrives_s=arrives, leaves_s=leaves)


def test_what_had_come_by_a_load_ends_with_the_pod_that_reaches_it() -> None:
    found = trace(nodes(1, 4), HALF, WHOLE_CARD, CPU, WHOLE_CARD, HALF)
    assert arrived(found, 25) == Counter({HALF: 1, WHOLE_CARD: 1})
    assert arrived(found, 38) == Counter({HALF: 1, WHOLE_CARD: 2, CPU: 1})
    assert arrived(found) == Counter({HALF: 2, WHOLE_CARD: 2, CPU: 1})


def test_the_highest_load_has_a_bound_and_loads_that_are_not_reached_have_none() -> None:
    found = by_load(trace(nodes(1, 4), HALF, WHOLE_CARD, WHOLE_CARD), [100, 25, 62])
    assert list(found) == ["25", "62"]
    assert sum(found["62"].values()) == 3


def test_the_busiest_moment_has_those_that_are_there_whatever_came_before() -> None:
    found = trace(nodes(1, 4), WHOLE_CARD, HALF, WHOLE_CARD, HALF, times=[(0, 2), (1, 9), (2, 9), (9, 10)])
    assert busiest(found) == Counter({HALF: 1, WHOLE_CARD: 1})
    assert list(ceiling(found, [10]).any_refused) == ["38"]


def test_pods_without_cards_that_must_be_served_take_what_others_need() -> None:
    fleet = nodes(1, 4, cpus=4)
    found = ceiling(trace(fleet, *[WHOLE_CARD] * 4, *[CPU] * 2))
    assert found.any_refused == {"100": 100.0}
    assert found.all_cpu_only == {"100": 50.0}
    assert ceiling(trace(fleet, WHOLE_CARD, *[CPU] * 5)).all_cpu_only == {"25": None}


def test_a_fleet_without_cards_or_pods_has_no_bounds() -> None:
    assert ceiling(trace(nodes(1, 0), CPU)).any_refused == {}
    assert ceiling(trace(nodes(1, 4)), [100]).any_refused == {}


@pytest.mark.parametrize("policy", ["values", "bestfit", "random"])
@pytest.mark.parametrize("times", [None, True])
def test_no_policy_is_above_the_bound_at_any_load(policy: str, times: bool | None) -> None:
    source = TraceSource(
        open_nodes("preset:small/nodes.csv"), Wishes("preset:small/pods.csv", times=times), KNOWN, lambda _note: None
    )
    made = source.trace(3)
    result = run_one(made, Run(PolicyName(policy), 3))
    bounds = ceiling(made, range(5, 131, 25)).any_refused
    assert len(bounds) == (1 if times else 6)
    for load, percent in bounds.items():
        assert result.allocation_percent[load] <= percent + 0.005  # results are means of rounded ones
