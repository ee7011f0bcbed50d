"""Command lines as Go programs take them, for those who swap the image of TAS or GAS and keep the arguments.

Go takes one dash or two, `--flag=value` or `--flag value`, and booleans as `--flag` or `--flag=true`. The flags of klog
mean nothing here but `v`; they are dropped, and said to be. Facts: Go's flag package; k8s.io/klog/v2 `InitFlags`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

KLOG = frozenset(
    {
        "add_dir_header",
        "alsologtostderr",
        "log_backtrace_at",
        "log_dir",
        "log_file",
        "log_file_max_size",
        "logtostderr",
        "one_output",
        "skip_headers",
        "skip_log_headers",
        "stderrthreshold",
        "vmodule",
    }
)
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_KLOG_BOOLEANS = frozenset(
    {"add_dir_header", "alsologtostderr", "logtostderr", "one_output", "skip_headers", "skip_log_headers"}
)


class GoCommand(click.Command):
    """A command that takes its arguments as Go does, as well as the usual way."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the arguments as click expects them."""
        booleans = {
            name
            for option in self.params
            if isinstance(option, click.Option) and option.is_flag
            for name in option.opts
        }
        return super().parse_args(ctx, usual(args, booleans, lambda text: click.echo(f"bayplan: {text}", err=True)))


def usual(args: Sequence[str], booleans: set[str], note: Callable[[str], Any]) -> list[str]:
    """Arguments as they are usually written. `booleans` are the flags without a value; `note` is told of dropped ones.

    Raises `click.UsageError` for a boolean that is neither true nor false.
    """
    found: list[str] = []
    rest = iter(args)
    for arg in rest:
        if arg == "--":
            return [*found, arg, *rest]
        name, sign, value = arg.lstrip("-").partition("=")
        if not arg.startswith("-") or not name:
            found.append(arg)
            continue
        flag = f"--{name}" if len(name) > 1 or f"-{name}" not in _short(arg) else arg
        if name in KLOG:
            if not sign and name not in _KLOG_BOOLEANS:
                next(rest, "")
            note(f"{flag} means nothing here and is left out: logs go to standard error, one JSON object a line")
        elif flag in booleans and sign:
            if value not in _TRUE | _FALSE:
                raise click.UsageError(f"{flag} is {value!r}; expected true or false")
            if value in _TRUE:
                found.append(flag)
        else:
            found.append(f"{flag}{sign}{value}")
    return found


def _short(arg: str) -> tuple[str, ...]:
    """A single letter after a single dash is a short option, which stays as it is, but for klog's `v`."""
    return () if arg.startswith("--") or arg[1:2] == "v" else (arg[:2],)
