"""The benchmarks run and print their tables; how fast it was is for people to read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parent.parent / "benchmarks" / "admission.py"


def run(shared: str) -> str:
    environment = {**os.environ, "BAYPLAN_SHARED_DATA": shared}
    command = [sys.executable, str(BENCHMARK), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def without_data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(str(tmp_path_factory.mktemp("empty")))


def test_one_admission_is_measured_from_1_to_64_nodes_and_on_presets(without_data: str) -> None:
    first, _, _ = without_data.partition("\n2. ")
    cell = r"\s+\d+\.\d{3} /\s*\d+\.\d{3}"
    for name in ("1 equal", "64 equal", "8 different", "64 different", "gb200-tray", "superdome-flex-32s"):
        assert re.search(rf"^ +{name} +\d+ +\d+{cell * 3}$", first, re.MULTILINE), name
    assert re.search(r"growth 1 to 64, different( +\d+\.\dx){3}$", first, re.MULTILINE)


def test_without_the_kubelets_figures_it_says_so(without_data: str) -> None:
    assert "kubelet-scaling.tsv is not here" in without_data
    assert re.search(r"cpu\+mem\+1dev +64 +- +\d+\.\d{3} +-$", without_data, re.MULTILINE)


def test_the_walk_is_the_baseline(without_data: str) -> None:
    _, _, third = without_data.partition("\n3. ")
    assert re.search(r"cpu\+mem\+1dev +4 +3,375 +\d+\.\d{3} +\d+\.\d{3} +[\d,.]+x$", third, re.MULTILINE)


def test_the_kubelets_figures_stand_beside_ours(shared_data: Path) -> None:
    if not (shared_data / "kubelet-scaling.tsv").is_file():
        pytest.skip(f"shared data is absent: no file {shared_data / 'kubelet-scaling.tsv'}")
    text = run(str(shared_data))
    assert "measured elsewhere, on another machine, not in this run" in text
    assert re.search(r"cpu\+mem\+1dev +10 +280,147\.139 +\d+\.\d{3} +[\d,.]+x$", text, re.MULTILINE)


def test_the_fleet_is_measured_with_numpy_and_without() -> None:
    command = [sys.executable, str(BENCHMARK.parent / "fleet.py"), "200", "20"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert re.search(r"^kubelet policy, numpy +200 +20 +", said, re.MULTILINE)
    assert re.search(r"^fleet alone, plain Python +20 +2 +", said, re.MULTILINE)


def test_reading_is_measured() -> None:
    command = [sys.executable, str(BENCHMARK.parent / "reading.py")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert re.search(r"^ +\d+\.\d{3} s  10000 pods in YAML$", said, re.MULTILINE)


def test_the_growth_of_replays_is_measured() -> None:
    command = [sys.executable, str(BENCHMARK.parent / "simulate.py"), "bestfit", "100", "600"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    for kind in ("come", "come and go"):
        assert re.search(rf"^{kind} +100 +600 +\d+\.\d\d +\d+\.\d +\d+ +\d+\.\d$", said, re.MULTILINE)


def test_partitions_are_measured_against_first_fit() -> None:
    command = [sys.executable, str(BENCHMARK.parent / "partitions.py"), "60"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert re.search(r"^  1\.3 large +\d+\.\d\d +\d+\.\d\d +\d+\.\d\d$", said, re.MULTILINE)


def test_cards_are_measured_on_a_made_trace_where_the_published_ones_are_absent(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARK.parent / "cards.py"), "--data", str(tmp_path / "none"), "--seeds", "1"]
    said = subprocess.run(
        [*command, "--jobs", "1", "--only", "1,2,3,4"], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    assert "there are no goals" in said
    cell = r" +\d+\.\d\d / \d+\.\d\d"
    assert re.search(rf"^preset:small +-{cell * 4} +-?\d+\.\d / -?\d+\.\d$", said, re.MULTILINE)
    assert re.search(rf"^preset:small, preset:small {cell * 4}$", said, re.MULTILINE)
    assert re.search(r"^values +\d+\.\d\d s +\d+\.\d\dx$", said, re.MULTILINE)


def test_keeping_a_cluster_up_to_date_is_measured() -> None:
    command = [sys.executable, str(BENCHMARK.parent / "watch.py"), "20", "600", "100"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    for how in ("in a rush", "one by one"):
        assert re.search(rf"^ +600 pods , {how} +\d+\.\d s +\d+\.\d s +-?\d+ MiB +\d+\.\d us", said, re.MULTILINE)
