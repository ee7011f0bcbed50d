"""Simulations as documents and tables: JSON, and one row for each policy, seed and load as CSV or Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.report.json_text import json_text
from bayplan.simulate.result import RunResult
from bayplan.simulate.summary import CURVES, summary

BOUNDS = ("bound_percent", "bound_percent_all_cpu_only")


def as_json(runs: Sequence[RunResult]) -> str:
    """One run as an object; of several, an object with `runs` and the `mean` of each policy."""
    return json_text(runs[0] if len(runs) == 1 else summary(runs))


def load_columns(runs: Sequence[RunResult]) -> dict[str, list[Any]]:
    """Column -> values: policy, seed, load (percent of the cards) and what is by load; bounds where they are known."""
    columns: dict[str, list[Any]] = {name: [] for name in ("policy", "seed", "load", *CURVES)}
    for run in runs:
        loads = list(run.allocation_percent)
        columns["policy"] += [run.policy] * len(loads)
        columns["seed"] += [run.seed] * len(loads)
        columns["load"] += [int(load) for load in loads]
        for name in CURVES:
            columns[name] += [getattr(run, name)[load] for load in loads]
        for name in BOUNDS:
            bound: dict[str, float | None] | None = getattr(run, name)
            if bound is not None:
                columns.setdefault(name, []).extend(bound.get(load) for load in loads)
    return columns
