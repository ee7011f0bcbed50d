"""Planning a fleet by replaying the same pods: on a changed fleet, and on as few nodes as will do.

The workload is that of the fleet as it is (its load, where it is drawn, counts that fleet's cards) and stays the same
whatever becomes of the nodes. What a replay tells is of one policy; beside it stands the bound that no policy passes.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.cards.bound.fewest import fewest
from bayplan.fleet.cards.model import CardNode
from bayplan.simulate.ceiling import busiest, ceiling
from bayplan.simulate.node_kinds import Shape, shape_of, shapes_named, with_numbers
from bayplan.simulate.node_tables import MAX_NODES
from bayplan.simulate.result import RunResult
from bayplan.simulate.runs import TraceOf
from bayplan.simulate.summary import Runs
from bayplan.simulate.trace import Trace
from bayplan.simulate.what_if import changed

Replayed = Callable[[TraceOf, str], Sequence[RunResult]]
"""Makes the runs that are wanted, each on the trace of its seed; told what it is at, for a person who waits."""
_SLACK = 1e-9
_NO_UNIT = 1e-7
"""A part of all units that is as good as none: rounding of the solver."""


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The same pods on the fleet as it is and as it would be."""

    what_if: tuple[str, ...]
    before: Runs
    after: Runs


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """How much was refused with so many nodes: percent of the pods, in the worst of the seeds."""

    nodes: int
    refused_percent: float


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest fleet that was found for one policy. Nodes are counted of the kinds that are sized.

    `nodes` is None where not even a fleet with a node for each pod will do; `refused_percent` is that fleet's then.
    `kinds`: how many of each there are in it. `one_fewer` was replayed too and refuses too much; None where no policy
    can do with one fewer. `bound_nodes`: no policy can do with fewer than this. `probes`: all that was replayed.
    """

    policy: str
    nodes: int | None
    kinds: dict[str, int]
    refused_percent: float
    one_fewer: Probe | None
    bound_nodes: int
    probes: tuple[Probe, ...]


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked and found. `now`: nodes that the fleet has of the kinds that are sized; `other`: of all others."""

    refused_at_most_percent: float
    now: int
    other: int
    seeds: tuple[int, ...]
    sizes: tuple[Size, ...]


def bounded(runs: Sequence[RunResult], trace_of: TraceOf, loads: Sequence[int]) -> tuple[RunResult, ...]:
    """The runs with the offline bounds of their traces at these loads and at the highest."""
    ceilings = {seed: ceiling(trace_of(seed), loads) for seed in sorted({run.seed for run in runs})}
    return tuple(
        msgspec.structs.replace(
            run,
            bound_percent=ceilings[run.seed].any_refused,
            bound_percent_all_cpu_only=ceilings[run.seed].all_cpu_only,
        )
        for run in runs
    )


def on_changed(trace_of: TraceOf, changes: Sequence[str]) -> TraceOf:
    """The traces with the same pods on a changed fleet."""

    def trace(seed: int) -> Trace:
        made = trace_of(seed)
        return made._replace(nodes=changed(made.nodes, changes))

    return trace


class Sized:
    """Fleets of any size: nodes of some kinds in a fixed proportion, beside those that stay.

    Of a kind (`kind`, see `node_kinds`), or of all that the fleet has; with `alone` no others stay. A fleet of n nodes
    is part of that of n + 1. Raises `InputError` for a kind that there is not.
    """

    def __init__(self, nodes: Sequence[CardNode], kind: str | None, *, alone: bool) -> None:
        there = Counter(shape_of(node) for node in nodes)
        shapes = tuple(there) if kind is None else shapes_named(kind, nodes)
        self.weights: dict[Shape, int] = {shape: max(there[shape], 1) for shape in sorted(shapes)}
        self.now = sum(there[shape] for shape in self.weights)
        self._others: dict[Shape, int] = {} if not alone else {s: 0 for s in there if s not in self.weights}
        self.other = 0 if alone else len(nodes) - self.now

    def numbers(self, count: int) -> dict[Shape, int]:
        """How many of each kind there are among so many nodes."""
        taken = Counter(itertools.islice(self._sequence(), count))
        return {shape: taken[shape] for shape in self.weights}

    def fleet(self, nodes: Sequence[CardNode], count: int) -> tuple[CardNode, ...]:
        """The fleet with so many nodes of the kinds that are sized."""
        return with_numbers(nodes, {**self._others, **self.numbers(count)})

    def unit(self) -> tuple[CardNode, ...]:
        """One of each kind for each one that the proportion has of it."""
        return tuple(shape.node("") for shape, weight in self.weights.items() for _ in range(weight))

    def holding(self, units: float) -> int:
        """The least count with which some kind is there as often as in so many units: with fewer all are scarcer."""
        numbers = dict.fromkeys(self.weights, 0)
        needed = units * (1 - _SLACK)
        if needed <= 0:
            return 0
        for count, shape in enumerate(self._sequence(), 1):
            numbers[shape] += 1
            if numbers[shape] >= needed * self.weights[shape]:
                return count
        raise AssertionError("the sequence of nodes never ends")

    def _sequence(self) -> Iterator[Shape]:
        """Node after node, so that each kind keeps its proportion (the method of Sainte-Laguë)."""
        taken = dict.fromkeys(self.weights, 0)
        while True:
            shape = max(self.weights, key=lambda each: self.weights[each] / (2 * taken[each] + 1))
            taken[shape] += 1
            yield shape


