"""`bayplan machine`: show, capture, list presets."""

from __future__ import annotations

import os
import shutil
import sys
from typing import NamedTuple

from bayplan.cli import OK, utf8

MAX_WIDTH = 200


class Look(NamedTuple):
    """How to draw in the terminal."""

    color: bool
    unicode: bool
    width: int

    @staticmethod
    def of(color: bool | None, ascii_only: bool, width: int | None) -> Look:
        """What was asked for, and what the terminal and NO_COLOR (no-color.org) say where nothing was."""
        terminal = sys.stdout.isatty()
        if color is None:
            color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        encoding = (sys.stdout.encoding or "").lower().replace("-", "")
        columns = width or min(shutil.get_terminal_size((100, 24)).columns, MAX_WIDTH)
        return Look(color, not ascii_only and encoding.startswith("utf"), columns)


def show(source: str, counts: bool, output: str, look: Look) -> int:
    """Draw a machine, or write it down."""
    from bayplan.files.source import open_machine

    machine = open_machine(source)
    if output != "text":
        utf8()
    if counts:
        from bayplan.machine.counts import counts_line

        print(counts_line(machine))
    elif output == "json":
        from bayplan.machine import saved

        sys.stdout.write(saved.dump(machine).decode())
    elif output == "yaml":
        from bayplan.report.document import machine_yaml

        sys.stdout.write(machine_yaml(machine))
    elif output == "svg":
        from bayplan.report import svg

        sys.stdout.write(svg.draw_machine(machine))
    else:
        from bayplan.report import text

        sys.stdout.write(text.draw_machine(machine, width=look.width, color=look.color, unicode=look.unicode))
    for finding in machine.findings if output in ("json", "yaml", "svg") else ():
        print(f"note: {finding.place}: {finding.problem}", file=sys.stderr)
    return OK


def capture(out: str, root: str, force: bool) -> int:
    """Write a capture and say what is in it."""
    from bayplan.files.capture import capture as write
    from bayplan.machine.counts import counts_line

    machine = write(root, out, overwrite=force)
    print(f"{out}: {counts_line(machine)}")
    return OK


def presets() -> int:
    """One line a preset."""
    from bayplan.files.presets import load_preset, preset_names
    from bayplan.report.words import machine_counts

    for name in preset_names():
        print(f"preset:{name:24} {machine_counts(load_preset(name))}")
    return OK
