"""`bayplan simulate`: a trace of pods replayed on a fleet of nodes with cards, under one policy or several."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from bayplan.cli import OK
from bayplan.cli.terminal import Look, write_bytes, write_document
from bayplan.errors import InputError

if TYPE_CHECKING:
    from bayplan.fleet.cards.dialects import CardDialect
    from bayplan.fleet.cards.model import CardNode
    from bayplan.simulate.result import RunResult
    from bayplan.simulate.run import Run, Save
    from bayplan.simulate.sources import TraceSource

DEFAULT_SEED = 42
_BAR_STEPS = 1000
MAX_JOBS = 256


class Inputs(NamedTuple):
    """What is simulated, as it was typed."""

    trace: str | None
    nodes: str | None
    cluster: str | None
    node_order: str | None
    arrivals: str | None
    load: float | None
    times: bool | None
    policies: Sequence[str]
    seeds: Sequence[str]
    informed: bool
    model_labels: Sequence[str]
    jobs: int | None
    resume: str | None
    save: str | None
    save_as: str
    quiet: bool


def simulate(inputs: Inputs, output: str, look: Look) -> int:
    """Make all runs and write what they come to."""
    from bayplan.simulate.run import PolicyName, Run, parse_seeds

    _can_be_written(output, inputs)
    policies = dict.fromkeys(PolicyName.parse(name) for text in inputs.policies for name in text.split(","))
    seeds = parse_seeds(inputs.seeds) if inputs.seeds else (DEFAULT_SEED,)
    runs = [Run(policy, seed, inputs.informed) for policy in policies for seed in seeds]
    _write(_made(inputs, runs), output, look)
    return OK


def _made(inputs: Inputs, runs: Sequence[Run]) -> tuple[RunResult, ...]:
    from bayplan.simulate.kept import Kept
    from bayplan.simulate.runs import run_all

    def tell(text: str) -> None:
        if not inputs.quiet:
            print(f"note: {text}", file=sys.stderr)

    source = _source(inputs, tell)
    kept = None if inputs.resume is None else Kept(inputs.resume, tell)
    jobs = min(inputs.jobs or os.cpu_count() or 1, len(runs), MAX_JOBS)
    with _progress(len(runs), quiet=inputs.quiet) as advance:
        return run_all(runs, source.trace, jobs=jobs, kept=kept, save=_save(inputs), advance=advance)


def _save(inputs: Inputs) -> Save | None:
    from bayplan.simulate.run import Save

    return None if inputs.save is None else Save(inputs.save, inputs.save_as)


def _source(inputs: Inputs, tell: Callable[[str], None]) -> TraceSource:
    from bayplan.simulate.sources import PRESET_PODS, TraceSource, Wishes, preset_file

    _nothing_odd(inputs)
    dialect = _dialect(inputs.model_labels)
    nodes = _nodes(inputs, dialect, tell)
    _tell_unknown_power(nodes, tell)
    pods = inputs.arrivals or inputs.trace or ""
    if _is_preset(pods):
        pods = preset_file(pods, PRESET_PODS)
    wishes = Wishes(pods, inputs.arrivals is not None, inputs.node_order, inputs.times, inputs.load)
    return TraceSource(nodes, wishes, dialect, tell)


def _dialect(model_labels: Sequence[str]) -> CardDialect:
    from bayplan.fleet.cards.dialects import KNOWN

    return structs.replace(KNOWN, model_labels=(*model_labels, *KNOWN.model_labels))


def _nodes(inputs: Inputs, dialect: CardDialect, tell: Callable[[str], None]) -> tuple[CardNode, ...]:
    from bayplan.simulate.sources import PRESET_NODES, open_nodes, preset_file

    if inputs.cluster is not None:
        return _cluster_nodes(inputs.cluster, dialect, tell)
    if inputs.nodes is not None:
        return open_nodes(preset_file(inputs.nodes, PRESET_NODES) if _is_preset(inputs.nodes) else inputs.nodes)
    return open_nodes(preset_file(inputs.trace or "", PRESET_NODES))


def _cluster_nodes(path: str, dialect: CardDialect, tell: Callable[[str], None]) -> tuple[CardNode, ...]:
    from bayplan.cli.assemble import Assembly
    from bayplan.fleet.cards.dialects import card_node

    assembly = Assembly("kubelet", None)
    offering = assembly.offering(path)
    for note in assembly.notes:
        tell(str(note))
    closed = sum(1 for node in offering if node.unschedulable)
    if closed:
        tell(f"{closed} nodes that are unschedulable are left out")
    try:
        return tuple(card_node(node, dialect) for node in offering if not node.unschedulable)
    except InputError as error:
        raise error.within(source=path) from error


def _is_preset(name: str) -> bool:
    return name.startswith("preset:")


def _nothing_odd(inputs: Inputs) -> None:
    """What was typed must say one thing, and an empty name (a shell variable that is not set) says nothing."""
    names = ("trace", "nodes", "cluster", "node_order", "arrivals", "resume", "save")
    for name in names:
        if getattr(inputs, name) == "":
            raise InputError("empty name", source=_option(name), expected="a name, or to leave it out")
    if (inputs.trace is None) == (inputs.arrivals is None):
        problem = "no pods" if inputs.trace is None else "two lists of pods"
        raise InputError(problem, expected="either TRACE or --arrivals")
    if inputs.nodes is not None and inputs.cluster is not None:
        raise InputError("two lists of nodes", expected="either --nodes or --cluster")
    if inputs.nodes is None and inputs.cluster is None and not _is_preset(inputs.trace or ""):
        raise InputError("no nodes", expected="--nodes or --cluster")


def _option(name: str) -> str:
    return "TRACE" if name == "trace" else f"--{name.replace('_', '-')}"


def _tell_unknown_power(nodes: Sequence[CardNode], tell: Callable[[str], None]) -> None:
    from bayplan.fleet.cards.power import PowerModel
    from bayplan.fleet.cards.state import CardFleet

    unknown = [model or "of no known model" for model in PowerModel(CardFleet(nodes)).unknown]
    if unknown:
        tell(f"what these cards draw is not known and taken to be as of an A10: {', '.join(unknown)}")


def _can_be_written(output: str, inputs: Inputs) -> None:
    """What is missing here is told before hours of work."""
    from bayplan.simulate.records import check_form

    if output == "svg":
        from bayplan.report.simulation_chart import check

        check()
    check_form(output)
    if inputs.save is not None:
        check_form(inputs.save_as)


def _write(runs: Sequence[RunResult], output: str, look: Look) -> None:
    if output == "table":
        from bayplan.report.simulation_text import as_text

        sys.stdout.write(as_text(runs, width=look.width, color=look.color, unicode=look.unicode))
    elif output == "svg":
        from bayplan.report.simulation_chart import as_svg

        write_document(as_svg(runs))
    elif output == "json":
        from bayplan.report.simulation import as_json

        write_document(as_json(runs))
    else:
        from bayplan.report.simulation import load_columns
        from bayplan.simulate.records import table_bytes

        write_bytes(table_bytes(load_columns(runs), output))


@contextmanager
def _progress(runs: int, *, quiet: bool) -> Iterator[Callable[[float], None] | None]:
    """A bar on standard error at a terminal; nothing otherwise."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    import click

    with click.progressbar(length=runs * _BAR_STEPS, label="simulating", file=sys.stderr) as bar:
        done = 0.0

        def advance(more: float) -> None:
            nonlocal done
            before, done = round(done * _BAR_STEPS), done + more
            bar.update(round(done * _BAR_STEPS) - before)

        yield advance
