"""Nested boxes of a layout as text: frames for packages, dies and nodes, brackets for caches, a cell for each core.

A box that holds the same CPUs as the one in it (a package with one node with one cache) shares its frame, so that the
depth of a drawing follows what the hardware tells apart. Equal neighbours on large machines are drawn once. What stands
in a cell is the caller's: CPU numbers for a machine, letters for a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from bayplan.idset import MAX_ID, CpuSet, NodeSet
from bayplan.machine import Device
from bayplan.report.canvas import Block, Glyphs, Line, above, beside, block, frame, length, trim, wrap
from bayplan.report.layout import Box, BoxKind, CoreBox, like, per_row, runs
from bayplan.report.plain import plain
from bayplan.report.words import cache_title, device_text, node_facts, node_title, plural, spaced

# Fewer equal boxes than this are all drawn.
COLLAPSE_FROM = 4
# Room for the CPU numbers before a row, the most informative first: a list, the first of them, nothing.
_LABEL_COLUMNS = (16, 6, 0)
_STYLE: dict[BoxKind, str] = {"machine": "bold", "package": "bold", "die": "", "node": "node", "cache": "cache"}


class Pen(NamedTuple):
    """How to draw. `cell` gives the text of a core, `cell_width` its widest; `number_rows` sets CPU numbers before a
    row of cells; `collapse` draws equal neighbours once; `summarise` writes cores as one line instead of cells;
    `holders` says who holds a device (letter, name); `alike` gives what equal cores have in common (None: the cell)."""

    glyphs: Glyphs
    unicode: bool
    cell: Callable[[CoreBox], Line]
    cell_width: int
    number_rows: bool = False
    collapse: bool = False
    summarise: bool = False
    holders: Mapping[str, tuple[str, str]] = MappingProxyType({})
    alike: Callable[[CoreBox], object] | None = None

    def safe(self, text: str, limit: int = 60) -> str:
        """Foreign text in this pen's characters."""
        return plain(text, limit, unicode=self.unicode)

    def own(self, text: str) -> str:
        """The project's own text in this pen's characters."""
        return text if self.unicode else text.replace(" · ", ", ").replace("×", "x")


def draw(root: Box, width: int, pen: Pen) -> Block:
    """What is inside a machine's box, at most `width` columns wide."""
    return _contents(root, width, pen)


def title(box: Box, pen: Pen) -> Line:
    """The heading of a box: `package 0`, `node 1 · 64 GiB dram`, `L3 32 MiB`."""
    part: Line = (("(part) ", "warn"),) if box.part else ()
    if box.node is not None:
        return (*part, (pen.own(node_title(box.node)), "node"))
    if box.cache is not None:
        return (*part, (_cache_name(box, pen), "cache"))
    name: Line = ((f"{box.kind} {box.id}", "bold"),)
    return (*part, *name, *(((f"  {pen.safe(box.label)}", "dim"),) if box.label else ()))


def _cache_name(box: Box, pen: Pen) -> str:
    parts = [cache_title(box.cache)] if box.cache is not None else []
    return pen.own(" · ".join([*parts, *([box.label] if box.label else [])]))


class _Drawn(NamedTuple):
    """A box drawn for some width, to be framed at the width on which its row agrees."""

    title: Line
    inside: Block
    style: str

    @property
    def natural(self) -> int:
        return max(self.inside.width + 4, length(self.title) + 6)

    def framed(self, width: int, glyphs: Glyphs) -> Block:
        return frame(self.title, self.inside, width, glyphs, self.style)


def _drawn(box: Box, width: int, pen: Pen) -> _Drawn:
    chain = _chain(box)
    heads = block(trim(title(inner, pen), width - 4, pen.unicode) for inner in chain[1:])
    facts = [_facts(inner, width - 4, pen) for inner in chain]
    places = [_places(inner, width - 4, pen) for inner in chain[:-1]]
    inside = above([heads, *facts, _contents(chain[-1], width - 4, pen), *places])
    return _Drawn(title(box, pen), inside, _STYLE[box.kind])


def _chain(box: Box) -> list[Box]:
    """The box, and those in it that hold nothing but the same CPUs."""
    chain = [box]
    while len(chain[-1].children) == 1 and not chain[-1].cores:
        chain.append(chain[-1].children[0])
    return chain


def _facts(box: Box, width: int, pen: Pen) -> Block:
    facts = node_facts(box.node) if box.node is not None else ""
    return block(wrap(pen.own(facts), width, style="dim")) if facts else block([])


def _contents(box: Box, width: int, pen: Pen) -> Block:
    framed = [child for child in box.children if not _inline(child)]
    return above([_frames(framed, width, pen), _cells(box, width, pen), _places(box, width, pen)])


def _places(box: Box, width: int, pen: Pen) -> Block:
    return block([*memory_lines(box, width, pen), *device_lines(box, width, pen)])


def _inline(box: Box) -> bool:
    """Whether a box is drawn as brackets in a row of cells: a cache with nothing in it but cores."""
    return box.kind == "cache" and not box.children and not box.devices


