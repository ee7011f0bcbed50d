"""A plan, one of its nodes, or a machine as one SVG picture: who sits where, readable at 1000 pixels.

Pure: the same plan gives the same bytes. Everything foreign is escaped; no script, no style sheet, nothing fetched.
The background is set, so that the picture is the same on a dark page.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.fleet.plan import Placement, Plan, PlannedNode
from bayplan.machine import Machine
from bayplan.report.layout import kinds_of_cores, layout
from bayplan.report.rows import refusals_by_kind, summary
from bayplan.report.seating import DOUBLE, FREE, RESERVED, SHARED, VACANT, Seat, Seating, by_node, seating
from bayplan.report.svg_boxes import Look, arrange, cells_to_try, described, paint
from bayplan.report.svg_marks import FAINT, INK, Marks, fitting, letter_of, number, rectangle, safe, words
from bayplan.report.words import machine_counts, plural, spaced, used_of

WIDTH = 1000.0
# A picture of more nodes, or of more CPUs, is larger than browsers and people bear.
MOST_NODES = 24
MOST_CPUS = 40_000
_MARGIN = 16.0
_STATE_TEXTS = {
    SHARED: "shared pool",
    RESERVED: "reserved for the system",
    FREE: "not handed out",
    DOUBLE: "held by more than one container",
}


def draw_plan(plan: Plan) -> str:
    """The plan's nodes below each other, each with its legend; what was refused at the end."""
    marks = Marks()
    placed = by_node(plan)
    shown = drawn_nodes(plan)
    made = [words(_MARGIN, 28, safe(summary(plan), 120), size=16, weight="700")]
    y = 44.0
    for node in shown:
        parts, y = _node(node, placed.get(node.name, []), y, marks)
        made += parts
        y += 14
    if len(shown) < len(plan.nodes):
        left = plural(len(plan.nodes) - len(shown), "more node", "more nodes")
        made.append(words(_MARGIN, y + 12, f"{left} not drawn", size=12, fill=FAINT))
        y += 22
    parts, y = _refused(plan, y)
    return _picture([*made, *parts], y, marks, f"Plan: {summary(plan)}")


def draw_node(node: PlannedNode, placements: Sequence[Placement], *, prefix: str = "") -> str:
    """One node with the pods placed on it. `prefix` keeps ids apart where several pictures share a page."""
    marks = Marks(prefix)
    parts, y = _node(node, placements, 4.0, marks)
    return _picture(parts, y, marks, f"Node {node.name}")


def draw_machine(machine: Machine) -> str:
    """A machine with nobody on it: each core bears the number of its first CPU, the others are in its tooltip."""
    marks = Marks()
    head = words(_MARGIN, 20, safe(machine.name, 100), size=16, weight="700")
    facts = words(_MARGIN, 37, safe(machine_counts(machine), 150), fill=FAINT)

    def label(cpu: int) -> str:
        return "isolated" if cpu in machine.isolated else "online"

    look = Look(marks, lambda cpu: VACANT, label, {}, lambda core: f"{core.kind}{core.cpus[0]}")
    digits = len(str(max(machine.online, default=0))) + bool(machine.core_kinds)
    parts, y = _boxes(machine, digits, 44.0, look)
    return _picture([head, facts, *parts], y, marks, f"Machine {machine.name}")


def drawn_nodes(plan: Plan) -> tuple[PlannedNode, ...]:
    """The nodes that a picture shows: the first ones, as many as it bears."""
    shown: list[PlannedNode] = []
    cpus = 0
    for node in plan.nodes[:MOST_NODES]:
        cpus += len(node.machine.online)
        if shown and cpus > MOST_CPUS:
            break
        shown.append(node)
    return tuple(shown)


def _picture(parts: Sequence[str], height: float, marks: Marks, title: str) -> str:
    tall = number(height + _MARGIN)
    wide = number(WIDTH)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}" '
        f'role="img" '
        f'aria-label="{safe(title)}" font-family="system-ui,Segoe UI,DejaVu Sans,sans-serif">'
    )
    ground = rectangle(0, 0, WIDTH, height + _MARGIN, fill="#ffffff")
    return "\n".join([head, f"<title>{safe(title)}</title>", marks.definitions(), ground, *parts, "</svg>"]) + "\n"


def _node(node: PlannedNode, placements: Sequence[Placement], y: float, marks: Marks) -> tuple[list[str], float]:
    """Heading, boxes and legend of a node from `y` down, and where they end."""
    seats = seating(node, placements)
    room = WIDTH - 2 * _MARGIN
    use = [f"{resource} {used_of(node, resource)}" for resource in node.allocatable]
    settings = [f"{key} {value}" for key, value in node.settings.items()]
    kinds = [f"{mark}: CPUs {cpus}" for mark, cpus in kinds_of_cores(node.machine).items()]
    lines = [
        f"{node.machine.name} · {machine_counts(node.machine)}",
        "; ".join(use),
        ", ".join(settings),
        "; ".join(kinds),
    ]
    made = [words(_MARGIN, y + 16, fitting(node.name, room, 15), size=15, weight="700")]
    y += 24
    for line in filter(None, lines):
        made.append(words(_MARGIN, y + 10, fitting(line, room, 12), fill=FAINT))
        y += 16
    look = Look(marks, seats.state, lambda cpu: _holder(cpu, node, seats), seats.device_holders)
    boxes, y = _boxes(node.machine, seats.code_width, y + 6, look)
    legend, y = _legend(seats, y + 6, marks)
    return [*made, *boxes, *legend], y


