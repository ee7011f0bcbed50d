"""The offline bound beside an online result: what no policy could have given out of the pods that had come.

Pods that had come by a load are all up to the first arrival at which they ask for so much of the cards. Where all of
them might be served, the bound is what they ask for in the mean over the arrivals of that load, as the results are
means over them. Where pods end, it is of one moment, that at which those there ask for most: at other moments of the
same load there were others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from bayplan.fleet.cards.bound.most import bound
from bayplan.fleet.cards.model import WHOLE, CardRequest
from bayplan.fleet.cards.state import Ints
from bayplan.simulate.result import load_percent, mean_by_load
from bayplan.simulate.trace import Trace

_SLACK = 1e-9


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """Percent of all cards that no policy can exceed, by load as the results have it.

    `any_refused`: any pod may be refused; `all_cpu_only`: pods without cards may not (None: they have not all room).
    """

    any_refused: dict[str, float]
    all_cpu_only: dict[str, float | None]


def ceiling(trace: Trace, loads: Sequence[int] = ()) -> Ceiling:
    """The bounds at these loads, in whole percent, and at the highest; of pods that end, only at the busiest moment."""
    there = by_load(trace, loads)
    asked = _mean_asked(trace)
    return Ceiling(
        any_refused={load: _percent(trace, there[load], asked.get(load)) or 0.0 for load in there},
        all_cpu_only={load: _percent(trace, there[load], asked.get(load), all_cpu_only=True) for load in there},
    )


def by_load(trace: Trace, loads: Sequence[int]) -> dict[str, Counter[CardRequest]]:
    """What is asked for at these loads, those that are not reached left out, and at the highest."""
    capacity = WHOLE * sum(node.cards for node in trace.nodes)
    if not capacity or not len(trace.arrivals):
        return {}
    most = busiest(trace)
    milli = sum(request.total_milli * count for request, count in most.items())
    highest = round(100 * milli / capacity)
    if trace.arrives_s is not None:
        return {str(highest): most}
    lower = sorted({load for load in loads if load < highest})
    return {**{str(load): arrived(trace, load) for load in lower}, str(highest): most}


def arrived(trace: Trace, load_percent: float | None = None) -> Counter[CardRequest]:
    """How often each request had come when all asked for so much of the cards; without a load, in the end."""
    if load_percent is None:
        return _counted(trace, trace.arrivals)
    wanted = load_percent / 100 * WHOLE * sum(node.cards for node in trace.nodes)
    asked = np.cumsum(_milli(trace)[trace.arrivals])
    return _counted(trace, trace.arrivals[: int(np.searchsorted(asked, wanted)) + 1])


def busiest(trace: Trace) -> Counter[CardRequest]:
    """What is asked for at the moment when it is most of the cards, had nobody been refused; all, where nobody ends."""
    if trace.arrives_s is None or trace.leaves_s is None:
        return arrived(trace)
    milli = _milli(trace)[trace.arrivals]
    ends = np.argsort(trace.leaves_s, kind="stable")
    gone = np.concatenate([[0], np.cumsum(milli[ends])])
    left = np.searchsorted(trace.leaves_s[ends], trace.arrives_s, side="right")
    there = np.cumsum(milli) - gone[left]
    if not len(there):
        return Counter()
    when = int(there.argmax())
    alive = np.arange(len(milli)) <= when
    alive &= trace.leaves_s > trace.arrives_s[when]
    return _counted(trace, trace.arrivals[alive])


def _milli(trace: Trace) -> Ints:
    """By request, what it takes of all cards."""
    return np.array([request.total_milli for request in trace.requests], np.int64)


def _counted(trace: Trace, arrivals: Ints) -> Counter[CardRequest]:
    numbers, often = np.unique(arrivals, return_counts=True)
    return Counter({trace.requests[i]: count for i, count in zip(numbers.tolist(), often.tolist(), strict=True)})


def _mean_asked(trace: Trace) -> dict[str, float]:
    """Load -> what all pods that had come ask for, percent of the cards, in the mean over the arrivals of that load."""
    capacity = WHOLE * sum(node.cards for node in trace.nodes)
    if trace.arrives_s is not None or not capacity:
        return {}
    asked = np.cumsum(_milli(trace)[trace.arrivals])
    return mean_by_load(load_percent(asked, capacity), 100 * asked / capacity)


def _percent(
    trace: Trace, demand: Counter[CardRequest], mean_asked: float | None, *, all_cpu_only: bool = False
) -> float | None:
    found = bound(trace.nodes, demand, all_cpu_only=all_cpu_only)
    if found is None:
        return None
    asked = sum(request.total_milli * count for request, count in demand.items())
    percent = found.percent if mean_asked is None or found.milli < asked * (1 - _SLACK) else min(mean_asked, 100.0)
    return round(percent, 4)
