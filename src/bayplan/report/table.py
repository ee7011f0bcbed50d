"""Tables in a terminal: columns that fit a width, empty ones left out, long cells wrapped within their column.

A cell is (safe text, style).
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.report.canvas import Line, wrap
from bayplan.report.plain import columns

Cell = tuple[str, str]
_LEAST = 10


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> list[list[Line]]:
    """One list of lines for the heads and one for each row."""
    used = [i for i in range(len(heads)) if not rows or any(row[i][0] for row in rows)]
    wanted = [max([columns(heads[i]), *(columns(row[i][0]) for row in rows)]) for i in used]
    wide = fitted(wanted, width - 2 * (len(used) - 1))
    head = [(heads[i], "bold") for i in used]
    return [_row(cells, wide) for cells in [head, *([row[i] for i in used] for row in rows)]]


def texts(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[Line]:
    """The lines of a table whose cells have no style."""
    cells: list[list[Cell]] = [[(text, "") for text in row] for row in rows]
    return [line for row in table(heads, cells, width) for line in row]


def natural_width(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> int:
    """Columns that the table would take with no cell wrapped."""
    used = [i for i in range(len(heads)) if any(row[i][0] for row in rows)]
    return sum(max([columns(heads[i]), *(columns(row[i][0]) for row in rows)]) + 2 for i in used) - 2


def fitted(wanted: Sequence[int], room: int) -> list[int]:
    """Widths that fill at most `room`, taking what is too much from the widest columns, none below `_LEAST`."""
    wide = list(wanted)
    excess = sum(wide) - room
    while excess > 0:
        order = sorted(range(len(wide)), key=lambda i: -wide[i])
        most = wide[order[0]]
        if most <= _LEAST:
            break
        level = max(next((wide[i] for i in order if wide[i] < most), 0), _LEAST)
        for i in [i for i in order if wide[i] == most]:
            step = min(excess, most - level)
            wide[i] -= step
            excess -= step
    return wide


def _row(cells: Sequence[tuple[str, str]], wide: Sequence[int]) -> list[Line]:
    wrapped = [_cell(text, style, width) for (text, style), width in zip(cells, wide, strict=True)]
    lines: list[Line] = []
    for row in range(max(map(len, wrapped), default=0)):
        spans: list[tuple[str, str]] = []
        for lines_of, width in zip(wrapped, wide, strict=True):
            text, style = lines_of[row] if row < len(lines_of) else ("", "")
            spans += [(text, style), (" " * (width - columns(text) + 2), "")]
        lines.append(tuple(spans[:-1]))
    return lines


def _cell(text: str, style: str, width: int) -> list[tuple[str, str]]:
    if columns(text) <= width:
        return [(text, style)]
    made = [line[1][0] for line in wrap(text, max(width, 8))]
    return [(piece[i : i + width], style) for piece in made for i in range(0, max(len(piece), 1), width)]
