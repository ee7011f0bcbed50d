"""Several runs beside each other: for each policy, the mean and the spread over its seeds."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from bayplan.simulate.result import RunResult

CURVES = ("allocation_percent", "fragmentation_percent", "fragmentation_ratio", "power_kw")


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """Means over the runs of one policy. What is by load is so over those runs that have the load.

    In `deviation`, the standard deviations (of the runs, n - 1; 0 for a single one) of what is by load.
    """

    policy: str
    seeds: tuple[int, ...]
    failed: float
    refused: dict[str, float]
    refused_by_cause: dict[str, float]
    final_allocation_percent: float
    final_unallocated_cards: float
    allocation_percent: dict[str, float]
    fragmentation_percent: dict[str, float]
    fragmentation_ratio: dict[str, float]
    power_kw: dict[str, float]
    by_cause: dict[str, float]
    mean_allocation_percent: float | None
    energy_kwh: float | None
    bound_percent: dict[str, float] | None = None
    bound_percent_all_cpu_only: dict[str, float | None] | None = None
    deviation: dict[str, dict[str, float]]


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """All runs in order, and the mean of each policy."""

    runs: tuple[RunResult, ...]
    mean: dict[str, Mean]


def summary(runs: Sequence[RunResult]) -> Runs:
    """Sum several runs up."""
    by_policy: dict[str, list[RunResult]] = {}
    for run in runs:
        by_policy.setdefault(run.policy, []).append(run)
    return Runs(runs=tuple(runs), mean={policy: _mean(same) for policy, same in by_policy.items()})


def _mean(runs: Sequence[RunResult]) -> Mean:
    curves = {name: _by_key([getattr(run, name) for run in runs]) for name in CURVES}
    return Mean(
        policy=runs[0].policy,
        seeds=tuple(run.seed for run in runs),
        failed=_mean_of([run.failed for run in runs]),
        refused=_means(_counted([run.refused for run in runs])),
        refused_by_cause=_means(_counted([run.refused_by_cause for run in runs])),
        final_allocation_percent=_mean_of([run.final_allocation_percent for run in runs]),
        final_unallocated_cards=_mean_of([run.final_unallocated_cards for run in runs]),
        allocation_percent=_means(curves["allocation_percent"]),
        fragmentation_percent=_means(curves["fragmentation_percent"]),
        fragmentation_ratio=_means(curves["fragmentation_ratio"]),
        power_kw=_means(curves["power_kw"]),
        by_cause=_means(_by_key([run.by_cause for run in runs])),
        mean_allocation_percent=_mean_of_known([run.mean_allocation_percent for run in runs]),
        energy_kwh=_mean_of_known([run.energy_kwh for run in runs]),
        bound_percent=_mean_bound([run.bound_percent for run in runs]),
        bound_percent_all_cpu_only=_mean_kept([run.bound_percent_all_cpu_only for run in runs]),
        deviation={name: {key: _deviation(values) for key, values in curve.items()} for name, curve in curves.items()},
    )


def _by_key(found: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Key -> its values in the runs that have it; numbers in their order, other keys in that of the first run."""
    keys = list(dict.fromkeys(key for each in found for key in each))
    if all(key.isdigit() for key in keys):
        keys.sort(key=int)
    return {key: [each[key] for each in found if key in each] for key in keys}


def _counted(found: Sequence[dict[str, int]]) -> dict[str, list[float]]:
    """As `_by_key`, where a key that a run lacks counts as 0."""
    keys = dict.fromkeys(key for each in sorted(found, key=len, reverse=True) for key in each)
    return {key: [float(each.get(key, 0)) for each in found] for key in keys}


def _means(by_key: dict[str, list[float]]) -> dict[str, float]:
    return {key: _mean_of(values) for key, values in by_key.items()}


def _mean_of(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 4)


def _mean_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean_of(known) if known else None


def _mean_bound(found: Sequence[dict[str, float] | None]) -> dict[str, float] | None:
    known = [each for each in found if each is not None]
    return _means(_by_key(known)) if known else None


def _mean_kept(found: Sequence[dict[str, float | None] | None]) -> dict[str, float | None] | None:
    """Null where it is so for one of the runs: there, something that must be served is not."""
    known = [each for each in found if each is not None]
    if not known:
        return None
    held = [{load: percent for load, percent in each.items() if percent is not None} for each in known]
    means = _means(_by_key(held))
    return {
        load: None if any(each.get(load, 0.0) is None for each in known) else means[load]
        for load in _by_key([dict.fromkeys(each, 0.0) for each in known])
    }


def _deviation(values: Sequence[float]) -> float:
    return round(float(np.std(values, ddof=1)), 4) if len(values) > 1 else 0.0
