"""Pictures for the terminal: the two doors to `text_machine` and `text_plan`.

Pure functions from a value to text. Whether there is a terminal, how wide it is and what NO_COLOR says is the caller's
to find out. Without `color` the text holds no escape sequence at all; without `unicode` it is ASCII.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.fleet.plan import Plan
from bayplan.machine import Machine
from bayplan.report.canvas import Line, paint, trim
from bayplan.report.text_machine import machine_lines
from bayplan.report.text_plan import plan_lines

LEAST_WIDTH = 60


def draw_machine(machine: Machine, *, width: int = 80, color: bool = False, unicode: bool = True) -> str:
    """A machine in full up to 256 CPUs, summed up above. Lines are at most `width` (not below 60) columns."""
    wide = max(width, LEAST_WIDTH)
    return _painted(machine_lines(machine, width=wide, unicode=unicode), wide, color, unicode)


def draw_plan(plan: Plan, *, width: int = 80, color: bool = False, unicode: bool = True) -> str:
    """A plan: its containers, its nodes drawn, its warnings and one line to sum up, in lines of at most `width`."""
    wide = max(width, LEAST_WIDTH)
    return _painted(plan_lines(plan, width=wide, unicode=unicode), wide, color, unicode)


def _painted(lines: Iterable[Line], width: int, color: bool, unicode: bool) -> str:
    """The text; a heading with a name too long for its line loses the middle of it."""
    return paint((trim(line, width, unicode) for line in lines), color=color)
