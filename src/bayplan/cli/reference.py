"""Prints the reference of all commands: what each says to --help. `make docs` keeps it in docs/reference."""

from __future__ import annotations

from collections.abc import Iterator

import click

from bayplan.cli.app import CONTEXT, bayplan


def reference() -> str:
    """The page, in Markdown."""
    pages = [f"## {name}\n\n```text\n{text}\n```\n" for name, text in _helps(bayplan, "bayplan")]
    return "# All commands and options\n\nEach command says this to `--help`.\n\n" + "\n".join(pages)


def _helps(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    context = click.Context(command, info_name=name, terminal_width=100, **CONTEXT)
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None:
                yield from _helps(found, f"{name} {inner}")


if __name__ == "__main__":
    print(reference(), end="")
