"""The commands and their options; each imports what it needs when it runs, so that a person waits for nothing else."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
import typer.core

from bayplan import __version__

SHOW = "show"


class PlanFormat(StrEnum):
    """How a plan is written."""

    text = "text"
    json = "json"
    yaml = "yaml"
    svg = "svg"
    html = "html"


class MachineFormat(StrEnum):
    """How a machine is written."""

    text = "text"
    json = "json"
    yaml = "yaml"
    svg = "svg"


class Mode(StrEnum):
    """How the kubelet policy answers."""

    exact = "exact"
    safe = "safe"


class Order(StrEnum):
    """Which nodes of a cluster come first."""

    spread = "spread"
    pack = "pack"


class _MachineGroup(typer.core.TyperGroup):
    """`bayplan machine SOURCE` shows it: what is no command of the group is a source."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("--help", "-h")):
            args = [SHOW, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="bayplan",
    help="Decides where every container of a heterogeneous Kubernetes cluster goes, and says why, offline.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
machine_app = typer.Typer(
    cls=_MachineGroup, help="Show a machine (this one, a capture, hwloc XML, a preset, a saved file), or capture it."
)
app.add_typer(machine_app, name="machine")


def run(arguments: list[str]) -> int:
    """Run one command line; gives the exit status. Usage errors are told by typer and end with 2."""
    try:
        result = app(arguments, standalone_mode=False, prog_name="bayplan")
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort as stop:
        raise KeyboardInterrupt from stop
    except Exception as error:
        # typer's own usage errors know how to show themselves; everything else is not ours to swallow.
        show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
        if show is None or code is None:
            raise
        show()
        return int(code)
    return result if isinstance(result, int) else 0


def _version(asked: bool) -> None:
    if asked:
        print(f"bayplan {__version__}")
        raise typer.Exit


def _presets(incomplete: str) -> list[str]:
    from bayplan.files.presets import preset_names

    return [name for name in (f"preset:{p}" for p in preset_names()) if name.startswith(incomplete)]


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Decides where every container of a heterogeneous Kubernetes cluster goes, and says why, offline."""


Source = Annotated[
    str,
    typer.Argument(
        help="live, sysfs:FOLDER_OR_TAR, hwloc:FILE, preset:NAME, or a saved machine file.",
        autocompletion=_presets,
        metavar="[SOURCE]",
    ),
]
MachineOption = Annotated[
    str | None,
    typer.Option("--machine", "-m", help="The machine to plan for: as for `bayplan machine`.", autocompletion=_presets),
]
Color = Annotated[
    bool | None, typer.Option("--color/--no-color", help="Colour; without this, where there is a terminal.")
]
Ascii = Annotated[bool, typer.Option("--ascii", help="No box characters.")]
Width = Annotated[int | None, typer.Option("--width", min=60, max=1000, help="Columns to draw in.")]
Manifests = Annotated[
    list[str], typer.Argument(help="Manifests: files, folders, or - for standard input.", metavar="MANIFEST")
]
KubeletConfig = Annotated[
    str | None, typer.Option("--kubelet-config", "-k", help="A KubeletConfiguration file for the machine.")
]
Cluster = Annotated[
    str | None, typer.Option("--cluster", "-c", help="A cluster file, or nodes from `kubectl get nodes -o yaml`.")
]
PolicyName = Annotated[str, typer.Option("--policy", help="The policy that places containers on a node.")]
Hugepages = Annotated[
    list[str] | None,
    typer.Option(
        "--hugepages", help="Plan as if the machine had them: 1Gi=16 (spread over nodes) or 1Gi=8@0; can be repeated."
    ),
]
ModeOption = Annotated[
    Mode | None,
    typer.Option(
        help="exact: what a real kubelet would do, faults included; safe: Bayplan's own. "
        "Without this, exact where a kubelet configuration is given."
    ),
]
OrderOption = Annotated[Order, typer.Option("--order", help="spread pods over nodes, or pack them.")]


@machine_app.command(SHOW)
def machine_show(
    source: Source = "live",
    counts: Annotated[bool, typer.Option("--counts", help="One line: packages=2 dies=0 numa=4 ...")] = False,
    output: Annotated[MachineFormat, typer.Option("--output", "-o", help="How to write it.")] = MachineFormat.text,
    color: Color = None,
    ascii_only: Ascii = False,
    width: Width = None,
) -> int:
    """Show a machine; what `bayplan machine SOURCE` does: packages, NUMA nodes, caches, cores, devices, distances."""
    from bayplan.cli import machine

    return machine.show(source, counts, output.value, machine.Look.of(color, ascii_only, width))


@machine_app.command("capture")
def machine_capture(
    out: Annotated[str, typer.Argument(help="The file to write: a .tar.gz.", metavar="OUT")],
    root: Annotated[str, typer.Option("--root", help="The root folder of the machine's file system.")] = "/",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> int:
    """Take along what is needed to plan for this machine elsewhere (no serial numbers, no addresses)."""
    from bayplan.cli import machine

    return machine.capture(out, root, force)


@machine_app.command("presets")
def machine_presets() -> int:
    """List the machines that are built in."""
    from bayplan.cli import machine

    return machine.presets()


@app.command()
def plan(
    manifests: Manifests,
    machine: MachineOption = None,
    kubelet_config: KubeletConfig = None,
    cluster: Cluster = None,
    hugepages: Hugepages = None,
    output: Annotated[PlanFormat, typer.Option("--output", "-o", help="How to write the plan.")] = PlanFormat.text,
    policy: PolicyName = "kubelet",
    mode: ModeOption = None,
    order: OrderOption = Order.spread,
    color: Color = None,
    ascii_only: Ascii = False,
    width: Width = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")] = False,
) -> int:
    """Say where every container would go, on one machine or on a cluster, and what would be refused and why."""
    from bayplan.cli import plan as command
    from bayplan.cli.machine import Look

    inputs = command.Inputs(manifests, machine, kubelet_config, cluster, hugepages or [], policy, mode, order, quiet)
    return command.plan(inputs, output.value, Look.of(color, ascii_only, width))


@app.command()
def explain(
    what: Annotated[
        list[str],
        typer.Argument(
            help="POD, POD/CONTAINER or NAMESPACE/POD of the last plan; or a plan file (-o json), and perhaps a name.",
            metavar="[PLANFILE] [NAME]",
        ),
    ],
) -> int:
    """Say why a pod went where it went, or nowhere: the trace in words."""
    from bayplan.cli import explain as command

    return command.explain(what)
