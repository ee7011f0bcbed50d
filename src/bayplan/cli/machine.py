"""`bayplan machine`: show, capture, list presets."""

from __future__ import annotations

import sys

from bayplan.cli import OK
from bayplan.cli.terminal import Look, write_document


def show(source: str, counts: bool, output: str, look: Look) -> int:
    """Draw a machine, or write it down."""
    from bayplan.files.source import open_machine

    machine = open_machine(source)
    if counts:
        from bayplan.machine.counts import counts_line

        print(counts_line(machine))
    elif output == "json":
        from bayplan.report.document import machine_json

        write_document(machine_json(machine))
    elif output == "yaml":
        from bayplan.report.document import machine_yaml

        write_document(machine_yaml(machine))
    elif output == "tree":
        from bayplan.report.tree import draw_tree

        sys.stdout.write(draw_tree(machine, unicode=look.unicode))
    elif output == "svg":
        from bayplan.report import svg

        write_document(svg.draw_machine(machine))
    else:
        from bayplan.report import text

        sys.stdout.write(text.draw_machine(machine, width=look.width, color=look.color, unicode=look.unicode))
    for finding in machine.findings if output != "text" else ():
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
