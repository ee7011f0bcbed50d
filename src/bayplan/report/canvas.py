"""Blocks of coloured text that stand beside and inside each other: what the terminal pictures are made of.

A block is lines of spans; a span is text with the name of a style. Only `paint` knows of terminal escapes (ECMA-48
SGR), and only when asked for colour; spans are expected to be safe (`plain`) already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bayplan.report.plain import columns, cut

Span = tuple[str, str]
Line = tuple[Span, ...]

_STYLES = {
    "": "",
    "dim": "2",
    "bold": "1",
    "good": "32",
    "warn": "33",
    "bad": "1;31",
    "package": "1",
    "node": "36",
    "cache": "35",
    "shared": "2",
    "reserved": "48;5;240;38;5;255",
    "double": "1;48;5;196;38;5;231",
}
# 256-colour backgrounds that black letters read well on; neighbours in the list differ in lightness as well.
_SEAT_COLOURS = (75, 215, 114, 219, 229, 117, 180, 151, 183, 209, 187, 80)


class Glyphs(NamedTuple):
    """The characters a picture is drawn with."""

    top_left: str
    top_right: str
    bottom_left: str
    bottom_right: str
    across: str
    down: str
    shared: str
    free: str
    reserved: str
    double: str
    good: str
    bad: str
    warn: str
    dots: str


UNICODE = Glyphs("╭", "╮", "╰", "╯", "─", "│", "·", "-", "#", "!", "✓", "✗", "⚠", "…")
ASCII = Glyphs("+", "+", "+", "+", "-", "|", ".", "-", "#", "!", "ok", "x", "!", "..")


class Block(NamedTuple):
    """Lines, and the columns of the longest."""

    lines: tuple[Line, ...]
    width: int


def block(lines: Iterable[Line]) -> Block:
    """A block of these lines."""
    made = tuple(lines)
    return Block(made, max((length(line) for line in made), default=0))


def length(line: Line) -> int:
    """Columns of a line."""
    return sum(columns(text) for text, _ in line)


def trim(line: Line, width: int, unicode: bool = True) -> Line:
    """The line cut at `width` columns."""
    if length(line) <= width:
        return line
    kept: list[Span] = []
    left = width
    for text, style in line:
        short = cut(text, left, unicode=unicode)
        kept.append((short, style))
        left -= columns(short)
        if short != text or left <= 0:
            break
    return tuple(kept)


def above(blocks: Sequence[Block]) -> Block:
    """One block under the other."""
    return block(line for each in blocks for line in each.lines)


def beside(blocks: Sequence[Block], gap: int = 1) -> Block:
    """Blocks in a row, tops level."""
    height = max((len(each.lines) for each in blocks), default=0)
    lines: list[Line] = []
    for row in range(height):
        spans: list[Span] = []
        for index, each in enumerate(blocks):
            line = each.lines[row] if row < len(each.lines) else ()
            spans.extend(line)
            if index < len(blocks) - 1:
                spans.append((" " * (each.width - length(line) + gap), ""))
        lines.append(tuple(spans))
    return block(lines)


def frame(title: Line, inside: Block, width: int, glyphs: Glyphs, style: str = "") -> Block:
    """A box of exactly `width` columns around a block, the title set into its upper edge."""
    unicode = glyphs is UNICODE
    head = trim(title, width - 6, unicode)
    rest = width - 5 - length(head)
    top: Line = (
        (f"{glyphs.top_left}{glyphs.across} ", style),
        *head,
        (f" {glyphs.across * max(rest, 0)}{glyphs.top_right}", style),
    )
    lines: list[Line] = [top]
    for line in inside.lines:
        body = trim(line, width - 4, unicode)
        fill = " " * (width - 4 - length(body))
        lines.append(((f"{glyphs.down} ", style), *body, (f"{fill} {glyphs.down}", style)))
    lines.append(((f"{glyphs.bottom_left}{glyphs.across * (width - 2)}{glyphs.bottom_right}", style),))
    return block(lines)


def wrap(text: str, width: int, *, first: str = "", later: str | None = None, style: str = "") -> list[Line]:
    """Words of safe text in lines of at most `width` columns; `first` and `later` go before the lines."""
    later = " " * columns(first) if later is None else later
    room = max(width - max(columns(first), columns(later)), 8)
    lines: list[str] = []
    current = ""
    for word in text.split(" "):
        for piece in _pieces(word, room):
            joined = f"{current} {piece}" if current else piece
            if current and columns(joined) > room:
                lines.append(current)
                joined = piece
            current = joined
    lines.append(current)
    return [((first if i == 0 else later, ""), (line, style)) for i, line in enumerate(lines)]


def paint(lines: Iterable[Line], *, color: bool) -> str:
    """The text; with `color`, styles become SGR sequences, each ended where its span ends."""
    made = []
    for line in lines:
        text = "".join(_span(text, style, color) for text, style in line)
        made.append(text.rstrip() if not color else text)
    return "\n".join(made) + "\n"


def seat_style(index: int) -> str:
    """The style of the container with this number."""
    return f"seat{index % len(_SEAT_COLOURS)}"


def _span(text: str, style: str, color: bool) -> str:
    if not color or not style or not text:
        return text
    if style.startswith("seat"):
        return f"\x1b[48;5;{_SEAT_COLOURS[int(style[4:])]};38;5;16m{text}\x1b[0m"
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def _pieces(word: str, room: int) -> list[str]:
    if columns(word) <= room:
        return [word]
    step = room if word.isascii() else max(room // 2, 1)
    return [word[i : i + step] for i in range(0, len(word), step)]
