"""A machine drawn in the terminal: boxes with the numbers of their CPUs, then distances and what else is known.

Up to `FULL_CPUS` CPUs every core is a cell; above that cores are counted. Equal neighbours are drawn once there, and on
machines of more than `FULL_BOXES` packages or NUMA nodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import Machine
from bayplan.report.canvas import ASCII, UNICODE, Line, wrap
from bayplan.report.layout import CoreBox, all_cores, kind_marks, layout
from bayplan.report.text_boxes import Pen, draw
from bayplan.report.words import cache_title, machine_counts, spaced

FULL_CPUS = 256
FULL_BOXES = 16
_FULL_MATRIX = 8
_FINDINGS_SHOWN = 20
_MATRIX_CLASSES = 16


def machine_lines(machine: Machine, *, width: int, unicode: bool) -> list[Line]:
    """The whole drawing, in styled lines."""
    root = layout(machine)
    large = len(machine.online) > FULL_CPUS
    widest = max((len(_cell_text(core, machine)) for core in all_cores(root)), default=1)
    pen = Pen(
        glyphs=UNICODE if unicode else ASCII,
        unicode=unicode,
        cell=lambda core: ((_cell_text(core, machine), "shared" if _isolated(core, machine) else ""),),
        cell_width=widest,
        collapse=large or max(len(machine.nodes), len(machine.packages)) > FULL_BOXES,
        summarise=large,
        alike=lambda core: (len(core.cpus), core.kind, _isolated(core, machine)),
    )
    lines: list[Line] = [
        ((pen.safe(machine.name), "bold"), (f"  {pen.safe(machine.architecture)}", "dim")),
        ((pen.own(machine_counts(machine)), ""),),
    ]
    if machine.source and machine.source != machine.name:
        lines += wrap(f"from {pen.safe(machine.source, 200)}", width, style="dim")
    lines += draw(root, width, pen).lines
    lines += _marks(machine, width, pen)
    lines += distance_lines(machine, width)
    return [*lines, *_findings(machine, width, pen)]


def _findings(machine: Machine, width: int, pen: Pen) -> list[Line]:
    """What readers found inconsistent; of findings that differ in numbers alone the first, and how many there are."""
    kinds: dict[str, list[str]] = {}
    for finding in machine.findings:
        text = f"{pen.safe(finding.place, 120)}: {pen.safe(finding.problem, 400)}"
        kinds.setdefault(re.sub(r"[0-9][0-9,-]*", "0", text), []).append(text)
    lines: list[Line] = []
    for texts in list(kinds.values())[:_FINDINGS_SHOWN]:
        more = f" (and {len(texts) - 1} more like it)" if len(texts) > 1 else ""
        lines += wrap(f"{texts[0]}{more}", width, first=f"{pen.glyphs.warn} ", style="warn")
    left = len(kinds) - _FINDINGS_SHOWN
    return lines if left <= 0 else [*lines, ((f"{pen.glyphs.warn} and {left} other findings", "warn"),)]


def _cell_text(core: CoreBox, machine: Machine) -> str:
    star = "*" if _isolated(core, machine) else ""
    return f"{core.kind}{CpuSet(core.cpus)}{star}"


def _isolated(core: CoreBox, machine: Machine) -> bool:
    return not CpuSet(core.cpus).isdisjoint(machine.isolated)


def _marks(machine: Machine, width: int, pen: Pen) -> list[Line]:
    """Facts that have no place in the boxes: marks, CPUs that are off, caches of a single core, frequencies."""
    facts = []
    for name, mark in kind_marks(machine).items():
        kind = next(kind for kind in machine.core_kinds if kind.name == name)
        capacity = f", capacity {kind.capacity}" if kind.capacity else ""
        facts.append(f"{mark}: {pen.safe(name)} cores, CPUs {kind.cpus}{capacity}")
    if machine.isolated:
        facts.append(f"*: isolated CPUs {machine.isolated}")
    if machine.nohz_full:
        facts.append(f"nohz_full CPUs {machine.nohz_full}")
    if machine.offline:
        facts.append(f"offline CPUs {machine.offline}")
    private = [c for c in machine.caches if c.kind != "instruction" and c.level > 1 and _of_one_core(c.cpus, machine)]
    counts: dict[str, int] = {}
    for cache in private:
        counts[cache_title(cache)] = counts.get(cache_title(cache), 0) + 1
    facts += [f"{name} in each of {count} cores" for name, count in counts.items()]
    for limits in machine.frequencies[:8]:
        known = (("min", limits.min_khz), ("base", limits.base_khz), ("max", limits.max_khz))
        speeds = ", ".join(f"{word} {khz / 1e6:.2f} GHz" for word, khz in known if khz)
        if speeds:
            facts.append(f"CPUs {limits.cpus}: {speeds}")
    return [line for fact in facts for line in wrap(spaced(fact), width, later="  ")]


def _of_one_core(cpus: CpuSet, machine: Machine) -> bool:
    core = machine.core_of.get(cpus.first()) if cpus else None
    return core is not None and cpus <= core.cpus


def distance_lines(machine: Machine, width: int) -> list[Line]:
    """The distance matrix; nodes that are alike in it share a row, and a matrix still too wide becomes a list."""
    rows = machine.distances
    size = len(machine.nodes)
    if size < 2 or len(rows) != size or any(len(row) != size for row in rows):
        return []
    classes = [[i] for i in range(size)] if size <= _FULL_MATRIX else _distance_classes(rows)
    names = [str(NodeSet(machine.nodes[i].id for i in members)) for members in classes]
    cell = max(*map(len, names), *(len(str(x)) for row in rows for x in row))
    inner = any(len(members) > 1 for members in classes)
    table_width = (cell + 2) * (len(classes) + 1) + (cell + 10 if inner else 0)
    if len(classes) > _MATRIX_CLASSES or table_width > width:
        return wrap(f"distances between nodes: {_distinct(rows)}", width, later="  ")
    lines: list[Line] = [
        (("distances between nodes", "bold"), ("" if not inner else " (in braces: within a group)", "dim"))
    ]
    lines.append(((" " * cell + "".join(f"  {name:>{cell}}" for name in names), "dim"),))
    for name, members in zip(names, classes, strict=True):
        first = members[0]
        figures = [f"  {rows[first][other[0]]:>{cell}}" for other in classes]
        within = f"  {{{rows[first][members[1]]}}}" if len(members) > 1 else ""
        lines.append(((f"{name:>{cell}}", "dim"), ("".join(figures), ""), (within, "dim")))
    return lines


def _distance_classes(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Neighbouring positions that are equally far from everything else (and from each other)."""
    classes: list[list[int]] = []
    for i in range(len(rows)):
        if classes and _alike(rows, classes[-1], i):
            classes[-1].append(i)
        else:
            classes.append([i])
    return classes


def _alike(rows: Sequence[Sequence[int]], members: list[int], new: int) -> bool:
    first = members[0]
    if rows[first][first] != rows[new][new]:
        return False
    if len(members) > 1 and any(rows[new][m] != rows[first][members[1]] for m in members):
        return False
    if rows[first][new] != rows[new][first]:
        return False
    others = [k for k in range(len(rows)) if k != new and k not in members]
    return all(rows[first][k] == rows[new][k] and rows[k][first] == rows[k][new] for k in others)


def _distinct(rows: Sequence[Sequence[int]]) -> str:
    counts: dict[int, int] = {}
    for i, row in enumerate(rows):
        for j, figure in enumerate(row):
            if i != j:
                counts[figure] = counts.get(figure, 0) + 1
    shown = [f"{figure} ({count} pairs)" for figure, count in sorted(counts.items())[:12]]
    more = f", and {len(counts) - 12} other figures" if len(counts) > 12 else ""
    return f"{rows[0][0]} to itself, {', '.join(shown)}{more}"
