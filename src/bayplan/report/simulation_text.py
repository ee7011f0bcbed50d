"""Simulations as tables in the terminal: policies under each other, loads beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayplan.report.canvas import Line, paint
from bayplan.report.plain import plain
from bayplan.report.table import Cell, table
from bayplan.report.words import plural
from bayplan.simulate.result import RunResult
from bayplan.simulate.summary import Mean, summary

LOADS = (20, 50, 80, 90, 95, 100, 110, 120, 130)
"""Loads for which there is a column, where the runs reached them; otherwise, some that they reached."""
MOST_LOADS = 9
_NEAR = 5
_CURVES = (
    ("allocation_percent", "Allocated, percent of all cards, by load", 2),
    ("fragmentation_percent", "Fragmented, percent of all cards, by load", 2),
    ("power_kw", "Power, kW, by load", 1),
)


def as_text(runs: Sequence[RunResult], *, width: int, color: bool, unicode: bool) -> str:
    """All tables. A policy with several seeds has its mean, and behind it the standard deviation."""
    means = list(summary(runs).mean.values())
    names = [_name(mean, unicode) for mean in means]
    lines = [((_head(runs), "bold"),), ()]
    loads = _loads(means)
    for field, title, digits in _CURVES:
        sign = "±" if unicode else "+-"
        rows = [[_at(mean, field, load, digits, sign) for load in loads] for mean in means]
        lines += _titled(title, ["policy", *loads], names, rows, width)
    lines += _counts("Refused pods, by kind", names, [mean.refused for mean in means], width)
    lines += _counts("Refused pods, by what no node had", names, [mean.refused_by_cause for mean in means], width)
    heads = ["policy", "allocated %", "cards free", "refused", "energy kWh", "allocated % over time"]
    lines += _titled("At the end", heads, names, [_end(mean) for mean in means], width)
    return paint(lines[:-1], color=color)


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
    rows = [[_count(each.get(kind, 0)) for kind in kinds] for each in counts]
    return _titled(title, ["policy", *kinds], names, rows, width)


def _end(mean: Mean) -> list[str]:
    energy = "" if mean.energy_kwh is None else f"{mean.energy_kwh:,.1f}"
    over_time = "" if mean.mean_allocation_percent is None else f"{mean.mean_allocation_percent:.2f}"
    free = f"{mean.final_unallocated_cards:,.1f}"
    return [f"{mean.final_allocation_percent:.2f}", free, _count(mean.failed), energy, over_time]


def _count(number: float) -> str:
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.1f}"


def _titled(
    title: str, heads: Sequence[str], names: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> list[Line]:
    cells: list[list[Cell]] = [
        [(name, ""), *((text, "") for text in row)] for name, row in zip(names, rows, strict=True)
    ]
    lines = [line for row in table(heads, cells, width) for line in row]
    return [((title, "bold"),), *lines, ()]
