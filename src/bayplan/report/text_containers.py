"""Who got what, in the terminal: a line for each container, what was refused and why below its pod.

One table where it fits. Where names are long (and those of real clusters are), what few containers have leaves the
table first; then every pod has a line of its own with its containers below.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.fleet.plan import Placement, Plan
from bayplan.report.canvas import Line, wrap
from bayplan.report.plain import MESSAGE_LIMIT
from bayplan.report.rows import Row, placement_rows, refusals_by_kind
from bayplan.report.table import Cell, natural_width, table
from bayplan.report.text_boxes import Pen
from bayplan.report.words import plural, refusal_numbers, spaced
from bayplan.resources.decision import Refusal

# More refused pods than this are listed by kind, not one by one.
LISTED_REFUSALS = 40
_NAMES_SHOWN = 6
_HEADS = ("pod", "container", "QoS", "node", "CPUs", "memory", "huge pages", "devices")
_RARE = 2
_OF_POD = ("pod", "QoS", "node")


def container_lines(plan: Plan, width: int, pen: Pen) -> list[Line]:
    """Every container with what it holds; refusals in full below their pods unless they are very many."""
    refused = plan.refused
    listed = len(refused) <= LISTED_REFUSALS
    shown = [p for p in plan.placements if listed or p.node is not None]
    pairs = [(placement, row) for placement in shown for row in placement_rows(placement)]
    cells = [_cells(row, len(plan.nodes) == 1, pen) for _, row in pairs]
    lines: list[Line] = []
    head, rows = _arranged([row for _, row in pairs], cells, width, pen)
    lines += head if pairs else []
    for (placement, row), row_lines in zip(pairs, rows, strict=True):
        lines += row_lines
        if row.refusal is not None and row.last:
            lines += refusal_lines(row.refusal, width, pen)
            lines += _elsewhere(placement, width, pen)
    return lines if listed else [*lines, (), *kind_lines(refused, width, pen)]


def _arranged(
    rows: Sequence[Row], cells: Sequence[list[Cell]], width: int, pen: Pen
) -> tuple[list[Line], list[list[Line]]]:
    """The heads, and the lines of each row, in the roomiest form that fits."""
    if natural_width(_HEADS, cells) <= width:
        head, *made = table(_HEADS, cells, width)
        return head, made
    common = [row[:-_RARE] for row in cells]
    if natural_width(_HEADS[:-_RARE], common) <= width:
        head, *made = table(_HEADS[:-_RARE], common, width)
        return head, [lines + _rare(row, width, pen) for row, lines in zip(rows, made, strict=True)]
    own = [i for i, name in enumerate(_HEADS) if name not in _OF_POD]
    narrow = [[row[i] for i in own] for row in cells]
    head, *made = table([_HEADS[i] for i in own], narrow, width - 2)
    indented = [[(("  ", ""), *line) for line in lines] for lines in made]
    whole = [_pod(row, width, pen) + lines for row, lines in zip(rows, indented, strict=True)]
    return [(("  ", ""), *line) for line in head], whole


def _pod(row: Row, width: int, pen: Pen) -> list[Line]:
    """A pod's own line, before its first container."""
    if not row.first:
        return []
    where = f"{row.qos}, on {pen.safe(row.node, 80)}" if row.node else row.qos
    name, place = wrap(pen.safe(row.pod), width, style="bold"), wrap(where, width - 4, style="dim")
    if len(name) == len(place) == 1 and len(name[0][1][0]) + len(where) + 2 <= width:
        return [(*name[0], ("  ", ""), *place[0])]
    return [*name, *((("    ", ""), *line) for line in place)]


def _rare(row: Row, width: int, pen: Pen) -> list[Line]:
    """What a narrow table has no columns for."""
    held = [text for text in (pen.safe(row.devices, 600), row.hugepages) if text]
    return wrap("; ".join(held), width, first="    with ", later="         ", style="dim") if held else []


def _cells(row: Row, one_node: bool, pen: Pen) -> list[Cell]:
    parts = [spaced(row.exclusive)] if row.exclusive else []
    cpus = " + ".join([*parts, "shared"] if row.shared else parts)
    many = "nodes" if "," in row.memory_nodes or "-" in row.memory_nodes else "node"
    return [
        (pen.safe(row.pod, 80), "bold" if row.first else "dim"),
        (pen.safe(row.container, 60) + (" (init)" if row.passing else ""), ""),
        (row.qos, "dim"),
        ("" if one_node else pen.safe(row.node, 40), ""),
        (f"{pen.glyphs.bad} refused", "bad") if row.refusal else (cpus, "node" if row.exclusive else "dim"),
        (f"{many} {spaced(row.memory_nodes)}" if row.memory_nodes else "", ""),
        (row.hugepages, ""),
        (pen.safe(row.devices, 160), ""),
    ]


def refusal_lines(refusal: Refusal, width: int, pen: Pen) -> list[Line]:
    """Reason, message, numbers, and what would have to change."""
    said = f"{pen.safe(refusal.reason)}: {pen.safe(refusal.message, MESSAGE_LIMIT)}"
    lines = wrap(said, width, first="    ", style="bad")
    numbers = refusal_numbers(refusal)
    rule = f"rule {pen.safe(refusal.rule)}" if refusal.rule else ""
    facts = ", ".join(part for part in (pen.safe(numbers, 200), rule) if part)
    lines += wrap(facts, width, first="    ", style="dim") if facts else []
    for remedy in refusal.remedies:
        lines += wrap(pen.safe(remedy, 600), width, first="    to fit: ", later="            ", style="warn")
    return lines


def _elsewhere(placement: Placement, width: int, pen: Pen) -> list[Line]:
    """Counts of the other nodes' reasons, where there was more than one node."""
    if sum(placement.refused_nodes.values()) < 2:
        return []
    counts = ", ".join(f"{pen.safe(reason)} on {plural(n, 'node')}" for reason, n in placement.refused_nodes.items())
    return wrap(counts, width, first="    ", style="dim")


def kind_lines(refused: Sequence[Placement], width: int, pen: Pen) -> list[Line]:
    """Refused pods by kind, with the names of the first."""
    lines: list[Line] = [((f"{plural(len(refused), 'pod')} refused", "bad"),)]
    for refusal, pods in refusals_by_kind(refused):
        names = ", ".join(pen.safe(p.pod.full_name, 80) for p in pods[:_NAMES_SHOWN])
        more = f" and {len(pods) - _NAMES_SHOWN:,} more" if len(pods) > _NAMES_SHOWN else ""
        lines += wrap(f"{plural(len(pods), 'pod')}: {names}{more}", width, first=f"  {pen.glyphs.bad} ", later="    ")
        lines += refusal_lines(refusal, width, pen)
    return lines
