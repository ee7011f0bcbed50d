"""What `make test` holds against the published figures of the openb trace; `openb.py` beside this file has the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture(scope="module")
def runner(program: Callable[[str], ModuleType]) -> ModuleType:
    return program("openb")


@pytest.mark.parametrize("policy", ["bestfit", "fgd", "pwr", "pwr+fgd:100"])
def test_every_arrival_is_as_it_was_written_down(policy: str, runner: ModuleType, openb_data: Path) -> None:
    different = runner.steps_that_differ(openb_data, policy)
    shown = "\n".join(different[: runner.SHOWN])
    assert not different, f"{len(different)} arrivals differ:\n{shown}"


def test_allocations_at_the_end_are_those_that_are_published_for_each_seed(
    runner: ModuleType, openb_data: Path
) -> None:
    wanted = [("default", policy, seed) for policy in ("bestfit", "fgd") for seed in range(42, 47)]
    runs = runner.made(openb_data, [*wanted, ("default", "dotprod", 42)], jobs=1)
    findings = list(runner.final_allocations(runs, runner.published_figures()))
    assert len(findings) == 10 + 5
    assert [str(finding) for finding in findings if not finding.agrees] == []


def test_watts_saved_where_pods_name_models_are_those_that_are_published(runner: ModuleType, openb_data: Path) -> None:
    """Models that are named twice, and the order of equally frequent kinds, show here and nowhere else."""
    runs = runner.made(openb_data, [("gpuspec33", "fgd", seed) for seed in runner.POWER_SEEDS], jobs=1)
    published = runner.published_figures()
    for figures in (published["power_saving_percent"], published["allocated_of_arrived"]):
        figures["gpuspec33"] = {"fgd": figures["gpuspec33"]["fgd"]}
    findings = list(runner.savings(runs, published, lambda trace: trace == "gpuspec33"))
    assert len(findings) == 7 + 2
    assert [str(finding) for finding in findings if not finding.agrees] == []


def test_a_step_that_differs_is_told(runner: ModuleType, openb_data: Path) -> None:
    trace = runner.trace_of(openb_data, "default", 42)
    trace = trace._replace(arrivals=trace.arrivals[:50], names=trace.names[:50])
    record = runner.play(trace, "bestfit", 42)
    steps = runner.rows_of(openb_data / "steps_default_BestFit_s42.csv.gz")[:50]
    assert list(runner.different_steps(trace, record, steps)) == []
    steps[7]["frag_milli"] = str(float(steps[7]["frag_milli"]) + 0.02)
    steps[9]["node"] = "elsewhere"
    assert [text.split(":")[0] for text in runner.different_steps(trace, record, steps)] == ["arrival 7", "arrival 9"]
    assert "49 arrivals expected" in next(iter(runner.different_steps(trace, record, steps[:49])))


def test_a_figure_that_differs_is_told(runner: ModuleType) -> None:
    assert runner.Finding("x", 95.29, 95.294, 0.005).agrees
    assert not runner.Finding("x", 95.29, 95.296, 0.005).agrees
    means = runner.Means("default", "fgd", some_of_them=True, least_deviation=0.1)
    assert means.spread([95.0, 95.2], 0.1) > means.spread([95.0, 95.2] * 3, 0.1) > 0
    assert means.spread([95.0] * 5, 0.0) == 0
    assert np.isclose(means.spread([95.0] * 5, 0.1), 4 * 0.1 * np.sqrt(0.1))


def test_without_the_data_there_is_nothing_to_run(
    runner: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner.main(["--data", str(tmp_path)]) == 2
    assert "does not hold the openb trace" in capsys.readouterr().err
