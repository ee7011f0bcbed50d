"""Places the nested boxes of a layout on a plane, and draws them: packages, NUMA nodes, caches, cores.

Two steps: `arrange` gives every box and core its rectangle within a width, `paint` turns them into SVG. The boxes are
those of `layout`, as in the terminal, so that the two pictures never disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from bayplan.idset import CpuSet
from bayplan.machine import Device
from bayplan.quantity import format_size
from bayplan.report.layout import Box, BoxKind, CoreBox, like, per_row
from bayplan.report.plain import columns
from bayplan.report.seating import FREE, Seat
from bayplan.report.svg_marks import FAINT, Marks, fitting, letter_of, rectangle, safe, words
from bayplan.report.words import cache_title, device_text, node_facts, node_title, plural, spaced

_PAD, _GAP, _CELL_GAP, _LINE = 8.0, 8.0, 3.0, 16.0
# Longer rows of cores are hard to count.
_ROW_CELLS = 16
_CHIP = 18.0
# Pixels of a letter in a title: bold and in the widest of the usual fonts.
_TITLE = 7.3
_TRIED_CORES = 1024
_LOOKS: dict[BoxKind, tuple[str, str, str]] = {
    "machine": ("none", "", ""),
    "package": ("#f1f3f5", "#7d8794", ""),
    "die": ("#fafafa", "#7d8794", "5 3"),
    "node": ("#e6effa", "#4a78b5", ""),
    "cache": ("#fbf8ff", "#9a82bd", ""),
}
_INKS: dict[BoxKind, str] = {"package": "#1b2330", "die": "#1b2330", "node": "#1f4e8c", "cache": "#654a8f"}


class Cell(NamedTuple):
    """How large a core is drawn: `across` by `down` threads of `width` by `height` pixels, letters of `font`."""

    across: int
    down: int
    width: float
    height: float
    font: float

    @property
    def total(self) -> tuple[float, float]:
        """Pixels of the whole core."""
        return self.across * self.width, self.down * self.height


def cell_for(cores: int, threads: int, letters: int) -> Cell:
    """Cells as large as a machine of so many cores allows."""
    font, height = (11.0, 22.0) if cores <= 128 else (10.0, 17.0) if cores <= 512 else (8.0, 12.0)
    down = 1 if threads <= 2 else 2 if threads <= 8 else math.ceil(threads / 4)
    across = math.ceil(threads / down)
    least = 26.0 if cores <= 128 and across == 1 else 0.0
    return Cell(across, down, max(letters * font * 0.62 + font * 0.6, least), height / (1.3 if down > 1 else 1), font)


def cells_to_try(cores: int, threads: int, letters: int) -> list[Cell]:
    """The same with wider and narrower cells, of which a picture takes the one that fills its width best."""
    base = cell_for(cores, threads, letters)
    if cores > _TRIED_CORES:
        return [base]
    least = letters * base.font * 0.62 + 2
    return [base._replace(width=max(base.width * factor, least)) for factor in (1.9, 1.6, 1.35, 1.15, 1.0, 0.85)]


class Placed(msgspec.Struct):
    """A box with its rectangle (x and y relative to the box around it) and what is in it."""

    box: Box
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    lines: list[tuple[str, str]] = []
    children: list[Placed] = []
    cells: list[tuple[CoreBox, float, float]] = []
    notes: list[tuple[str, float]] = []
    chips: list[tuple[Device, float, float, float]] = []


def arrange(box: Box, width: float, cell: Cell) -> Placed:
    """The box and all in it, at most about `width` wide."""
    lines = _lines(box)
    top = (_PAD if lines else 0.0) + _LINE * len(lines)
    edge = _PAD if box.kind != "machine" else 0.0
    placed = Placed(box, width, 0.0, lines=lines)
    inner = width - 2 * edge
    steps = [_children, _grid]
    if box.cores and box.children and box.cores[0].cpus[0] < box.children[0].cpus.first():
        steps.reverse()
    bottom, right = top + (2.0 if lines else 0.0), 0.0
    for step in steps:
        bottom, reached = step(placed, edge, bottom, inner, cell)
        right = max(right, reached)
    titles = max((columns(text) * (_TITLE if i == 0 else 6.3) for i, (text, _) in enumerate(lines)), default=0.0)
    right = max(right, min(titles + edge, width - edge))
    bottom, right = _below(placed, edge, bottom, max(right - edge, min(inner, 150.0)), right)
    placed.width = min(max(right + edge, 0.0), max(width, right + edge))
    placed.height = bottom + (edge - _GAP if bottom > top else edge / 2)
    return placed


def _lines(box: Box) -> list[tuple[str, str]]:
    """Title and facts of a box, with the font weight of each."""
    part = " (part)" if box.part else ""
    if box.node is not None:
        facts = node_facts(box.node)
        return [(f"NUMA {node_title(box.node)}{part}", "600"), *([(facts, "")] if facts else [])]
    if box.cache is not None:
        inner = f" · {box.label}" if box.label else ""
        return [(f"{cache_title(box.cache)}{inner}{part}", "")]
    if box.kind == "machine":
        return []
    return [(f"{box.kind.capitalize()} {box.id}{part}" + (f" · {box.label}" if box.label else ""), "700")]


def _children(placed: Placed, edge: float, top: float, inner: float, cell: Cell) -> tuple[float, float]:
    boxes = placed.box.children
    if not boxes:
        return top, 0.0
    count = per_row(len(boxes), inner, max(_need(child, cell) for child in boxes), _GAP)
    column = (inner - _GAP * (count - 1)) / count
    made = [arrange(child, column, cell) for child in boxes]
    wide = max(child.width for child in made)
    y = top
    for start in range(0, len(made), count):
        row = made[start : start + count]
        tall = max(child.height for child in row)
        for index, child in enumerate(row):
            child.x, child.y, child.width, child.height = edge + index * (wide + _GAP), y, wide, tall
        y += tall + _GAP
    placed.children = made
    return y, edge + min(count, len(made)) * (wide + _GAP) - _GAP


def _need(box: Box, cell: Cell) -> float:
    """The least width at which a box is pleasant to see."""
    own = min(len(box.cores), 4) * (cell.total[0] + _CELL_GAP)
    title = {"node": 182.0, "package": 130.0}.get(box.kind, 60.0)
    return max([own, title, *(_need(child, cell) for child in box.children)]) + 2 * _PAD


def _grid(placed: Placed, edge: float, top: float, inner: float, cell: Cell) -> tuple[float, float]:
    cores = placed.box.cores
    if not cores:
        return top, 0.0
    wide, tall = cell.total
    count = per_row(len(cores), min(inner, _ROW_CELLS * (wide + _CELL_GAP)), wide, _CELL_GAP)
    for index, core in enumerate(cores):
        x = edge + index % count * (wide + _CELL_GAP)
        y = top + index // count * (tall + _CELL_GAP)
        placed.cells.append((core, x, y))
    rows = math.ceil(len(cores) / count)
    return top + rows * (tall + _CELL_GAP) + _GAP - _CELL_GAP, edge + min(count, len(cores)) * (
        wide + _CELL_GAP
    ) - _CELL_GAP


def _below(placed: Placed, edge: float, top: float, room: float, right: float) -> tuple[float, float]:
    """Memory without CPUs, then devices as chips that flow in the width there is."""
    y = top
    for ids, node in like(placed.box.memory):
        amount = f"{format_size(node.memory_bytes)} {node.kind}" if node.memory_bytes else f"no memory ({node.kind})"
        many = "node" if len(ids) == 1 else "nodes"
        each = " each" if len(ids) > 1 and node.memory_bytes else ""
        text = f"NUMA {many} {spaced(str(ids))}: no CPUs, {amount}{each}"
        placed.notes.append((text, y + 12))
        right = max(right, edge + columns(text) * 6.3)
        y += _LINE
    y += _GAP if placed.notes else 0.0
    x = edge
    for device in placed.box.devices:
        wide = min(columns(chip_text(device)) * 6.2 + 34, room)
        if x > edge and x + wide > edge + room:
            x, y = edge, y + _CHIP + 4
        placed.chips.append((device, x, y, wide))
        right = max(right, x + wide)
        x += wide + 4
    return (y + _CHIP + _GAP if placed.box.devices else y), right


def chip_text(device: Device) -> str:
    """What is written on a device: its kind and its name, or where it has none its address."""
    kind = {"gpu": "GPU", "network": "NIC", "storage": "disk"}.get(device.kind, device.kind)
    return f"{kind} {device.name or device.address.removeprefix('0000:')}"


class Look(NamedTuple):
    """What the places show: `state` and `label` of a CPU (who sits there, for the tooltip), who holds a device,
    `name` what is written across a whole core (None: the letters of those who sit there)."""

    marks: Marks
    state: Callable[[int], Seat | str]
    label: Callable[[int], str]
    devices: dict[str, tuple[str, str]]
    name: Callable[[CoreBox], str] | None = None


def paint(placed: Placed, x: float, y: float, cell: Cell, look: Look) -> list[str]:
    """SVG of an arranged box; its rectangle is taken from the corner (x, y) of the box around it."""
    x, y = x + placed.x, y + placed.y
    fill, stroke, dash = _LOOKS[placed.box.kind]
    made: list[str] = []
    if placed.box.kind != "machine":
        made.append(rectangle(x, y, placed.width, placed.height, fill=fill, stroke=stroke, radius=5, dash=dash))
    ink = _INKS.get(placed.box.kind, FAINT)
    for index, (text, weight) in enumerate(placed.lines):
        shown = fitting(
            text, placed.width - 2 * _PAD, (14 if placed.box.kind == "package" else 12) if index == 0 else 11
        )
        made.append(
            words(
                x + _PAD,
                y + _PAD + 8 + index * _LINE,
                shown,
                size=12 if index == 0 and placed.box.kind == "package" else 11,
                fill=ink,
                weight=weight,
            )
        )
    made += _numbers(placed, x, y)
    for child in placed.children:
        made += paint(child, x, y, cell, look)
    for core, left, top in placed.cells:
        made.append(_core(core, x + left, y + top, cell, look))
    made += [words(x + _PAD, y + top, fitting(text, 900, 11), size=11, fill="#1f4e8c") for text, top in placed.notes]
    for device, left, top, wide in placed.chips:
        made.append(_chip(device, x + left, y + top, wide, look.devices))
    return made


def _numbers(placed: Placed, x: float, y: float) -> list[str]:
    """The CPUs of a box that has cores, in the corner across from its title, where there is room."""
    if not placed.cells or not placed.lines:
        return []
    cpus = CpuSet(cpu for core, _, _ in placed.cells for cpu in core.cpus)
    room = placed.width - 3 * _PAD - columns(placed.lines[0][0]) * _TITLE
    texts = (spaced(f"CPUs {cpus}"), spaced(str(cpus)), f"CPUs {cpus.first()}…")
    text = next((text for text in texts if columns(text) * 5.7 <= room), "")
    if not text:
        return []
    return [words(x + placed.width - _PAD, y + _PAD + 8, safe(text), size=10, fill=FAINT, anchor="end")]


def _core(core: CoreBox, x: float, y: float, cell: Cell, look: Look) -> str:
    states = [look.state(cpu) for cpu in core.cpus]
    wide, tall = cell.total
    made: list[str] = []
    for first, last in _same(states, cell.across):
        left = x + first % cell.across * cell.width
        top = y + first // cell.across * cell.height
        rows = last // cell.across - first // cell.across + 1
        across = cell.across if rows > 1 else last - first + 1
        # The last thread takes what an incomplete core leaves open.
        span = wide - (left - x) if last == len(states) - 1 and rows == 1 else across * cell.width
        height = rows * cell.height if last < len(states) - 1 else tall - (top - y)
        made.append(look.marks.area(states[first], left, top, span, height))
        letter, ink = letter_of(states[first])
        if letter:
            middle = top + height / 2 + cell.font * 0.36
            made.append(words(left + span / 2, middle, letter, size=cell.font, fill=ink, anchor="middle", mono=True))
    if look.name is not None:
        middle = y + tall / 2 + cell.font * 0.36
        name = safe(look.name(core), 12)
        made.append(words(x + wide / 2, middle, name, size=cell.font, anchor="middle", mono=True))
    dash = "2 2" if FREE in states else ""
    made.append(rectangle(x, y, wide, tall, stroke="#4d5763", radius=2, dash=dash))
    kind = f" ({core.kind})" if core.kind else ""
    tip = "; ".join(f"CPU {cpu}: {look.label(cpu)}" for cpu in core.cpus)
    return f"<g><title>Core{kind}, {safe(tip, 900)}</title>{''.join(made)}</g>"


def _same(states: Sequence[Seat | str], across: int) -> list[tuple[int, int]]:
    """Neighbouring threads with one holder together: the whole core, or parts of one row."""
    if all(one == states[0] for one in states):
        return [(0, len(states) - 1)]
    spans: list[tuple[int, int]] = []
    for i, one in enumerate(states):
        if spans and states[spans[-1][0]] == one and spans[-1][0] // across == i // across:
            spans[-1] = (spans[-1][0], i)
        else:
            spans.append((i, i))
    return spans


def _chip(device: Device, x: float, y: float, wide: float, holders: dict[str, tuple[str, str]]) -> str:
    code, name = holders.get(device.address, ("", ""))
    shape = rectangle(x, y, wide, _CHIP, fill="#ffd98a" if name else "#fff6e5", stroke="#b9822b", radius=9)
    written = f"{chip_text(device)}: {code}" if code else chip_text(device)
    text = words(x + wide / 2, y + 12.5, fitting(written, wide - 6, 11), size=11, fill="#6b4a12", anchor="middle")
    tip = f"{device_text(device)}: {name}" if name else device_text(device)
    return f"<g><title>{safe(tip, 600)}</title>{shape}{text}</g>"


def described(placed: Placed) -> str:
    """For those who cannot see the picture: how many boxes of each kind it has."""
    counts: dict[str, int] = {}
    waiting = [placed]
    while waiting:
        one = waiting.pop()
        counts[one.box.kind] = counts.get(one.box.kind, 0) + 1
        waiting += one.children
    names = {"package": "package", "die": "die", "node": "NUMA node", "cache": "shared cache"}
    return ", ".join(plural(counts[kind], noun) for kind, noun in names.items() if kind in counts)