def _frames(boxes: Sequence[Box], width: int, pen: Pen) -> Block:
    shown, notes = _collapsed(boxes, pen)
    if not shown:
        return block([])
    count = per_row(len(shown), width, max(_need(child, pen) for child in shown), 1)
    most = (width - (count - 1)) // count
    drawn = [_drawn(child, most, pen) for child in shown]
    wide = min(most, max(each.natural for each in drawn))
    blocks: list[Block] = []
    row: list[Block] = []
    for each, note in zip(drawn, notes, strict=True):
        row.append(each.framed(wide, pen.glyphs))
        if len(row) == count or note:
            blocks.append(beside(row))
            row = []
        if note:
            blocks.append(block(wrap(note, width, later="    ", style="dim")))
    return above([*blocks, beside(row)])


def _collapsed(boxes: Sequence[Box], pen: Pen) -> tuple[list[Box], list[str]]:
    """Boxes to draw, and after each what to say of those left out behind it (empty: nothing)."""
    if not pen.collapse:
        return list(boxes), [""] * len(boxes)
    shown: list[Box] = []
    notes: list[str] = []
    for _, group in groupby(boxes, key=lambda b: _signature(b, pen)):
        members = list(group)
        few = len(members) < COLLAPSE_FROM
        shown += members if few else members[:1]
        notes += [""] * len(members) if few else [_likewise(members[1:])]
    return shown, notes


def _likewise(boxes: Sequence[Box]) -> str:
    kinds: dict[str, list[int]] = {}
    for box in runs(boxes):
        if box.kind != "cache":
            kinds.setdefault(box.kind, []).append(box.id)
    where = ", ".join(f"{kind}s {_ids(ids)}" for kind, ids in kinds.items() if kind != "die")
    cpus = CpuSet.of_mask(sum({box.cpus.mask for box in boxes}))
    return spaced(f"... and {len(boxes)} more like it: {where or plural(len(boxes), 'cache')}, CPUs {cpus}")


def _ids(ids: Sequence[int]) -> str:
    """Ids of boxes as a list, or where that is long the first and the last. Package ids may be any number."""
    known = all(0 <= each <= MAX_ID for each in ids)
    text = str(NodeSet(ids)) if known else ""
    return text if 0 < len(text) <= 40 else f"{min(ids)} to {max(ids)}"


def _signature(box: Box, pen: Pen) -> tuple[object, ...]:
    """What makes two boxes look alike, their numbers apart."""
    cells = [(pen.alike or pen.cell)(core) for core in box.cores]
    memory = [(len(ids), node.kind, f"{node.memory_bytes:.1e}") for ids, node in like(box.memory)]
    # Firmware keeps some megabytes for itself on one node or other: two digits say whether nodes are of one size.
    own = (f"{box.node.memory_bytes:.1e}", box.node.kind, box.node.hugepages) if box.node else _cache_name(box, pen)
    children = [_signature(child, pen) for child in box.children]
    return (box.kind, box.label, box.part, own, cells, memory, [d.address for d in box.devices], children)


def _need(box: Box, pen: Pen) -> int:
    """The least width at which a box is pleasant to read."""
    label = _LABEL_COLUMNS[0] if pen.number_rows else 0
    own = 26
    if pen.summarise:
        own = 34
    else:
        units = len(box.cores) + sum(len(c.cores) for c in box.children if _inline(c))
        own = max(own, label + 4 + min(units, 4) * (pen.cell_width + 1)) if units else own
    return max([own, *(_need(child, pen) + 4 for child in box.children if not _inline(child))])


def _cells(box: Box, width: int, pen: Pen) -> Block:
    """Cores straight in a box, and the caches that are drawn as brackets around theirs."""
    caches = [child for child in box.children if _inline(child)]
    heads = []
    for name, group in groupby(caches, key=lambda c: _cache_name(c, pen)):
        count = len(list(group))
        heads.append(f"{name} around each [ ]" if count > 1 else f"{name} around [ ]")
    if pen.summarise:
        return _summary(box, caches, width, pen)
    lines: list[Line] = [((head, "cache"),) for head in dict.fromkeys(heads)]
    loose = _rows([([core], False) for core in box.cores], width, pen)
    return block([*loose, *lines, *_rows([(cache.cores, True) for cache in caches], width, pen)])


def _summary(box: Box, caches: Sequence[Box], width: int, pen: Pen) -> Block:
    lines: list[Line] = []
    cores = [*box.cores, *(core for cache in caches for core in cache.cores)]
    if not cores:
        return block(lines)
    for name, group in groupby(caches, key=lambda c: _cache_name(c, pen)):
        members = list(group)
        lines.append(((pen.own(f"{len(members)} × {name}"), "cache"),))
    threads = sorted({len(core.cpus) for core in cores})
    each = f" of {'-'.join(map(str, threads))} threads" if threads != [1] else ""
    lines += wrap(f"{plural(len(cores), 'core')}{each}", width)
    kinds = {kind: sum(core.kind == kind for core in cores) for kind in dict.fromkeys(c.kind for c in cores)}
    if len(kinds) > 1:
        lines += wrap(", ".join(f"{count} {kind or 'other'}" for kind, count in kinds.items()), width, style="dim")
    shown = CpuSet(cpu for core in cores for cpu in core.cpus)
    lines += wrap(spaced(f"CPUs {shown}"), width, later="  ", style="dim")
    return block(lines)


