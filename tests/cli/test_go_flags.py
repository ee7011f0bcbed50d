"""Arguments as TAS's and GAS's Deployments have them."""

from __future__ import annotations

import click
import pytest

from bayplan.cli.go_flags import usual

BOOLEANS = {"--enableAllowlist", "--dry-run"}


def rewritten(*args: str) -> tuple[list[str], list[str]]:
    notes: list[str] = []
    return usual(args, BOOLEANS, notes.append), notes


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["-port=9001"], ["--port=9001"]),
        (["--port", "9001"], ["--port", "9001"]),
        (["-syncPeriod", "2s", "--v=4"], ["--syncPeriod", "2s", "--v=4"]),
        (["-v", "2"], ["--v", "2"]),
        (["-v=2"], ["--v=2"]),
        (["--enableAllowlist"], ["--enableAllowlist"]),
        (["--enableAllowlist=true", "-dry-run=1"], ["--enableAllowlist", "--dry-run"]),
        (["--enableAllowlist=false"], []),
        (["-c", "file", "-"], ["-c", "file", "-"]),
        (["--", "-port=1"], ["--", "-port=1"]),
        (["--key=a=b"], ["--key=a=b"]),
        (["-h"], ["-h"]),
    ],
)
def test_arguments_are_put_as_they_are_usually_written(given: list[str], meant: list[str]) -> None:
    assert rewritten(*given) == (meant, [])


def test_flags_of_klog_are_left_out_with_their_values_and_said_to_be() -> None:
    args, notes = rewritten("--logtostderr", "--vmodule", "x=3", "-stderrthreshold=INFO", "--port=1")

    assert args == ["--port=1"]
    assert [note.split()[0] for note in notes] == ["--logtostderr", "--vmodule", "--stderrthreshold"]


def test_a_boolean_that_is_neither_is_refused_with_its_value() -> None:
    with pytest.raises(click.UsageError, match="--enableAllowlist is 'maybe'; expected true or false"):
        rewritten("--enableAllowlist=maybe")
