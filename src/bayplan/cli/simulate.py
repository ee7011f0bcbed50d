"""`bayplan simulate`: a trace of pods replayed on a fleet of nodes with cards, under one policy or several."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from bayplan.cli import OK, capacity
from bayplan.cli.card_nodes import card_nodes, open_offering
from bayplan.cli.terminal import Look, write_bytes, write_document
from bayplan.errors import InputError

if TYPE_CHECKING:
    from bayplan.fleet.cards.dialects import CardDialect
    from bayplan.fleet.cards.model import CardNode
    from bayplan.simulate.result import RunResult
    from bayplan.simulate.run import Run
    from bayplan.simulate.runs import TraceOf
    from bayplan.simulate.sources import TraceSource

DEFAULT_SEED = 42
_BAR_STEPS = 1000
MAX_JOBS = 256
MOST_TRACES = 16


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
    capacity: capacity.Wanted


def simulate(inputs: Inputs, output: str, look: Look) -> int:
    """Make all runs and write what they come to."""
    from bayplan.simulate.run import PolicyName, Run, parse_seeds

    wanted = inputs.capacity
    _can_be_written(output, inputs)
    capacity.check(wanted, output, saves=inputs.save is not None)
    policies = dict.fromkeys(PolicyName.parse(name) for text in inputs.policies for name in text.split(","))
    seeds = parse_seeds(inputs.seeds) if inputs.seeds else (DEFAULT_SEED,)
    runs = {str(policy): [Run(policy, seed, inputs.informed) for seed in seeds] for policy in policies}
    made = _Made(inputs)
    every = [run for of_policy in runs.values() for run in of_policy]
    if wanted.size_for is not None:
        replayed = {policy: partial(made.replayed, of_policy) for policy, of_policy in runs.items()}
        written = capacity.size(wanted, made.nodes, replayed, made.trace_of, seeds)(output, look)
    elif wanted.what_if:
        written = capacity.what_if(wanted, partial(made.replayed, every), made.trace_of)(output, look)
    else:
        found = made.replayed(every, made.trace_of)
        _write(capacity.with_bounds(found, made.trace_of) if wanted.bound else found, output, look)
        return OK
    if output == "json":
        write_document(written)
    else:
        sys.stdout.write(written)
    return OK


class _Made:
    """Makes runs on what was typed: its nodes, and a trace for each seed."""

    def __init__(self, inputs: Inputs) -> None:
        from bayplan.simulate.kept import Kept

        self._inputs = inputs
        self.nodes, source = _source(inputs, self._tell)
        self._kept = None if inputs.resume is None else Kept(inputs.resume, self._tell)
        # Where a fleet is sized, the traces are asked for again and again.
        self.trace_of: TraceOf = lru_cache(1 if inputs.capacity.size_for is None else MOST_TRACES)(source.trace)

    def replayed(
        self, runs: Sequence[Run], trace_of: TraceOf, doing: str = "", part: str = ""
    ) -> tuple[RunResult, ...]:
        """The results of runs. `doing`: what they are for, beside the bar; `part`: a folder for their records."""
        from bayplan.simulate.run import Save
        from bayplan.simulate.runs import run_all

        inputs = self._inputs
        folder = inputs.save
        save = None if folder is None else Save(capacity.record_folder(folder, part), inputs.save_as)
        jobs = min(inputs.jobs or os.cpu_count() or 1, len(runs), MAX_JOBS)
        with _progress(len(runs), doing, quiet=inputs.quiet) as advance:
            return run_all(runs, trace_of, jobs=jobs, kept=self._kept, save=save, advance=advance)

    def _tell(self, text: str) -> None:
        if not self._inputs.quiet:
            print(f"note: {text}", file=sys.stderr)


def _source(inputs: Inputs, tell: Callable[[str], None]) -> tuple[tuple[CardNode, ...], TraceSource]:
    from bayplan.simulate.sources import PRESET_PODS, TraceSource, Wishes, preset_file

    _nothing_odd(inputs)
    dialect = _dialect(inputs.model_labels)
    nodes = _nodes(inputs, dialect, tell)
    _tell_unknown_power(capacity.new_nodes(inputs.capacity, nodes) or nodes, tell)
    pods = inputs.arrivals or inputs.trace or ""
    if _is_preset(pods):
        pods = preset_file(pods, PRESET_PODS)
    wishes = Wishes(pods, inputs.arrivals is not None, inputs.node_order, inputs.times, inputs.load)
    return nodes, TraceSource(nodes, wishes, dialect, tell)


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
    offering = open_offering(path, tell)
    closed = sum(1 for node in offering if node.unschedulable)
    if closed:
        tell(f"{closed} nodes that are unschedulable are left out")
    return card_nodes((node for node in offering if not node.unschedulable), path, dialect)


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
def _progress(runs: int, doing: str, *, quiet: bool) -> Iterator[Callable[[float], None] | None]:
    """A bar on standard error at a terminal; nothing otherwise."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    import click

    label = f"simulating, {doing}" if doing else "simulating"
    with click.progressbar(length=runs * _BAR_STEPS, label=label, file=sys.stderr) as bar:
        done = 0.0

        def advance(more: float) -> None:
            nonlocal done
            before, done = round(done * _BAR_STEPS), done + more
            bar.update(round(done * _BAR_STEPS) - before)

        yield advance
