"""Fleets in proportion, and the smallest of them: found by replaying, held against trying all sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import msgspec
import pytest

from bayplan.errors import InputError
from bayplan.fleet.cards.dialects import KNOWN
from bayplan.fleet.cards.model import CardNode
from bayplan.simulate.capacity import Replayed, Sized, Sizing, bounded, on_changed, parse_percent, smallest
from bayplan.simulate.node_kinds import shape_of
from bayplan.simulate.result import RunResult
from bayplan.simulate.run import PolicyName, Run, run_one
from bayplan.simulate.runs import TraceOf, run_all
from bayplan.simulate.sources import TraceSource, Wishes, open_nodes

NODES = open_nodes("preset:small/nodes.csv")
BESTFIT, FGD = PolicyName("bestfit"), PolicyName("fgd")


@pytest.fixture(scope="module")
def trace_of() -> TraceOf:
    return TraceSource(NODES, Wishes("preset:small/pods.csv", load=0.3), KNOWN, lambda _note: None).trace


def replay(runs: Sequence[Run], trace_of: TraceOf, _doing: str) -> tuple[RunResult, ...]:
    return run_all(runs, trace_of)


def sized_for(
    trace_of: TraceOf, sized: Sized, percent: float, *policies: PolicyName, seeds: Sequence[int] = (1,)
) -> Sizing:
    replayed: dict[str, Replayed] = {
        str(policy): partial(replay, [Run(policy, seed) for seed in seeds]) for policy in policies
    }
    return smallest(replayed, trace_of, seeds, sized, percent)


def refused(trace_of: TraceOf, sized: Sized, count: int, policy: PolicyName, seed: int) -> float:
    trace = trace_of(seed)
    run = run_one(trace._replace(nodes=sized.fleet(trace.nodes, count)), Run(policy, seed))
    return 100 * run.failed / run.arrivals


def test_a_fleet_grows_node_by_node_and_keeps_its_proportions() -> None:
    sized = Sized(NODES, None, alone=False)
    there = Counter(map(shape_of, NODES))
    assert sized.numbers(len(NODES)) == dict(there)
    assert sized.numbers(2 * len(NODES)) == {shape: 2 * count for shape, count in there.items()}
    for count in range(len(NODES)):
        smaller, larger = sized.numbers(count), sized.numbers(count + 1)
        assert sum(smaller.values()) == count
        assert all(smaller[shape] <= larger[shape] for shape in there)


def test_all_nodes_but_those_of_the_kind_stay_unless_it_is_alone() -> None:
    sized = Sized(NODES, "T4", alone=False)
    assert (sized.now, sized.other) == (12, 62)
    fleet = sized.fleet(NODES, 3)
    assert Counter(node.model == "T4" for node in fleet) == {True: 3, False: 62}
    alone = Sized(NODES, "dgx-h100", alone=True)
    assert (alone.now, alone.other) == (0, 0)
    assert {node.cards for node in alone.fleet(NODES, 5)} == {8}
    assert len(alone.fleet(NODES, 5)) == 5


def test_below_what_holds_some_units_every_kind_is_scarcer_than_in_them() -> None:
    sized = Sized(NODES, None, alone=False)
    for units in (0.01, 0.3, 0.5, 1.0, 1.7):
        least = sized.holding(units)
        fewer = sized.numbers(least - 1)
        assert all(fewer[shape] < units * weight for shape, weight in sized.weights.items())
    assert sized.holding(1.0) <= len(NODES)
    assert sized.holding(0.0) == 0
    assert Sized(NODES, "T4", alone=False).holding(0.5) == 6


def test_the_size_that_is_found_does_and_one_fewer_does_not(trace_of: TraceOf) -> None:
    sized = Sized(NODES, None, alone=False)
    found = sized_for(trace_of, sized, 1.0, BESTFIT, FGD, seeds=(1, 2))
    assert [size.policy for size in found.sizes] == ["bestfit", "fgd"]
    for size, policy in zip(found.sizes, (BESTFIT, FGD), strict=True):
        assert size.nodes is not None
        assert size.one_fewer is not None
        worst = [max(refused(trace_of, sized, size.nodes - less, policy, seed) for seed in (1, 2)) for less in (0, 1)]
        assert worst[0] == pytest.approx(size.refused_percent, abs=1e-4)
        assert worst[1] == pytest.approx(size.one_fewer.refused_percent, abs=1e-4)
        assert worst[0] <= 1.0 < worst[1]
        assert 0 < size.bound_nodes < size.nodes
        assert sum(size.kinds.values()) == size.nodes


@pytest.mark.parametrize("kind", ["G3", None])
def test_below_the_bound_every_policy_refuses_too_much(trace_of: TraceOf, kind: str | None) -> None:
    sized = Sized(NODES, kind, alone=False)
    (size,) = sized_for(trace_of, sized, 0.0, BESTFIT).sizes
    assert size.bound_nodes > 0
    for policy in (BESTFIT, FGD, PolicyName("values"), PolicyName("random")):
        assert refused(trace_of, sized, size.bound_nodes - 1, policy, 1) > 0


def test_a_fleet_that_needs_no_more_nodes_is_told_so(trace_of: TraceOf) -> None:
    found = sized_for(trace_of, Sized(NODES, "dgx-h100", alone=False), 5.0, FGD)
    assert (found.now, found.other) == (0, len(NODES))
    assert (found.sizes[0].nodes, found.sizes[0].one_fewer, found.sizes[0].bound_nodes) == (0, None, 0)


def test_pods_that_fit_nowhere_are_told_with_the_least_rate(trace_of: TraceOf) -> None:
    with pytest.raises(InputError, match=r"pods have no room, however many of these nodes there are") as caught:
        sized_for(trace_of, Sized(NODES, "1xT4,1cpu,1Gi", alone=True), 1.0, FGD)
    assert "expected at least" in str(caught.value)


def test_pods_for_which_only_the_nodes_that_stay_will_do_bound_the_rate() -> None:
    trace_of = TraceSource(NODES, Wishes("preset:small/pods.csv", load=4), KNOWN, lambda _note: None).trace
    sized = Sized(NODES, "T4", alone=False)
    with pytest.raises(InputError, match="have no room, however many of these nodes there are") as caught:
        sized_for(trace_of, sized, 0.0, FGD)
    assert refused(trace_of, sized, 1000, FGD, 1) >= float(caught.value.expected.split()[2].rstrip("%,")) - 0.01


def test_a_policy_that_never_meets_the_rate_has_no_size(trace_of: TraceOf) -> None:
    def stubborn(traces: TraceOf, _doing: str) -> Sequence[RunResult]:
        run = run_one(traces(1)._replace(arrivals=traces(1).arrivals[:1]), Run(FGD, 1))
        return [msgspec.structs.replace(run, failed=1)]

    (size,) = smallest({"stubborn": stubborn}, trace_of, (1,), Sized(NODES, "G3", alone=False), 1.0).sizes
    assert (size.nodes, size.kinds, size.refused_percent) == (None, {}, 100.0)
    assert size.probes[-1].nodes == len(trace_of(1).arrivals)


def test_the_pods_stay_the_same_when_the_fleet_changes(trace_of: TraceOf) -> None:
    before, after = trace_of(1), on_changed(trace_of, ["remove 2 x T4", "add 1 x dgx-h100"])(1)
    assert after.names == before.names
    assert len(after.nodes) == len(NODES) - 1
    kept: list[CardNode] = [node for node in before.nodes if node in after.nodes]
    assert list(after.nodes[:-1]) == kept


def test_bounds_are_those_of_the_seed(trace_of: TraceOf) -> None:
    runs = bounded(run_all([Run(FGD, 1), Run(FGD, 2), Run(BESTFIT, 1)], trace_of), trace_of, [10, 20])
    assert runs[0].bound_percent == runs[2].bound_percent
    assert runs[0].bound_percent != runs[1].bound_percent
    assert list(runs[0].bound_percent or {}) == ["10", "20", "30"]


@pytest.mark.parametrize(("text", "percent"), [("1%", 1.0), (" 0.5 % ", 0.5), ("0", 0.0)])
def test_a_rate_of_refusal_is_in_percent(text: str, percent: float) -> None:
    assert parse_percent(text) == percent


@pytest.mark.parametrize("text", ["", "nan", "-1%", "100", "x", "1%%", "inf"])
def test_what_is_no_rate_of_refusal_is_told(text: str) -> None:
    with pytest.raises(InputError, match="not a rate of refusal"):
        parse_percent(text)
