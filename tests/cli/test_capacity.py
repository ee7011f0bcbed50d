"""`bayplan simulate` for planning: bounds beside results, what if the fleet were another, how small it may be."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = str(Path(sys.executable).parent / "bayplan")
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        words = [PROGRAM, "simulate", "preset:small", *arguments]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)

    return call


def rows(table: str) -> dict[str, list[str]]:
    """Line by name, its other columns; columns are two spaces apart."""
    lines = [[part for part in line.split("  ") if part] for line in table.splitlines()]
    return {line[0]: [part.strip() for part in line[1:]] for line in lines if line}


def test_bounds_stand_beside_results(run: Run) -> None:
    found = json.loads(run("-p", "bestfit", "--bound", "-o", "json").stdout)
    loads = ["20", "50", "80", "90", "95", "100", "110", "120", "130"]
    assert list(found["bound_percent"]) == loads
    for load in loads:
        assert found["allocation_percent"][load] <= found["bound_percent"][load] + 0.005
        assert found["bound_percent_all_cpu_only"][load] <= found["bound_percent"][load]
    table = run("-p", "bestfit,fgd", "--bound").stdout
    assert rows(table)["no policy above"] == [f"{found['bound_percent'][load]:.2f}" for load in loads]
    text = io.StringIO(run("-p", "bestfit", "--bound", "-o", "csv").stdout)
    by_load = {row["load"]: row["bound_percent"] for row in csv.DictReader(text)}
    assert float(by_load["100"]) == found["bound_percent"]["100"]
    assert [load for load, bound in by_load.items() if bound] == loads
    picture = run("-p", "bestfit", "--bound", "-o", "svg").stdout
    assert "no policy above" in picture


def test_without_it_nothing_is_bounded_and_no_solver_is_loaded(run: Run) -> None:
    found = json.loads(run("-p", "bestfit", "-o", "json").stdout)
    assert found["bound_percent"] is None
    code = (
        "import sys; from bayplan.cli.app import run\n"
        "run(['simulate', 'preset:small', '-p', 'bestfit', '--what-if', 'drain small-node-000', '-q'])\n"
        "print('scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert "What if: drain small-node-000" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"


def test_a_changed_fleet_stands_beside_the_one_there_is(run: Run) -> None:
    words = ("-p", "bestfit,fgd", "--bound", "--what-if", "add 4 x G3", "--what-if", "remove 1 x T4", "-s", "1-2")
    found = json.loads(run(*words, "-o", "json").stdout)
    assert found["what_if"] == ["add 4 x G3", "remove 1 x T4"]
    before, after = found["before"], found["after"]
    assert [(each["runs"][0]["nodes"], each["runs"][0]["cards"]) for each in (before, after)] == [(74, 480), (77, 508)]
    assert before["runs"][0]["arrivals"] == after["runs"][0]["arrivals"]
    assert after["mean"]["fgd"]["failed"] < before["mean"]["fgd"]["failed"]
    assert after["mean"]["fgd"]["bound_percent"]["100"] > 0
    said = run(*words).stdout
    assert said.startswith("What if: add 4 x G3; remove 1 x T4\n")
    assert rows(said)["nodes"] == ["74", "77"]
    assert "fgd, mean of 2 seeds" in said
    refused = [each["mean"]["fgd"]["failed"] for each in (before, after)]
    assert [float(cell) for cell in rows(said)["refused pods"]] == refused
    assert run(*words, "--jobs", "1").stdout == said


def test_records_of_the_changed_fleet_are_kept_apart(run: Run, tmp_path: Path) -> None:
    assert run("-p", "bestfit", "--what-if", "drain small-node-000", "--save", "out").returncode == 0
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.csv")) == [
        "out/bestfit-s42.csv",
        "out/what-if/bestfit-s42.csv",
    ]
    assert "small-node-000" in (tmp_path / "out/bestfit-s42.csv").read_text()
    assert "small-node-000" not in (tmp_path / "out/what-if/bestfit-s42.csv").read_text()


def test_the_smallest_fleet_is_found_of_all_nodes_or_of_one_kind(run: Run) -> None:
    words = ("-p", "fgd", "--load", "0.5", "--size-for", "1%", "--resume", "kept")
    said = run(*words)
    assert said.returncode == 0, said.stderr
    found = json.loads(run(*words, "-o", "json").stdout)
    (size,) = found["sizes"]
    assert size["bound_nodes"] <= size["nodes"] < 74
    assert size["refused_percent"] <= 1 < size["one_fewer"]["refused_percent"]
    cells = [str(size["nodes"]), f"{size['refused_percent']:.2f}", f"{size['one_fewer']['refused_percent']:.2f}"]
    assert ["fgd", *cells, str(size["bound_nodes"])] in [line.split() for line in said.stdout.splitlines()]
    of_kind = json.loads(run(*words, "--of", "G3", "-o", "json").stdout)
    assert (of_kind["now"], of_kind["other"]) == (36, 38)
    assert list(of_kind["sizes"][0]["kinds"]) == ["8xG3,96cpu,768Gi"]
    after = json.loads(run(*words, "--of", "G3", "--what-if", "remove 4 x T4", "-o", "json").stdout)
    assert (after["now"], after["other"]) == (36, 34)


def test_a_new_kind_is_told_where_its_power_is_not_known(run: Run) -> None:
    said = run("-p", "bestfit", "--load", "0.5", "--size-for", "5%", "--of", "dgx-h100")
    assert "taken to be as of an A10: NVIDIA-H100" in said.stderr
    assert "Now there are 0 nodes of these kinds, beside 74 others." in said.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--what-if", "add 20 dgx-h100"], "--what-if 'add 20 dgx-h100': no such change (expected 'add 20 x KIND'"),
        (["--what-if", "add 2 x dgx-h10"], "no such kind of node: 'dgx-h10' (expected dgx-h100"),
        (["--what-if", "remove 99 x T4"], "not so many nodes of the kind: 99 (expected at most 12)"),
        (["--what-if", "drain nobody"], "no such node: 'nobody'"),
        (["--what-if", "drain small-node-000", "-o", "svg"], "-o: no such form for fleets beside each other: 'svg'"),
        (["--size-for", "1%", "-o", "csv"], "-o: no such form"),
        (["--size-for", "lots"], "--size-for: not a rate of refusal: 'lots'"),
        (["--size-for", "1%", "--save", "out"], "--save: no records of fleets that are only tried"),
        (["--size-for", "1%", "--of", "A11"], "no such kind of node: 'A11' (expected A10"),
        (["--size-for", "1%", "--of", ""], "--of: empty name"),
        (
            ["--size-for", "1%", "--of", "dgx-h100", "--alone"],
            "pods have no room, however many of these nodes there are",
        ),
        (["--size-for", "1%", "-p", "fdg"], "unknown card policy: 'fdg'"),
        (["--of", "A10"], "--of: nothing to size"),
        (["--alone"], "--alone: nothing to size"),
        (["--size-for", "1%", "--alone"], "--alone: of which kind is not said"),
    ],
)
def test_what_cannot_be_is_one_line_and_ends_with_2(run: Run, words: list[str], told: str) -> None:
    said = run(*words)
    assert (said.returncode, said.stdout) == (2, "")
    *notes, error = said.stderr.splitlines()
    assert all(note.startswith("note: ") for note in notes)
    assert told in error
