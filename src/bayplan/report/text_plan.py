"""A plan in the terminal: a line for each container, who sits where on each node, warnings, one line to sum up.

Up to `DRAWN_NODES` nodes are drawn; more become a table, and then only refused pods are listed, by kind. Letters and
patterns carry the meaning, colour is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from bayplan.fleet.plan import Placement, Plan, PlannedNode
from bayplan.report.canvas import ASCII, UNICODE, Line, length, seat_style, trim, wrap
from bayplan.report.layout import layout
from bayplan.report.plain import MESSAGE_LIMIT
from bayplan.report.rows import summary, warnings_by_text
from bayplan.report.seating import DOUBLE, FREE, RESERVED, SHARED, Seat, Seating, by_node, seating
from bayplan.report.table import natural_width, table
from bayplan.report.text_boxes import Pen, draw, seat_cell
from bayplan.report.text_containers import container_lines, kind_lines
from bayplan.report.words import amount, machine_counts, plural, spaced, used_of

DRAWN_NODES = 3
_COLLAPSE_CPUS = 512
_NAMES_SHOWN = 6
_WARNINGS_SHOWN = 8


def plan_lines(plan: Plan, *, width: int, unicode: bool) -> list[Line]:
    """The whole report, in styled lines."""
    pen = Pen(glyphs=UNICODE if unicode else ASCII, unicode=unicode, cell=lambda core: (), cell_width=1)
    placed = by_node(plan)
    drawn = len(plan.nodes) <= DRAWN_NODES
    lines: list[Line] = []
    if drawn:
        lines += container_lines(plan, width, pen)
    elif plan.refused:
        lines += kind_lines(plan.refused, width, pen)
    if drawn:
        for node in plan.nodes:
            lines += [(), *_node(node, seating(node, placed.get(node.name, [])), width, pen)]
    else:
        lines += [(), *_nodes_table(plan, placed, width, pen)]
    warnings = _warnings(plan, width, pen)
    if warnings:
        lines += [(), *warnings]
    style = "bad" if plan.refused else "good"
    mark = pen.glyphs.bad if plan.refused else pen.glyphs.good
    return [*lines, (), ((f"{mark} ", style), (summary(plan), "bold"))]


def _node(node: PlannedNode, seats: Seating, width: int, pen: Pen) -> list[Line]:
    """Heading, drawing and legend of one node."""
    glyphs = pen.glyphs

    def text_of(cpu: int) -> tuple[str, str]:
        state = seats.state(cpu)
        if isinstance(state, Seat):
            return state.code, seat_style(state.index)
        mark = {SHARED: glyphs.shared, RESERVED: glyphs.reserved, FREE: glyphs.free, DOUBLE: glyphs.double}[state]
        return mark * seats.code_width, "" if state == FREE else state

    threads = max((len(core.cpus) for core in node.machine.cores), default=1)
    pen = pen._replace(
        cell=lambda core: seat_cell(core, text_of),
        holders=seats.device_holders,
        cell_width=threads * seats.code_width,
        number_rows=True,
        collapse=len(node.machine.online) > _COLLAPSE_CPUS,
    )
    head: Line = (
        (pen.safe(node.name, 80), "bold"),
        (f"  {pen.safe(node.machine.name)}, {pen.safe(node.policy)}", "dim"),
    )
    settings = ", ".join(f"{pen.safe(k)} {pen.safe(v)}" for k, v in node.settings.items())
    use = "; ".join(f"{pen.safe(resource)} {used_of(node, resource)}" for resource in node.allocatable)
    return [
        head,
        ((pen.own(machine_counts(node.machine)), "dim"),),
        *(wrap(settings, width, style="dim") if settings else []),
        *(wrap(use, width) if use else []),
        *draw(layout(node.machine), width, pen).lines,
        *_legend(seats, width, pen),
    ]


def _legend(seats: Seating, width: int, pen: Pen) -> list[Line]:
    """Every mark that the drawing has, the letters first, side by side where the names leave room."""
    glyphs = pen.glyphs
    entries: list[Line] = []
    for seat in seats.seats:
        name = pen.safe(f"{seat.pod}/{seat.container}", 76)
        entries.append(
            ((f" {seat.code} ", seat_style(seat.index)), (f" {name}", ""), (f" {pen.safe(str(seat.cpus), 24)}", "dim"))
        )
    lines = _in_columns(entries, width, pen)
    doubled = seats.doubled
    if doubled:
        lines += wrap(
            f"{glyphs.double} held by more than one container: CPUs {spaced(str(doubled))}", width, style="bad"
        )
    if seats.reserved:
        lines.append(
            ((glyphs.reserved, "reserved"), (f" reserved for the system: CPUs {pen.safe(str(seats.reserved), 50)}", ""))
        )
    sharers = ", ".join(pen.safe(f"{pod}/{container}", 80) for pod, container in seats.sharers[:_NAMES_SHOWN])
    more = f" and {len(seats.sharers) - _NAMES_SHOWN:,} more" if len(seats.sharers) > _NAMES_SHOWN else ""
    if seats.shared or sharers:
        pool = f"{glyphs.shared} shared pool, {plural(len(seats.shared), 'CPU')}"
        lines += wrap(f"{pool}: {sharers}{more}" if sharers else pool, width, later="  ")
    if seats.free:
        lines += wrap(f"{glyphs.free} not handed out: CPUs {spaced(str(seats.free))}", width, style="dim")
    return lines


def _in_columns(entries: Sequence[Line], width: int, pen: Pen) -> list[Line]:
    if not entries:
        return []
    wide = min(max(length(entry) for entry in entries), width)
    count = max(1, (width + 2) // (wide + 2))
    lines: list[Line] = []
    for start in range(0, len(entries), count):
        spans: list[tuple[str, str]] = []
        for entry in entries[start : start + count]:
            short = trim(entry, wide, pen.unicode)
            spans += [*short, (" " * (wide - length(short) + 2), "")]
        lines.append(tuple(spans[:-1]))
    return lines


def _nodes_table(plan: Plan, placed: dict[str, list[Placement]], width: int, pen: Pen) -> list[Line]:
    """A line for each node; neighbours that differ in nothing but their name on one."""
    resources = list(dict.fromkeys(name for node in plan.nodes for name in node.allocatable))
    rows: list[tuple[str, list[str]]] = []
    for node in plan.nodes:
        pods = placed.get(node.name, [])
        containers = sum(len(p.decision.grants) for p in pods if p.decision is not None)
        exclusive = sum(len(g.exclusive) for p in pods if p.decision for g in p.decision.grants)
        use = [_used(node, resource) for resource in resources]
        rows.append((node.name, [node.machine.name, str(len(pods)), str(containers), str(exclusive), *use]))
    merged: list[list[tuple[str, str]]] = []
    for cells, group in groupby(rows, key=lambda row: row[1]):
        names = [name for name, _ in group]
        first = pen.safe(names[0], 40)
        name = first if len(names) == 1 else f"{first} .. {pen.safe(names[-1], 40)} ({len(names)})"
        merged.append([(name, "bold"), *((pen.safe(cell, 40), "") for cell in cells)])
    heads = ["node", "machine", "pods", "containers", "exclusive", *(pen.safe(r, 24) for r in resources)]
    if natural_width(heads, merged) > width:
        heads, merged = _use_in_words(heads, merged)
    return [line for row in table(heads, merged, width) for line in row]


def _use_in_words(
    heads: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]
) -> tuple[list[str], list[list[tuple[str, str]]]]:
    """The same table with all resources in one last column, which wraps where columns of their own have no room."""
    told = []
    for row in rows:
        use = [f"{head} {text}" for head, (text, _) in zip(heads[5:], row[5:], strict=True) if text != "-"]
        told.append([*row[:5], (", ".join(use), "")])
    return [*heads[:5], "used/allocatable"], told


def _used(node: PlannedNode, resource: str) -> str:
    if resource not in node.allocatable:
        return "-"
    used, of = node.used.get(resource, 0), node.allocatable[resource]
    return f"{amount(resource, used).removesuffix(' CPUs')}/{amount(resource, of).removesuffix(' CPUs')}"


def _warnings(plan: Plan, width: int, pen: Pen) -> list[Line]:
    """Every warning once, with the places it holds for; of many of one name the first."""
    lines: list[Line] = []
    told: dict[str, int] = {}
    for (name, message), where in warnings_by_text(plan).items():
        told[name] = told.get(name, 0) + 1
        if told[name] > _WARNINGS_SHOWN:
            continue
        names = ", ".join(pen.safe(place, 80) for place in where[:_NAMES_SHOWN])
        more = f" and {len(where) - _NAMES_SHOWN:,} more" if len(where) > _NAMES_SHOWN else ""
        text = f"{pen.safe(name)}: {pen.safe(message, MESSAGE_LIMIT)}" + (f" ({names}{more})" if names else "")
        lines += wrap(text, width, first=f"{pen.glyphs.warn} ", style="warn")
    for name, count in told.items():
        if count > _WARNINGS_SHOWN:
            text = f"{pen.safe(name)}: {count - _WARNINGS_SHOWN:,} more of this name; -o json has them all"
            lines += wrap(text, width, first=f"{pen.glyphs.warn} ", style="warn")
    return lines
