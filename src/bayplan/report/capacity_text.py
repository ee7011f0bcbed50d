"""Fleets beside each other in the terminal: as it is and as it would be, and the smallest that will do."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.report.canvas import Line, paint
from bayplan.report.plain import plain
from bayplan.report.simulation_text import bound_cell, count, titled
from bayplan.report.words import plural
from bayplan.simulate.capacity import Size, Sizing, WhatIf
from bayplan.simulate.summary import Mean, Runs


def what_if_text(found: WhatIf, width: int, color: bool, unicode: bool) -> str:
    """For each policy, a table with a column for before and one for after."""
    changes = "; ".join(plain(change, unicode=unicode) for change in found.what_if)
    lines: list[Line] = [((f"What if: {changes}", "bold"),), ()]
    for policy, before in found.before.mean.items():
        facts = [
            dict(_facts(runs, mean)) for runs, mean in ((found.before, before), (found.after, found.after.mean[policy]))
        ]
        names = list(dict.fromkeys(name for each in facts for name in each))
        rows = [[each.get(name, "") for each in facts] for name in names]
        seeds = f", mean of {plural(len(before.seeds), 'seed')}" if len(before.seeds) > 1 else ""
        title = f"{plain(policy, unicode=unicode)}{seeds}"
        lines += titled(title, ["at the end", "before", "after"], names, rows, width)
    return paint(lines[:-1], color=color)


def sizing_text(found: Sizing, width: int, color: bool, unicode: bool) -> str:
    """A row for each policy, and what the fleets consist of where that is of several kinds."""
    seeds = f" in each of {len(found.seeds)} seeds" if len(found.seeds) > 1 else ""
    head = f"The smallest fleet that refuses at most {found.refused_at_most_percent:g} % of the pods{seeds}"
    beside = f", beside {found.other:,} others" if found.other else ""
    lines: list[Line] = [
        ((head, "bold"),),
        ((f"Now there are {plural(found.now, 'node')} of these kinds{beside}.", ""),),
        (),
    ]
    names = [plain(size.policy, unicode=unicode) for size in found.sizes]
    heads = ["policy", "nodes", "refused %", "with one fewer %", "no policy with fewer than"]
    lines += titled("Nodes", heads, names, [_size(size) for size in found.sizes], width)
    kinds = list(dict.fromkeys(kind for size in found.sizes for kind in size.kinds))
    shown = [plain(kind, unicode=unicode) for kind in kinds]
    by_kind = [[count(size.kinds[kind]) if size.kinds else "" for size in found.sizes] for kind in kinds]
    if kinds:
        lines += titled("Of each kind", ["kind", *names], shown, by_kind, width)
    return paint(lines[:-1], color=color)


def _facts(runs: Runs, mean: Mean) -> Sequence[tuple[str, str]]:
    """What there is to say of a fleet at the end of its runs, by name."""
    run = runs.runs[0]
    highest = max(map(int, mean.allocation_percent), default=0)
    bound = bound_cell(mean.bound_percent or {}, str(highest))
    at_most, timed = mean.allocation_percent.get(str(highest)), mean.energy_kwh is not None
    power = mean.power_kw.get(str(highest))
    facts = [
        ("nodes", count(run.nodes)),
        ("cards", count(run.cards)),
        ("highest load, percent of the cards", str(highest)),
        ("refused pods", count(mean.failed)),
        ("... percent", f"{100 * mean.failed / max(run.arrivals, 1):.2f}"),
        *((f"... {kind}", count(often)) for kind, often in mean.refused.items()),
        ("allocated, percent of the cards", f"{mean.final_allocation_percent:.2f}"),
        ("... at the highest load", "" if at_most is None or not timed else f"{at_most:.2f}"),
        ("... no policy above", bound),
        ("cards free", f"{mean.final_unallocated_cards:,.1f}"),
        ("power at the highest load, kW", "" if power is None else f"{power:,.1f}"),
        ("energy, kWh", "" if mean.energy_kwh is None else f"{mean.energy_kwh:,.1f}"),
    ]
    return [(name, text) for name, text in facts if text]


def _size(size: Size) -> list[str]:
    nodes = f"not with {size.probes[-1].nodes:,}" if size.nodes is None else count(size.nodes)
    return [nodes, f"{size.refused_percent:.2f}", _fewer(size), count(size.bound_nodes)]


def _fewer(size: Size) -> str:
    if size.one_fewer is not None:
        return f"{size.one_fewer.refused_percent:.2f}"
    return "no policy" if size.nodes and size.nodes == size.bound_nodes else ""
