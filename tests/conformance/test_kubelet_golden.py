"""The answers of a real kubelet, one test a public golden file; `kubelet.py` beside this file says how they match."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

PUBLIC = (
    "public-churn-01",
    "public-churn-02",
    "public-cpu-01",
    "public-edge-01",
    "public-memory-01",
    "public-memory-02",
    "public-merge-01",
    "public-take-01",
    "public-take-hangs",
    "public-topology-container-01",
    "public-topology-container-02",
    "public-topology-pod-01",
    "public-topology-pod-02",
    "public-uneven-01",
)


@pytest.fixture(scope="module")
def runner(program: Callable[[str], ModuleType]) -> ModuleType:
    return program("kubelet")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_line_matches(name: str, runner: ModuleType, shared_data: Path) -> None:
    path = shared_data / "kubelet-golden" / f"{name}.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"shared data is absent: no file {path}")
    lines = [line for line in runner.lines_of(path) if line.strip()]
    assert lines
    different = [found for line in lines if (found := runner.check_line(line))]
    shown = "\n".join("\n    ".join(found[:3]) for found in different[:5])
    assert not different, f"{len(different)} of {len(lines)} lines differ:\n{shown}"


def test_no_golden_file_is_forgotten(shared_data: Path) -> None:
    folder = shared_data / "kubelet-golden"
    if not folder.is_dir():
        pytest.skip(f"shared data is absent: no folder {folder}")
    assert sorted(path.name.removesuffix(".jsonl.gz") for path in folder.glob("*.jsonl.gz")) == sorted(PUBLIC)


def test_a_line_that_differs_is_told(runner: ModuleType, shared_data: Path) -> None:
    path = shared_data / "kubelet-golden" / "public-take-01.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"shared data is absent: no file {path}")
    line = next(iter(runner.lines_of(path)))
    assert not runner.check_line(line)
    assert runner.check_line(line.replace('"cpus": "', '"cpus": "77,').replace('"cpus":"', '"cpus":"77,'))
