"""The commands and their options; each imports what it needs when it runs, so that a person waits for nothing else.

click rather than typer: typer brings pydantic along, which alone costs a fifth of the half second that a plan may take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayplan import __version__
from bayplan.cli import ReaderGoneError, capacity
from bayplan.cli.controller_command import controller
from bayplan.cli.extender_command import extender

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SHOW = "show"
CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
FILE = click.Path()
"""For the shell, which then completes names of files; what is wrong with one is said where it is opened."""
F = TypeVar("F", bound=Callable[..., Any])


def run(arguments: list[str]) -> int:
    """Run one command line; gives the exit status. Usage errors are told by click and end with 2."""
    try:
        result = bayplan.main(arguments, prog_name="bayplan", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort as stop:
        raise KeyboardInterrupt from stop
    return result if isinstance(result, int) else 0


class _Bayplan(click.Group):
    """The whole command line. That the reader of the output went away is for `bayplan.cli.main` to judge."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError as gone:  # --help and --version write here
            raise ReaderGoneError from gone

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as gone:
            raise ReaderGoneError from gone


class _Machine(click.Group):
    """`bayplan machine SOURCE` shows it: what is no command of the group is a source."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in CONTEXT["help_option_names"]):
            args = [SHOW, *args]
        return super().parse_args(ctx, args)


def _presets(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The presets that begin so; where none does, it is a file."""
    from click.shell_completion import CompletionItem

    from bayplan.files.presets import preset_names

    names = [CompletionItem(name) for name in (f"preset:{p}" for p in preset_names()) if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


def _drawing(command: F) -> F:
    """The options of everything that draws in the terminal."""
    for option in (
        click.option("--width", type=click.IntRange(60, 1000), help="Columns to draw in."),
        click.option("--ascii", "ascii_only", is_flag=True, help="No box characters."),
        click.option("--color/--no-color", default=None, help="Colour; without this, where there is a terminal."),
    ):
        command = option(command)
    return command


def _nodes(command: F) -> F:
    """The options that name nodes with cards."""
    for option in (
        click.option(
            "--cluster", "-c", type=FILE, metavar="FILE", help="Nodes: a cluster file, or `kubectl get nodes -o yaml`."
        ),
        click.option("--nodes", type=FILE, metavar="FILE", help="Nodes: a table, plain or gz."),
    ):
        command = option(command)
    return command


@click.group(cls=_Bayplan, context_settings=CONTEXT)
@click.version_option(__version__, message="bayplan %(version)s")
def bayplan() -> None:
    """Decides where every container of a heterogeneous Kubernetes cluster goes, and says why, offline."""


@bayplan.group(cls=_Machine, subcommand_metavar="[SOURCE | COMMAND] [OPTIONS]")
def machine() -> None:
    """Show a machine, or take it along.

    SOURCE is live (this machine, the default), sysfs:FOLDER_OR_TAR, hwloc:FILE, preset:NAME, or a file.
    """


@machine.command(SHOW)
@click.argument("source", default="live", shell_complete=_presets)
@click.option("--counts", is_flag=True, help="One line: packages=2 dies=0 numa=4 ...")
@click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "tree", "json", "yaml", "svg"]),
    default="text",
    help="How to write it.",
)
@_drawing
def machine_show(
    source: str, counts: bool, output: str, color: bool | None, ascii_only: bool, width: int | None
) -> int:
    """Show a machine; what `bayplan machine SOURCE` does.

    Packages, dies, NUMA nodes, caches, cores, devices, distances.
    """
    from bayplan.cli import machine as command
    from bayplan.cli.terminal import Look

    return command.show(source, counts, output, Look.of(color, ascii_only, width))


