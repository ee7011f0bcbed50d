"""`bayplan plan`: manifests and machines in, a plan out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from bayplan.cli import OK, REFUSED
from bayplan.cli.terminal import Look, write_document
from bayplan.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bayplan.fleet.plan import Plan
    from bayplan.workload.documents import Document
    from bayplan.workload.model import Pod
    from bayplan.workload.notes import Note

MANY = 500
"""Pods from which on progress is shown."""


class Inputs(NamedTuple):
    """What a plan is made of, as it was typed."""

    manifests: Sequence[str]
    machine: str | None
    kubelet_config: str | None
    cluster: str | None
    hugepages: Sequence[str]
    policy: str
    mode: str | None
    order: str
    quiet: bool


def plan(inputs: Inputs, output: str, look: Look) -> int:
    """Make a plan, write it, keep it for `explain`."""
    from bayplan.cli.last_plan import keep

    made, notes = make(inputs)
    if not inputs.quiet:
        _tell(notes)
    _write(made, output, look)
    kept = keep(made)
    if kept and not inputs.quiet:
        print(f"note: {kept}", file=sys.stderr)
    return REFUSED if made.refused else OK


def make(inputs: Inputs) -> tuple[Plan, Iterable[Note]]:
    """The plan, and what was noticed on the way."""
    from bayplan.cli.assemble import Assembly
    from bayplan.files.documents import open_documents
    from bayplan.fleet.fleet import Fleet
    from bayplan.workload import manifests

    exact = {None: None, "exact": True, "safe": False}[inputs.mode]
    _nothing_empty(inputs)
    assembly = Assembly(inputs.policy, exact, inputs.hugepages)
    waiting: list[Document] = []
    told: list[Note] = []
    if inputs.cluster is None:
        nodes = [assembly.single(inputs.machine or "live", inputs.kubelet_config)]
    else:
        nodes, waiting, told = assembly.cluster(inputs.cluster, inputs.machine or "", inputs.kubelet_config)
    if inputs.manifests:
        workload = manifests.read(open_documents(inputs.manifests))
        told += _left_waiting(waiting)
    else:
        workload = manifests.read(waiting)
    if not workload.pods:
        raise _no_pods(inputs.manifests or [inputs.cluster or ""], workload.notes)
    fleet = Fleet(nodes, scheduler=inputs.cluster is not None, pack=inputs.order == "pack")
    with _progress(len(workload.pods), quiet=inputs.quiet) as advance:
        made = fleet.place_all(workload.pods, advance)
    notes = [*told, *workload.notes, *assembly.notes]
    if inputs.cluster is None:
        notes += _not_considered(workload.pods)
    return made, notes


def _left_waiting(waiting: Sequence[Document]) -> Iterator[Note]:
    """Of a cluster's own pods that have no node yet, none is planned beside those that were named."""
    from bayplan.workload.notes import Note

    if waiting:
        message = f"{len(waiting)} of the cluster's own pods have no node; without MANIFEST they are what is planned"
        yield Note(name="waiting-not-planned", message=message)


def _nothing_empty(inputs: Inputs) -> None:
    """An empty name is most often a shell variable that is not set; it must not mean something else."""
    given = [("--machine", inputs.machine), ("--kubelet-config", inputs.kubelet_config), ("--cluster", inputs.cluster)]
    for what, name in [*given, *(("MANIFEST", name) for name in inputs.manifests)]:
        if name == "":
            raise InputError("empty name", source=what, expected="a name, or to leave it out")


def _no_pods(manifests: Sequence[str], notes: Sequence[Note]) -> InputError:
    """There is nothing to plan; why not is what the reader noticed."""
    why = f"; {notes[0]}" if notes else ""
    more = f" (and {len(notes) - 1} more notes)" if len(notes) > 1 else ""
    return InputError(
        f"no pods{why}{more}",
        source="" if notes else ", ".join(manifests),
        expected="Pods or objects that make them",
    )


def _not_considered(pods: Sequence[Pod]) -> Iterator[Note]:
    """One machine without a cluster has no name, no labels and no taints, so what pods say of nodes has no meaning."""
    from bayplan.workload.notes import Note

    named = sum(1 for pod in pods if pod.node_name)
    choosy = sum(1 for pod in pods if pod.node_selector or pod.node_terms is not None)
    for name, count, field in (
        ("node-name-not-considered", named, "spec.nodeName"),
        ("node-selector-not-considered", choosy, "nodeSelector, required node affinity"),
    ):
        if count:
            says, are = ("1 pod says", "is") if count == 1 else (f"{count} pods say", "are")
            message = f"{says} which nodes are right ({field}) and {are} planned on this machine all the same"
            yield Note(name=name, message=message)


def _write(made: Plan, output: str, look: Look) -> None:
    if output == "text":
        from bayplan.report import text

        sys.stdout.write(text.draw_plan(made, width=look.width, color=look.color, unicode=look.unicode))
    elif output == "svg":
        from bayplan.report import svg

        write_document(svg.draw_plan(made))
    elif output == "html":
        from bayplan.report import html

        write_document(html.page(made))
    else:
        from bayplan.report import document

        write_document(document.plan_json(made) if output == "json" else document.plan_yaml(made))


def _tell(notes: Iterable[Note]) -> None:
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


@contextmanager
def _progress(count: int, *, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """A bar on standard error for long work at a terminal; nothing otherwise."""
    if quiet or count < MANY or not sys.stderr.isatty():
        yield None
        return
    import click

    with click.progressbar(length=count, label="placing pods", file=sys.stderr, update_min_steps=50) as bar:
        done = 0

        def advance(total: int) -> None:
            nonlocal done
            bar.update(total - done)
            done = total

        yield advance