def _rows(units: Sequence[tuple[list[CoreBox], bool]], width: int, pen: Pen) -> list[Line]:
    """Cells in even rows; a bracket goes on over rows where it is wider than one."""
    label = _label_columns(units, width, pen)
    tokens: list[tuple[list[CoreBox], Line]] = []
    for cores, bracket in units:
        whole = _token(cores, pen, bracket, bracket)
        if length(whole) + label <= width or len(cores) == 1:
            tokens.append((cores, whole))
            continue
        last = len(cores) - 1
        tokens += [([c], _token([c], pen, bracket and i == 0, bracket and i == last)) for i, c in enumerate(cores)]
    if not tokens:
        return []
    wide = max(length(line) for _, line in tokens)
    fit = max(1, (width - label + 1) // (wide + 1))
    if fit < len(tokens):
        fit = next((n for n in (32, 24, 16, 12, 8, 6, 4, 3, 2) if n <= fit), 1)
    rows = [tokens[i : i + fit] for i in range(0, len(tokens), fit)]
    return [_row(row, wide, label, pen) for row in rows]


def _label_columns(units: Sequence[tuple[list[CoreBox], bool]], width: int, pen: Pen) -> int:
    """The room for CPU numbers that still leaves brackets whole, if any does."""
    if not pen.number_rows:
        return 0
    widest = max((length(_token(cores, pen, bracket, bracket)) for cores, bracket in units), default=0)
    return next((label for label in _LABEL_COLUMNS if label + widest <= width), _LABEL_COLUMNS[0])


def _row(row: Sequence[tuple[list[CoreBox], Line]], wide: int, label: int, pen: Pen) -> Line:
    spans: list[tuple[str, str]] = []
    if label:
        cpus = CpuSet(cpu for cores, _ in row for core in cores for cpu in core.cpus)
        numbers = str(cpus) if len(str(cpus)) < label else f"{cpus.first()}{pen.glyphs.dots}"
        spans.append((numbers.ljust(label), "dim"))
    for _, line in row:
        spans.extend(line)
        spans.append((" " * (wide - length(line) + 1), ""))
    return tuple(spans[:-1])


def _token(cores: Sequence[CoreBox], pen: Pen, opens: bool, closes: bool) -> Line:
    spans: list[tuple[str, str]] = [("[", "cache")] if opens else []
    for index, core in enumerate(cores):
        if index:
            spans.append((" ", ""))
        cell = pen.cell(core)
        spans.extend(cell)
        if len(cores) > 1:
            spans.append((" " * (pen.cell_width - length(cell)), ""))
    return (*spans, ("]", "cache")) if closes else tuple(spans)


def memory_lines(box: Box, width: int, pen: Pen) -> list[Line]:
    """Nodes without CPUs, equal neighbours on one line: `nodes 2-33: no CPUs, no memory`."""
    lines: list[Line] = []
    for ids, node in like(box.memory):
        many = "node" if len(ids) == 1 else "nodes"
        kind = "" if node.kind == "unknown" or node.memory_bytes else f" ({node.kind})"
        amount = node_title(node).split(" · ")[1] + kind
        each = " each" if len(ids) > 1 and node.memory_bytes else ""
        facts = node_facts(node)
        text = f"{many} {ids}: no CPUs, {amount}{each}" + (f", {facts}" if facts else "")
        lines += wrap(text, width, later="  ", style="node")
    return lines


def device_lines(box: Box, width: int, pen: Pen) -> list[Line]:
    """Devices of a box, one a line; equal ones of a large machine together."""
    lines: list[Line] = []
    alike = groupby(box.devices, key=lambda d: (d.kind, d.name, d.resource, bool(d.virtual_function_of)))
    for _, group in alike:
        members = list(group)
        if len(members) <= 8:
            texts = [_device_line(device, pen) for device in members]
        else:
            first, last = members[0], members[-1]
            texts = [pen.safe(f"{len(members)} {device_text(first)} .. {last.address}", 120)]
        for text in texts:
            lines += wrap(text, width, later="  ", style="good")
    return lines


def _device_line(device: Device, pen: Pen) -> str:
    code, name = pen.holders.get(device.address, ("", ""))
    holder = f": {code or pen.safe(name)}" if name else ""
    return f"{pen.safe(device_text(device), 120)}{holder}"


def seat_cell(core: CoreBox, text_of: Callable[[int], tuple[str, str]]) -> Line:
    """The cell of a core from the text and style of each of its CPUs; equal styles flow into one span."""
    spans: list[tuple[str, str]] = []
    for cpu in core.cpus:
        text, style = text_of(cpu)
        if spans and spans[-1][1] == style:
            spans[-1] = (spans[-1][0] + text, style)
        else:
            spans.append((text, style))
    return tuple(spans)
