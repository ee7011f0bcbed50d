"""Shapes, colours and patterns of the SVG picture, and the escaping of everything that goes into it.

Coordinates are pixels, written without needless digits so that equal plans give equal bytes. The colours are Paul Tol's
`light` scheme (colour-blind safe, made to carry black text); every eighth container takes the same colour again under
another pattern, and a letter tells each one apart for those who see neither.
"""

from __future__ import annotations

from html import escape

from bayplan.report.plain import NAME_LIMIT, plain
from bayplan.report.seating import DOUBLE, FREE, RESERVED, SHARED, VACANT, Seat

COLOURS = ("#77aadd", "#ee8866", "#eedd88", "#44bb99", "#ffaabb", "#99ddff", "#bbcc33", "#cc99dd")
PATTERNS = ("", "slash", "back", "bars")
INK, FAINT = "#1b2330", "#5a6472"

_PATTERN_SHAPES = {
    "slash": (
        '<path d="M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2" stroke="#1b2330" stroke-opacity="0.24" stroke-width="1.2"/>',
        6,
    ),
    "back": (
        '<path d="M-1,5 l2,2 M0,0 l6,6 M5,-1 l2,2" stroke="#1b2330" stroke-opacity="0.24" stroke-width="1.2"/>',
        6,
    ),
    "bars": ('<path d="M0,1.5 h5" stroke="#1b2330" stroke-opacity="0.24" stroke-width="1.2"/>', 5),
    "pool": ('<circle cx="3" cy="3" r="0.9" fill="#98a2ae"/>', 6),
    "system": (
        '<path d="M0,6 l6,-6 M-1,1 l2,-2 M5,7 l2,-2" stroke="#ffffff" stroke-opacity="0.55" stroke-width="1.4"/>',
        6,
    ),
}


class Marks:
    """How CPUs look in one picture. `prefix` keeps the ids of several pictures on one page apart."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix

    def definitions(self) -> str:
        """The patterns, for the head of the picture."""
        made = [
            f'<pattern id="{self.prefix}{name}" width="{size}" height="{size}" '
            f'patternUnits="userSpaceOnUse">{shape}</pattern>'
            for name, (shape, size) in _PATTERN_SHAPES.items()
        ]
        return f"<defs>{''.join(made)}</defs>"

    def area(self, state: Seat | str, x: float, y: float, width: float, height: float) -> str:
        """A rectangle in the look of a CPU's state."""
        if isinstance(state, Seat):
            pattern = PATTERNS[state.index // len(COLOURS) % len(PATTERNS)]
            made = rectangle(x, y, width, height, fill=COLOURS[state.index % len(COLOURS)])
        else:
            fill, pattern = _STATE_LOOKS[state]
            made = rectangle(x, y, width, height, fill=fill)
        over = rectangle(x, y, width, height, fill=f"url(#{self.prefix}{pattern})") if pattern else ""
        return made + over


_STATE_LOOKS = {
    SHARED: ("#ffffff", "pool"),
    RESERVED: ("#6b7480", "system"),
    FREE: ("#ffffff", ""),
    DOUBLE: ("#c4161c", ""),
    VACANT: ("#ffffff", ""),
}


def letter_of(state: Seat | str) -> tuple[str, str]:
    """What is written on a CPU and in which ink; empty where the pattern says it."""
    if isinstance(state, Seat):
        return state.code, INK
    return {DOUBLE: ("!", "#ffffff"), RESERVED: ("#", "#ffffff")}.get(state, ("", INK))


def safe(text: str, limit: int = NAME_LIMIT) -> str:
    """Foreign text for an element or an attribute: harmless characters, markup escaped."""
    return escape(plain(text, limit), quote=True)


def number(value: float) -> str:
    """A coordinate in at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def rectangle(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str = "none",
    stroke: str = "",
    radius: float = 0,
    dash: str = "",
) -> str:
    """A `rect`."""
    line = f' stroke="{stroke}"' if stroke else ""
    round_ = f' rx="{number(radius)}"' if radius else ""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    return f'<rect {place} fill="{fill}"{line}{round_}{dashed}/>'


def words(
    x: float,
    y: float,
    escaped: str,
    *,
    size: float = 12,
    fill: str = INK,
    weight: str = "",
    anchor: str = "",
    mono: bool = False,
) -> str:
    """A `text` whose content is escaped already."""
    more = f' font-weight="{weight}"' if weight else ""
    more += f' text-anchor="{anchor}"' if anchor else ""
    more += ' font-family="ui-monospace,DejaVu Sans Mono,monospace"' if mono else ""
    return f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}" fill="{fill}"{more}>{escaped}</text>'


def fitting(text: str, width: float, size: float = 12) -> str:
    """Foreign text cut to what fits in so many pixels at a font size, escaped."""
    return safe(text, max(int(width / (size * 0.56)), 3))