@machine.command("capture")
@click.argument("out", type=FILE)
@click.option("--root", type=FILE, default="/", show_default=True, help="The root folder of the machine's file system.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def machine_capture(out: str, root: str, force: bool) -> int:
    """Write what is needed to plan for this machine elsewhere to OUT, a .tar.gz.

    No serial numbers, host names or network addresses.
    """
    from bayplan.cli import machine as command

    return command.capture(out, root, force)


@machine.command("layout")
@click.argument("node")
@click.argument("source", default="live", shell_complete=_presets)
@click.option("--kubelet-config", "-k", type=FILE, metavar="FILE", help="The node's KubeletConfiguration.")
@click.option("--pods", multiple=True, type=FILE, metavar="FILE", help="Pods that run there. Can be repeated.")
@click.option("--mode", type=click.Choice(["exact", "safe"]), default="exact", show_default=True, help="As for `plan`.")
@click.option("--at", metavar="TIME", help="When the node said so: 2026-01-31T12:00:00Z, or seconds.  [default: now]")
def machine_layout(
    node: str, source: str, kubelet_config: str | None, pods: tuple[str, ...], mode: str, at: str | None
) -> int:
    """Write what NODE would publish of itself (kind NodeLayout), as JSON.

    SOURCE is the node's machine. Pods are admitted in their order, those that name another node left out; the exit
    status is 3 when one of them is refused.
    """
    from bayplan.cli import layout as command

    return command.layout(command.Inputs(node, source, kubelet_config, pods, mode, at))


@machine.command("presets")
def machine_presets() -> int:
    """List the machines that are built in."""
    from bayplan.cli import machine as command

    return command.presets()


@bayplan.command()
@click.argument("manifests", type=FILE, nargs=-1, metavar="[MANIFEST]...")
@click.option(
    "--machine", "-m", metavar="SOURCE", shell_complete=_presets, help="The machine: as for `bayplan machine`."
)
@click.option("--kubelet-config", "-k", type=FILE, metavar="FILE", help="A KubeletConfiguration for the machine.")
@click.option(
    "--cluster",
    "-c",
    type=FILE,
    metavar="FILE",
    help="A cluster file; `kubectl get nodes,pods -A -o json` (and noderesourcetopologies, nodelayouts); or live.",
)
@click.option(
    "--hugepages",
    multiple=True,
    metavar="SIZE=COUNT[@NODE]",
    help="Plan as if the machine had them: 1Gi=16 (spread over nodes), 1Gi=8@0. Can be repeated.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "json", "yaml", "svg", "html"]),
    default="text",
    help="How to write the plan.",
)
@click.option("--policy", default="kubelet", show_default=True, help="What places containers on a node.")
@click.option(
    "--mode",
    type=click.Choice(["exact", "safe"]),
    help="exact: what a real kubelet would do, faults included; safe: Bayplan's own. "
    "Without this, exact where a kubelet configuration is given.",
)
@click.option(
    "--order",
    type=click.Choice(["spread", "pack"]),
    default="spread",
    show_default=True,
    help="Spread pods over nodes, or pack them.",
)
@click.option("--quiet", "-q", is_flag=True, help="No progress and no notes.")
@_drawing
def plan(
    manifests: tuple[str, ...],
    machine: str | None,
    kubelet_config: str | None,
    cluster: str | None,
    hugepages: tuple[str, ...],
    output: str,
    policy: str,
    mode: str | None,
    order: str,
    quiet: bool,
    color: bool | None,
    ascii_only: bool,
    width: int | None,
) -> int:
    """Say where every container would go, and what would be refused and why.

    On one machine, or with --cluster on many. MANIFEST is a file, a folder, or - for standard input; without any, the
    pods of the cluster that have no node yet. The exit status is 0 when all is placed, 3 when something is refused, 2
    for bad input.
    """
    from bayplan.cli import plan as command
    from bayplan.cli.terminal import Look

    if not manifests and cluster is None:
        raise click.MissingParameter(param_hint="'MANIFEST...'", param_type="argument")
    inputs = command.Inputs(manifests, machine, kubelet_config, cluster, hugepages, policy, mode, order, quiet)
    return command.plan(inputs, output, Look.of(color, ascii_only, width))


@bayplan.command()
@click.argument("what", type=FILE, nargs=-1, required=True, metavar="[PLANFILE] [NAME]")
def explain(what: tuple[str, ...]) -> int:
    """Say why a pod went where it went, or nowhere: the trace in words.

    NAME is POD, POD/CONTAINER, NAMESPACE/POD or NAMESPACE/POD/CONTAINER of the last plan, or of PLANFILE (written with
    -o json or yaml; - for standard input).
    """
    from bayplan.cli import explain as command

    return command.explain(list(what))


@bayplan.command()
@click.argument("trace", type=FILE, required=False)
@_nodes
@click.option(
    "--node-order", type=FILE, metavar="FILE", help="Ranks of the nodes, by which ties are broken (rank,name)."
)
@click.option("--arrivals", type=FILE, metavar="FILE", help="Pods in the order in which they arrive, taken as it is.")
@click.option("--load", type=float, help="Draw pods up to so many times the cards.  [default: 1.3]")
@click.option("--times/--no-times", default=None, help="Pods come and go at the times that they have, or none leaves.")
@click.option(
    "--policy", "-p", "policies", multiple=True, default=["values"], show_default=True, help="Can be repeated."
)
@click.option(
    "--seed", "--seeds", "-s", "seeds", multiple=True, metavar="N[-M]", help="Can be repeated.  [default: 42]"
)
@click.option(
    "--informed/--uninformed", default=True, help="Policies know the mix of pods beforehand, or have to learn it."
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "csv", "parquet", "svg"]),
    default="table",
    help="How to write the results.",
)
@click.option("--save", type=FILE, metavar="FOLDER", help="Write the record of each run, by arrival, there.")
@click.option("--save-as", type=click.Choice(["csv", "parquet"]), default="csv", show_default=True, help="As what.")
@click.option(
    "--model-label", "model_labels", multiple=True, metavar="LABEL", help="Of nodes: tells the model of cards."
)
@click.option("--jobs", "-j", type=click.IntRange(1), help="Runs beside each other.  [default: as many as CPUs]")
@click.option("--resume", type=FILE, metavar="FOLDER", help="Keep finished runs there, and make none twice.")
@capacity.options
@click.option("--quiet", "-q", is_flag=True, help="No progress and no notes.")
@_drawing
def simulate(
    capacity: capacity.Wanted,
    trace: str | None,
    nodes: str | None,
    cluster: str | None,
    node_order: str | None,
    arrivals: str | None,
    load: float | None,
    times: bool | None,
    policies: tuple[str, ...],
    seeds: tuple[str, ...],
    informed: bool,
    output: str,
    save: str | None,
    save_as: str,
    model_labels: tuple[str, ...],
    jobs: int | None,
    resume: str | None,
    quiet: bool,
    color: bool | None,
    ascii_only: bool,
    width: int | None,
) -> int:
    """Replay a trace of pods on a fleet of nodes with cards, and measure what the policies make of it.

    TRACE is a list of pods (a table, JSON Lines or Kubernetes manifests), shuffled by the seed unless they have times;
    or preset:small. In names of files, {seed} stands for the seed.
    """
    from bayplan.cli import simulate as command
    from bayplan.cli.terminal import Look

    inputs = command.Inputs(
        trace=trace,
        nodes=nodes,
        cluster=cluster,
        node_order=node_order,
        arrivals=arrivals,
        load=load,
        times=times,
        policies=policies,
        seeds=seeds,
        informed=informed,
        save=save,
        save_as=save_as,
        model_labels=model_labels,
        jobs=jobs,
        resume=resume,
        quiet=quiet,
        capacity=capacity,
    )
    return command.simulate(inputs, output, Look.of(color, ascii_only, width))


