"""What a run comes to: allocation, fragmentation and power by load, what was refused and why, energy.

Facts: the metrics of the FGD paper (USENIX ATC'23) as its published tables have them: after each arrival the load is
rounded to whole percent of the cards (half to even), and what stands at a load is the mean over all arrivals of that
load, of allocation and fragmentation rounded to two decimals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from bayplan.fleet.cards.fragmentation import CAUSES
from bayplan.fleet.cards.model import CardRequest
from bayplan.fleet.cards.state import Floats, Ints
from bayplan.simulate.record import REASONS, Changes, Record
from bayplan.simulate.trace import Trace

CURVE_POINTS = 101
_PERCENT = 100
_SECONDS_PER_HOUR = 3600


class OverTime(msgspec.Struct, frozen=True, kw_only=True):
    """At equally spaced times from the first arrival to the last: how the fleet stood. Percent are of all cards."""

    time_s: tuple[float, ...]
    allocation_percent: tuple[float, ...]
    fragmentation_percent: tuple[float, ...]
    power_kw: tuple[float, ...]


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """One policy, one seed. `informed`: the policy knew the mix of pods beforehand.

    What is by load has a percentage of the fleet's cards, as text, for its keys. `fragmentation_percent` is of all
    cards, `fragmentation_ratio` of those idle. `by_cause` is what is idle at the end, in percent of all cards.
    `mean_allocation_percent` is over time, `energy_kwh` from the first arrival to the last: both None, like
    `over_time`, where the trace has no times. `bound_percent`: what no policy could have allocated at some loads, with
    the right to refuse any pod; `bound_percent_all_cpu_only`: without refusing pods that ask for no cards (null where
    not all of them have room). Both None where nobody asked for them.
    """

    policy: str
    seed: int
    informed: bool = True
    nodes: int
    cards: int
    arrivals: int
    failed: int
    refused: dict[str, int]
    refused_by_cause: dict[str, int]
    final_allocation_percent: float
    final_unallocated_cards: float
    allocation_percent: dict[str, float]
    fragmentation_percent: dict[str, float]
    fragmentation_ratio: dict[str, float]
    power_kw: dict[str, float]
    by_cause: dict[str, float]
    mean_allocation_percent: float | None = None
    energy_kwh: float | None = None
    over_time: OverTime | None = None
    bound_percent: dict[str, float] | None = None
    bound_percent_all_cpu_only: dict[str, float | None] | None = None


def result(trace: Trace, record: Record, policy: str, seed: int, *, informed: bool = True) -> RunResult:
    """Sum a run up."""
    refused = np.flatnonzero(record.node < 0)
    kinds = Counter(kind_name(trace.requests[i]) for i in trace.arrivals[refused].tolist())
    reasons = Counter(record.reason[refused].tolist())
    end = record.standing.at(np.array([-1])) if len(record.node) else None
    capacity = record.capacity_milli
    loads = load_percent(record.arrived_milli, record.capacity_milli)
    changes = record.changes
    return RunResult(
        policy=policy,
        seed=seed,
        informed=informed,
        nodes=len(trace.nodes),
        cards=capacity // 1000,
        arrivals=len(trace.arrivals),
        failed=len(refused),
        refused={kind: kinds[kind] for kind in sorted(kinds, key=_kind_order)},
        refused_by_cause={REASONS[reason]: reasons[reason] for reason in sorted(reasons)},
        final_allocation_percent=_percent(float(end.alloc_milli[0]), capacity) if end else 0.0,
        final_unallocated_cards=round(float(record.idle_milli[-1]) / 1000, 2) if end else 0.0,
        allocation_percent=_by_load(loads, _hundredths(record.standing.alloc_milli, capacity) / 100),
        fragmentation_percent=_by_load(loads, _two(record.standing.frag_milli, np.full(len(loads), capacity))),
        fragmentation_ratio=_by_load(loads, _two(record.standing.frag_milli, record.idle_milli)),
        power_kw=_by_load(loads, (record.standing.cpu_w + record.standing.gpu_w) / 1000),
        by_cause=_causes(end.frag_by_cause[0], capacity) if end else {},
        mean_allocation_percent=_mean_allocation(changes, capacity) if changes else None,
        energy_kwh=_energy(changes) if changes else None,
        over_time=_over_time(changes, capacity) if changes else None,
    )


def kind_name(request: CardRequest) -> str:
    """`cpu-only`, `shared`, `1-card`, `8-card`."""
    if request.cards == 0:
        return "cpu-only"
    return "shared" if request.is_shared else f"{request.cards}-card"


def _kind_order(kind: str) -> tuple[int, str]:
    return (("cpu-only", "shared").index(kind), "") if "-card" not in kind else (int(kind.split("-")[0]) + 1, kind)


def load_percent(arrived_milli: Ints, capacity_milli: int) -> Ints:
    """By arrival, the load in whole percent, half to even."""
    return _rounded(arrived_milli * _PERCENT, capacity_milli)


def _hundredths(milli: Ints, capacity: int) -> Ints:
    """Percent of the capacity, in hundredths, half to even; exact."""
    return _rounded(milli * (_PERCENT * 100), capacity)


def _rounded(above: Ints, below: int) -> Ints:
    """A quotient as a whole number, half to even."""
    if not below:
        return np.zeros_like(above)
    quotient, rest = np.divmod(above, below)
    up = (2 * rest > below) | ((2 * rest == below) & (quotient % 2 == 1))
    nearest: Ints = quotient + up
    return nearest


def _two(part: Floats, whole: Ints) -> Floats:
    """Percent, to two decimals; 0 where the whole is."""
    percent: Floats = np.divide(part * _PERCENT, whole, out=np.zeros(len(part)), where=whole > 0)
    return np.round(percent, 2)


def mean_by_load(loads: Ints, values: Floats) -> dict[str, float]:
    """Load -> mean of the values of its arrivals, not rounded."""
    bins, where, often = np.unique(loads, return_inverse=True, return_counts=True)
    means = np.bincount(where, weights=values, minlength=len(bins)) / often
    return dict(zip(map(str, bins.tolist()), means.tolist(), strict=True))


def _by_load(loads: Ints, values: Floats) -> dict[str, float]:
    """Load -> mean over its arrivals."""
    return {load: round(mean, 4) for load, mean in mean_by_load(loads, values).items()}


def _percent(part: float, whole: int) -> float:
    return round(_PERCENT * part / whole, 4) if whole else 0.0


def _causes(amounts: Sequence[float], capacity: int) -> dict[str, float]:
    return {cause: _percent(float(amount), capacity) for cause, amount in zip(CAUSES, amounts, strict=True)}


def _lengths(changes: Changes) -> Floats:
    """Seconds for which each standing held."""
    return np.diff(changes.time_s, append=changes.end_s)


def _mean_allocation(changes: Changes, capacity: int) -> float | None:
    lengths = _lengths(changes)
    total = float(lengths.sum())
    return _percent(float((changes.standing.alloc_milli * lengths).sum()) / total, capacity) if total else None


def _energy(changes: Changes) -> float:
    watts = changes.standing.cpu_w + changes.standing.gpu_w
    return round(float((watts * _lengths(changes)).sum()) / _SECONDS_PER_HOUR / 1000, 3)


def _over_time(changes: Changes, capacity: int) -> OverTime:
    times = np.linspace(changes.time_s[0], changes.end_s, CURVE_POINTS)
    rows = np.searchsorted(changes.time_s, times, side="right") - 1
    standing = changes.standing.at(rows)
    whole = np.full(len(rows), capacity)
    return OverTime(
        time_s=tuple(round(float(time), 3) for time in times),
        allocation_percent=tuple((_hundredths(standing.alloc_milli, capacity) / 100).tolist()),
        fragmentation_percent=tuple(_two(standing.frag_milli, whole).tolist()),
        power_kw=tuple(np.round((standing.cpu_w + standing.gpu_w) / 1000, 4).tolist()),
    )
