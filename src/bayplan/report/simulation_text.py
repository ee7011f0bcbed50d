"""Simulations as tables in the terminal: policies under each other, loads beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayplan.report.canvas import Line, paint
from bayplan.report.plain import plain
from bayplan.report.table import texts
from bayplan.report.words import plural
from bayplan.simulate.result import RunResult
from bayplan.simulate.summary import Mean, summary

LOADS = (20, 50, 80, 90, 95, 100, 110, 120, 130)
"""Loads for which there is a column, where the runs reached them; otherwise, some that they reached."""
MOST_LOADS = 9
_NEAR = 5
_BOUNDED = "allocation_percent"
_CURVES = (
    (_BOUNDED, "Allocated, percent of all cards, by load", 2),
    ("fragmentation_percent", "Fragmented, percent of all cards, by load", 2),
    ("power_kw", "Power, kW, by load", 1),
)


def as_text(runs: Sequence[RunResult], *, width: int, color: bool, unicode: bool) -> str:
    """All tables. A policy with several seeds has its mean, and behind it the standard deviation."""
    means = list(summary(runs).mean.values())
    names = [_name(mean, unicode) for mean in means]
    lines = [((_head(runs), "bold"),), ()]
    loads = _loads(means)
    bounds = _bounds(means, loads)
    for field, title, digits in _CURVES:
        sign = "±" if unicode else "+-"
        rows = [[_at(mean, field, load, digits, sign) for load in loads] for mean in means]
        below = bounds if field == _BOUNDED else {}
        lines += titled(title, ["policy", *loads], [*names, *below], [*rows, *below.values()], width)
    lines += _counts("Refused pods, by kind", names, [mean.refused for mean in means], width)
    lines += _counts("Refused pods, by what no node had", names, [mean.refused_by_cause for mean in means], width)
    heads = ["policy", "allocated %", "cards free", "refused", "energy kWh", "allocated % over time"]
    lines += titled("At the end", heads, names, [_end(mean) for mean in means], width)
    return paint(lines[:-1], color=color)


def loads_shown(runs: Sequence[RunResult]) -> list[int]:
    """The loads that have a column in the tables."""
    return [int(load) for load in _loads(list(summary(runs).mean.values()))]


def _bounds(means: Sequence[Mean], loads: Sequence[str]) -> dict[str, list[str]]:
    """Name -> what no policy can pass, by load; the one with all CPU-only pods served only where it says more."""
    found = means[0].bound_percent
    if found is None:
        return {}
    rows = {"no policy above": [bound_cell(found, load) for load in loads]}
    kept = [bound_cell(means[0].bound_percent_all_cpu_only or {}, load) for load in loads]
    return rows if kept in rows.values() else {**rows, "... refusing no CPU-only pod": kept}


def bound_cell(bound: Mapping[str, float | None], load: str) -> str:
    """Empty where no bound is known; `-` where the pods that must be served have not all room."""
    percent = bound.get(load, "")
    return percent if isinstance(percent, str) else "-" if percent is None else f"{percent:.2f}"


def _head(runs: Sequence[RunResult]) -> str:
    first = runs[0]
    seeds = len({run.seed for run in runs})
    parts = [plural(first.nodes, "node"), plural(first.cards, "card"), plural(first.arrivals, "arrival")]
    return ", ".join(parts if seeds == 1 else [*parts[:2], plural(seeds, "seed")])


def _name(mean: Mean, unicode: bool) -> str:
    return plain(mean.policy, unicode=unicode)


def _loads(means: Sequence[Mean]) -> list[str]:
    reached = sorted({int(load) for mean in means for load in mean.allocation_percent})
    chosen = [load for load in LOADS if load in reached]
    if len(chosen) < 3:
        step = max(1, -(-len(reached) // MOST_LOADS))
        chosen = reached[::-1][::step][::-1]
    if reached and chosen[-1] + _NEAR < reached[-1]:
        chosen.append(reached[-1])
    bounded = max((int(load) for mean in means for load in mean.bound_percent or {}), default=0)
    if chosen and bounded > chosen[-1]:
        chosen.append(bounded)
    return [str(load) for load in chosen[-MOST_LOADS:]]


def _at(mean: Mean, field: str, load: str, digits: int, sign: str) -> str:
    values: Mapping[str, float] = getattr(mean, field)
    if load not in values:
        return ""
    spread = f"{sign}{mean.deviation[field][load]:.{digits}f}" if len(mean.seeds) > 1 else ""
    return f"{values[load]:.{digits}f}{spread}"


def _counts(title: str, names: Sequence[str], counts: Sequence[Mapping[str, float]], width: int) -> list[Line]:
    kinds = list(dict.fromkeys(kind for each in sorted(counts, key=len, reverse=True) for kind in each))
    if not kinds:
        return []
    rows = [[count(each.get(kind, 0)) for kind in kinds] for each in counts]
    return titled(title, ["policy", *kinds], names, rows, width)


def _end(mean: Mean) -> list[str]:
    energy = "" if mean.energy_kwh is None else f"{mean.energy_kwh:,.1f}"
    over_time = "" if mean.mean_allocation_percent is None else f"{mean.mean_allocation_percent:.2f}"
    free = f"{mean.final_unallocated_cards:,.1f}"
    return [f"{mean.final_allocation_percent:.2f}", free, count(mean.failed), energy, over_time]


def count(number: float) -> str:
    """A number of things, or a mean of numbers."""
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.1f}"


def titled(
    title: str, heads: Sequence[str], names: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> list[Line]:
    """A table with its title above and a space below; a row begins with its name."""
    lines = texts(heads, [[name, *row] for name, row in zip(names, rows, strict=True)], width)
    return [((title, "bold"),), *lines, ()]
