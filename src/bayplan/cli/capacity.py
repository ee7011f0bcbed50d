"""Options of `bayplan simulate` for planning a fleet: bounds, what if it were another, how small it may be."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bayplan.errors import InputError

if TYPE_CHECKING:
    from bayplan.cli.terminal import Look
    from bayplan.fleet.cards.model import CardNode
    from bayplan.simulate.capacity import Replayed
    from bayplan.simulate.result import RunResult
    from bayplan.simulate.runs import TraceOf

FORMS = ("table", "json")


class Wanted(NamedTuple):
    """What is asked beside the runs, as it was typed."""

    bound: bool = False
    what_if: Sequence[str] = ()
    size_for: str | None = None
    kind: str | None = None
    alone: bool = False


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options to a command, which is given them as one: `capacity`."""

    @functools.wraps(command)
    def call(
        *, bound: bool, what_if: Sequence[str], size_for: str | None, kind: str | None, alone: bool, **others: Any
    ) -> Any:
        return command(capacity=Wanted(bound, what_if, size_for, kind, alone), **others)

    added: Callable[..., Any] = call
    for option in (
        click.option("--alone", is_flag=True, help="With --of: the fleet is made of these nodes alone."),
        click.option("--of", "kind", metavar="KIND", help="With --size-for: nodes of this kind, beside all others."),
        click.option("--size-for", metavar="PERCENT", help="Find the smallest fleet that refuses no more of the pods."),
        click.option(
            "--what-if",
            multiple=True,
            metavar="CHANGE",
            help="Also on a changed fleet: 'add 20 x KIND', 'remove 10 x KIND', 'drain NODE'. KIND is a model of the "
            "fleet, a preset, or like 8xA100,96cpu,1Ti. Can be repeated.",
        ),
        click.option("--bound", is_flag=True, help="Beside it, what no policy could allocate (linear program)."),
    ):
        added = option(added)
    return added


def check(wanted: Wanted, output: str, *, saves: bool) -> None:
    """Raises `InputError` for options that do not go together."""
    sizes = wanted.size_for is not None
    if wanted.kind == "":
        raise InputError("empty name", source="--of", expected="a kind of nodes, or to leave it out")
    if (wanted.kind is not None or wanted.alone) and not sizes:
        option = "--alone" if wanted.kind is None else "--of"
        raise InputError("nothing to size", source=option, expected="a rate of refusal: --size-for 1%")
    if wanted.alone and wanted.kind is None:
        raise InputError("of which kind is not said", source="--alone", expected="--of KIND")
    if sizes and saves:
        raise InputError("no records of fleets that are only tried", source="--save", expected="to leave it out")
    if (sizes or wanted.what_if) and output not in FORMS:
        raise InputError("no such form for fleets beside each other", source="-o", value=output, expected="table, json")


def new_nodes(wanted: Wanted, nodes: Sequence[CardNode]) -> tuple[CardNode, ...]:
    """One node of each shape that is there at first, after the changes, or when it is sized; empty for no change.

    Raises `InputError` for changes that cannot be, before hours of work.
    """
    if not wanted.what_if and wanted.kind is None:
        return ()
    from bayplan.simulate.capacity import Sized
    from bayplan.simulate.node_kinds import shape_of
    from bayplan.simulate.what_if import changed

    after = changed(nodes, wanted.what_if)
    unit = () if wanted.kind is None else Sized(after, wanted.kind, alone=wanted.alone).unit()
    return tuple(shape.node(str(shape)) for shape in dict.fromkeys(map(shape_of, (*nodes, *after, *unit))))


def with_bounds(runs: Sequence[RunResult], trace_of: TraceOf) -> tuple[RunResult, ...]:
    """The runs with the bounds at the loads that the table shows."""
    from bayplan.report.simulation_text import loads_shown
    from bayplan.simulate.capacity import bounded

    return bounded(runs, trace_of, loads_shown(runs))


def what_if(
    wanted: Wanted, replayed: Callable[[TraceOf, str, str], tuple[RunResult, ...]], trace_of: TraceOf
) -> Callable[[str, Look], str]:
    """Make all runs before and after the change. Gives what writes them: as `table` or `json`."""
    from bayplan.report.capacity_text import what_if_text
    from bayplan.report.json_text import json_text
    from bayplan.simulate.capacity import WhatIf, on_changed
    from bayplan.simulate.summary import summary

    changed = on_changed(trace_of, wanted.what_if)
    before, after = replayed(trace_of, "as it is", ""), replayed(changed, "what if", "what-if")
    if wanted.bound:
        before, after = with_bounds(before, trace_of), with_bounds(after, changed)
    found = WhatIf(what_if=tuple(wanted.what_if), before=summary(before), after=summary(after))
    return lambda output, look: json_text(found) if output == "json" else what_if_text(found, *_drawn(look))


def size(
    wanted: Wanted,
    nodes: Sequence[CardNode],
    replayed: Mapping[str, Replayed],
    trace_of: TraceOf,
    seeds: Sequence[int],
) -> Callable[[str, Look], str]:
    """Find the smallest fleet for each policy. Gives what writes it: as `table` or `json`."""
    from bayplan.report.capacity_text import sizing_text
    from bayplan.report.json_text import json_text
    from bayplan.simulate.capacity import Sized, on_changed, parse_percent, smallest
    from bayplan.simulate.what_if import changed

    percent = parse_percent(wanted.size_for or "")
    sized = Sized(changed(nodes, wanted.what_if), wanted.kind, alone=wanted.alone)
    found = smallest(replayed, on_changed(trace_of, wanted.what_if), seeds, sized, percent)
    return lambda output, look: json_text(found) if output == "json" else sizing_text(found, *_drawn(look))


def record_folder(folder: str, part: str) -> str:
    """Where records go that are of a part of the runs, apart from the others, whose names they have."""
    return os.path.join(folder, part) if part else folder


def _drawn(look: Look) -> tuple[int, bool, bool]:
    return look.width, look.color, look.unicode