def _holder(cpu: int, node: PlannedNode, seats: Seating) -> str:
    """Who sits on a CPU, in words."""
    holders = seats.holders.get(cpu)
    if holders:
        return " and ".join(f"{seat.pod}/{seat.container}" for seat in holders)
    isolated = ", isolated" if cpu in node.machine.isolated else ""
    return f"{_STATE_TEXTS[str(seats.state(cpu))]}{isolated}"


def _boxes(machine: Machine, letters: int, y: float, look: Look) -> tuple[list[str], float]:
    """The machine's boxes from `y` down; of cells of several widths those that leave the picture lowest."""
    threads = max((len(core.cpus) for core in machine.cores), default=1)
    cores = max(len(machine.cores), len(machine.online) // max(threads, 1))
    if look.name is not None:
        letters = -(-letters // threads)
    root = layout(machine)
    room = WIDTH - 2 * _MARGIN
    tries = [(arrange(root, room, cell), cell) for cell in cells_to_try(cores, threads, letters)]
    within = [one for one in tries if one[0].width <= room + 0.5] or tries[-1:]
    placed, cell = min(within, key=lambda one: one[0].height)
    drawn = paint(placed, _MARGIN, y, cell, look)
    return [f"<g><desc>{safe(described(placed))}</desc>", *drawn, "</g>"], y + placed.height


def _legend(seats: Seating, y: float, marks: Marks) -> tuple[list[str], float]:
    """A swatch with its letter for each container, then what the patterns mean."""
    entries: list[tuple[Seat | str, str, str]] = [
        (seat, f"{seat.pod}/{seat.container}", f"CPUs {spaced(str(seat.cpus))}") for seat in seats.seats
    ]
    if seats.doubled:
        entries.append((DOUBLE, _STATE_TEXTS[DOUBLE], f"CPUs {spaced(str(seats.doubled))}"))
    if seats.reserved:
        entries.append((RESERVED, _STATE_TEXTS[RESERVED], f"CPUs {spaced(str(seats.reserved))}"))
    if seats.shared:
        entries.append((SHARED, f"shared pool, {plural(len(seats.shared), 'CPU')}", _sharers(seats)))
    if seats.free:
        entries.append((FREE, _STATE_TEXTS[FREE], f"CPUs {spaced(str(seats.free))}"))
    across = 3 if len(entries) > 4 else 2
    column = (WIDTH - 2 * _MARGIN) / across
    made = []
    for index, (state, name, detail) in enumerate(entries):
        x, top = _MARGIN + index % across * column, y + index // across * 34
        swatch = 14.0 + 8 * seats.code_width
        made.append(marks.area(state, x, top + 3, swatch, 20))
        made.append(rectangle(x, top + 3, swatch, 20, stroke="#4d5763", radius=2, dash="2 2" if state == FREE else ""))
        letter, ink = letter_of(state)
        if letter:
            made.append(words(x + swatch / 2, top + 17, letter, size=11, fill=ink, anchor="middle", mono=True))
        room = column - swatch - 18
        made.append(f"<g><title>{safe(f'{name}: {detail}' if detail else name, 600)}</title>")
        made.append(words(x + swatch + 7, top + 12, fitting(name, room, 12), weight="600"))
        made.append(
            f"{words(x + swatch + 7, top + 26, fitting(detail, room, 11), size=11, fill=FAINT) if detail else ''}</g>"
        )
    return made, y + (len(entries) + across - 1) // across * 34


def _sharers(seats: Seating) -> str:
    names = [f"{pod}/{container}" for pod, container in seats.sharers[:8]]
    more = f" and {len(seats.sharers) - 8:,} more" if len(seats.sharers) > 8 else ""
    return ", ".join(names) + more


def _refused(plan: Plan, y: float) -> tuple[list[str], float]:
    """A line for each kind of refusal."""
    if not plan.refused:
        return [], y
    made = [
        words(_MARGIN, y + 14, f"{plural(len(plan.refused), 'pod')} refused", size=14, fill="#a3141a", weight="700")
    ]
    y += 22
    for refusal, pods in refusals_by_kind(plan.refused)[:12]:
        names = ", ".join(p.pod.full_name for p in pods[:3]) + (f" and {len(pods) - 3:,} more" if len(pods) > 3 else "")
        line = fitting(f"{names}: {refusal.reason}: {refusal.message}", WIDTH - 2 * _MARGIN, 12)
        made.append(words(_MARGIN, y + 12, line, fill=INK))
        y += 18
    return made, y