@bayplan.command()
@click.argument("card", required=False, metavar="[CARD]")
@click.argument("wanted", nargs=-1, metavar="[PROFILE]...")
@click.option("--pods", multiple=True, type=FILE, metavar="FILE", help="Pods that ask for partitions. Can be repeated.")
@click.option("--nodes", type=click.IntRange(1, 10_000), default=1, show_default=True, help="How many nodes.")
@click.option("--cards", type=click.IntRange(1, 256), default=1, show_default=True, help="Cards of each node.")
@click.option(
    "--only", default="", metavar="PROFILE", help="All cards are cut into this one (NVIDIA's single strategy)."
)
@click.option("--mix", default="", metavar="PROFILE=N,...", help="How often each profile is asked for, if known.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="How to write it.")
@_drawing
def partitions(
    card: str | None,
    wanted: tuple[str, ...],
    pods: tuple[str, ...],
    nodes: int,
    cards: int,
    only: str,
    mix: str,
    output: str,
    color: bool | None,
    ascii_only: bool,
    width: int | None,
) -> int:
    """Show how cards can be cut (MIG and the like), and where instances would go.

    CARD is one of those that are listed without it, or a file of your own. With PROFILEs (3x1g.10gb: three pods;
    1g.10gb=2: one pod with two; or the name of a resource) or --pods: where each would go on cards that are empty at
    first. The exit status is 0 when all is placed, 3 when something is refused, 2 for bad input.
    """
    from bayplan.cli import partitions as command
    from bayplan.cli.terminal import Look

    look = Look.of(color, ascii_only, width)
    if card is None or not (wanted or pods):
        return command.show(card, output, look)
    return command.place(command.Inputs(card, wanted, pods, nodes, cards, only, mix), output, look)


@bayplan.command()
@click.argument("pods", type=FILE, nargs=-1, required=True, metavar="PODS...")
@_nodes
@click.option("--machine", "-m", metavar="SOURCE", shell_complete=_presets, help="One machine: its NUMA nodes instead.")
@click.option("--kubelet-config", "-k", type=FILE, metavar="FILE", help="A KubeletConfiguration for the machine.")
@click.option(
    "--for", "wanted", metavar="WHAT", help="Make room for this: cards x milli (8x1000), or a pod's manifest."
)
@click.option("--gone", multiple=True, metavar="POD", help="On a machine: has ended since. Can be repeated.")
@click.option(
    "--goal",
    type=click.Choice(["usable", "idle"]),
    default="usable",
    show_default=True,
    help="usable: to the pods that run here; idle: cards that are wholly free.",
)
@click.option("--aligned", is_flag=True, help="On a machine: admitted, and aligned as narrowly as it allows.")
@click.option("--moves", type=click.IntRange(1, 50), default=5, show_default=True, help="At most so many.")
@click.option("--max-cost", "most_cost", type=click.FloatRange(0, 1e9), help="At most so much.")
@click.option("--cost-pod", type=click.FloatRange(0, 1e6), default=0.1, show_default=True, help="Of moving any pod.")
@click.option(
    "--cost-card", type=click.FloatRange(0, 1e6), default=1, show_default=True, help="For each card it holds."
)
@click.option(
    "--cost-card-hour",
    type=click.FloatRange(0, 1e6),
    default=0,
    show_default=True,
    help="For each hour on such a card.",
)
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="How to write it.")
@click.option("--quiet", "-q", is_flag=True, help="No notes.")
@_drawing
def repack(
    pods: tuple[str, ...],
    nodes: str | None,
    cluster: str | None,
    machine: str | None,
    kubelet_config: str | None,
    wanted: str | None,
    gone: tuple[str, ...],
    goal: str,
    aligned: bool,
    moves: int,
    most_cost: float | None,
    cost_pod: float,
    cost_card: float,
    cost_card_hour: float,
    output: str,
    quiet: bool,
    color: bool | None,
    ascii_only: bool,
    width: int | None,
) -> int:
    """Say which few pods to move so that more of the cards can be used, or so that one more pod has room.

    It only tells; nothing is moved. PODS are those that run: a table (.csv) or manifests with the nodes that they are
    on. With --machine: which pods to restart so that a pod is admitted there. The exit status is 0, 3 when no room can
    be made, 2 for bad input.
    """
    from bayplan.cli import repack as command
    from bayplan.cli.terminal import Look

    prices = (cost_pod, cost_card, cost_card_hour)
    inputs = command.Inputs(
        pods, nodes, cluster, machine, kubelet_config, wanted, gone, goal, aligned, moves, most_cost, *prices, quiet
    )
    return command.repack(inputs, output, Look.of(color, ascii_only, width))


bayplan.add_command(controller)
bayplan.add_command(extender)