def smallest(
    replayed: Mapping[str, Replayed], trace_of: TraceOf, seeds: Sequence[int], sized: Sized, refused_percent: float
) -> Sizing:
    """For each policy, the smallest fleet that refuses at most so many percent of the pods in each of the seeds.

    By bisection between a size that is too small and one that is large enough, both replayed; more nodes may by chance
    do worse, so below the size that is found there may be others that do. `replayed`: by policy, what makes its runs.
    Raises `InputError` where no size will do under any policy.
    """
    least = max(_bound_nodes(trace_of(seed), sized, refused_percent) for seed in seeds)
    pods = max(len(trace_of(seed).arrivals) for seed in seeds)
    span = (least if sized.other else max(least, 1), min(max(pods, least, 1), MAX_NODES - sized.other))
    sizes = []
    for policy, make in replayed.items():
        replays = _Replays(make, trace_of, sized)
        found = _found(partial(replays.enough, refused_percent), *span)
        sizes.append(_size(policy, replays, least, found))
    return Sizing(
        refused_at_most_percent=refused_percent,
        now=sized.now,
        other=sized.other,
        seeds=tuple(seeds),
        sizes=tuple(sizes),
    )


def parse_percent(text: str) -> float:
    """`1%`, `0.5 %` or `1`. Raises `InputError`."""
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not 0 <= percent < 100:
        raise InputError("not a rate of refusal", source="--size-for", value=text, expected="like 1%, from 0 below 100")
    return percent


class _Replays:
    """The sizes at which one policy has been replayed."""

    def __init__(self, replayed: Replayed, trace_of: TraceOf, sized: Sized) -> None:
        self._replayed, self._trace_of, self.sized = replayed, trace_of, sized
        self.known: dict[int, float] = {}

    def refused_percent(self, count: int) -> float:
        """In the worst of the seeds."""
        if count not in self.known:
            runs = self._replayed(lambda seed: self._trace(seed, count), f"{count} nodes")
            self.known[count] = max(100 * run.failed / max(run.arrivals, 1) for run in runs)
        return self.known[count]

    def enough(self, refused_percent: float, count: int) -> bool:
        """Whether no more than that is refused with so many nodes."""
        return self.refused_percent(count) <= refused_percent + _SLACK

    def _trace(self, seed: int, count: int) -> Trace:
        trace = self._trace_of(seed)
        return trace._replace(nodes=self.sized.fleet(trace.nodes, count))


def _found(enough: Callable[[int], bool], first: int, last: int) -> int | None:
    """From `first` to `last`, a count that is enough while one fewer is not, or is not allowed; None: `last` is not."""
    low, high, step = first - 1, first, 1
    while not enough(high):
        if high >= last:
            return None
        low, high, step = high, min(high + step, last), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _size(policy: str, replays: _Replays, least: int, found: int | None) -> Size:
    probes = {
        count: Probe(nodes=count, refused_percent=round(refused, 4)) for count, refused in sorted(replays.known.items())
    }
    numbers = {} if found is None else replays.sized.numbers(found)
    return Size(
        policy=policy,
        nodes=found,
        kinds={str(shape): count for shape, count in numbers.items()},
        refused_percent=probes[max(probes) if found is None else found].refused_percent,
        one_fewer=None if found is None else probes.get(found - 1),
        bound_nodes=least,
        probes=tuple(probes.values()),
    )


def _bound_nodes(trace: Trace, sized: Sized, refused_percent: float) -> int:
    """No policy does with fewer. Raises `InputError` where none does with any number."""
    pods = len(trace.arrivals)
    allowed = math.floor(pods * refused_percent / 100 + _SLACK)
    unit, demand = sized.unit(), busiest(trace)

    def units(count: int, refused: int) -> float | None:
        return fewest(sized.fleet(trace.nodes, count), unit, demand, refused=refused)

    needed = units(0, allowed)
    if needed is None:
        homeless = bisect.bisect_left(range(pods), True, lo=allowed, key=lambda count: units(0, count) is not None)
        raise InputError(
            f"{homeless} of {pods} pods have no room, however many of these nodes there are",
            source="--size-for",
            value=f"{refused_percent:g}%",
            expected=f"at least {math.ceil(1e4 * homeless / pods) / 100:g}%, or another kind of nodes",
        )
    least = sized.holding(needed)
    if len(sized.weights) == 1 or not needed:
        return least
    # A kind of which there are few is soon there as often as needed; of all kinds together more may be.
    last = math.ceil(needed) * len(unit)
    return _found(lambda count: (units(count, allowed) or 0.0) <= _NO_UNIT, least, last) or least
