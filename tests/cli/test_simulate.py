"""`bayplan simulate` from end to end: what a person types, and what is written."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = str(Path(sys.executable).parent / "bayplan")
Run = Callable[..., "subprocess.CompletedProcess[str]"]
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,8192,2,T4\nn1,8000,8192,1,T4\n"
ORDER = "rank,sn\n0,n1\n1,n0\n"
ARRIVALS = """idx,name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
0,a,1000,512,1,500,
1,b,1000,512,1,1000,T4
2,c,1000,512,2,1000,
3,d,1000,512,1,1000,G2
4,a-tuned-0,1000,512,1,500,
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def call(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, "simulate", *arguments],
            input=stdin,
            cwd=tmp_path,
            env={**os.environ, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return call


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    for name, text in (("nodes.csv", NODES), ("order.csv", ORDER), ("arrivals.csv", ARRIVALS)):
        (tmp_path / name).write_text(text)
    return ["--nodes", "nodes.csv", "--node-order", "order.csv", "--arrivals", "arrivals.csv"]


def test_given_orders_come_out_as_json(run: Run, given: list[str], tmp_path: Path) -> None:
    said = run(*given, "--policy", "bestfit", "-o", "json", "--save", "records")
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    assert found["policy"] == "bestfit"
    assert (found["arrivals"], found["failed"]) == (5, 2)
    assert found["refused"] == {"1-card": 1, "2-card": 1}
    assert found["refused_by_cause"] == {"model": 1, "cards": 1}
    assert found["allocation_percent"] == {"17": 16.67, "50": 50.0, "117": 50.0, "150": 50.0, "167": 66.67}
    rows = list(csv.DictReader(io.StringIO((tmp_path / "records" / "bestfit-s42.csv").read_text())))
    assert [(row["node"], row["cards"]) for row in rows][:2] == [("n1", "0"), ("n0", "0")]


def test_the_made_trace_needs_no_files(run: Run) -> None:
    said = run("preset:small", "-p", "fgd", "--policy", "Best-Fit", "-s", "1-2")
    assert said.returncode == 0, said.stderr
    assert said.stderr == ""
    assert "74 nodes, 480 cards, 2 seeds" in said.stdout
    assert "bestfit" in said.stdout


def test_the_same_words_give_the_same_bytes(run: Run, tmp_path: Path) -> None:
    words = ("preset:small", "-p", "fgd,random", "-s", "1,2", "--load", "0.5")
    for output in ("json", "csv", "svg", "table"):
        first = run(*words, "-o", output, "--jobs", "1")
        assert first.returncode == 0, first.stderr
        assert first.stdout == run(*words, "-o", output, "--jobs", "2").stdout


def test_times_give_energy(run: Run) -> None:
    found = json.loads(run("preset:small", "-p", "bestfit", "--times", "-o", "json").stdout)
    assert found["energy_kwh"] > 0
    assert len(found["over_time"]["time_s"]) == 101
    assert json.loads(run("preset:small", "-p", "bestfit", "-o", "json").stdout)["energy_kwh"] is None


def test_pods_come_from_standard_input(run: Run, given: list[str]) -> None:
    said = run(*given[:4], "--arrivals", "-", "-p", "bestfit", "-o", "csv", stdin=ARRIVALS)
    assert said.stdout.startswith("policy,seed,load,allocation_percent")
    assert len(said.stdout.splitlines()) == 6


def test_manifests_on_a_cluster(run: Run, tmp_path: Path) -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
        "spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}\n"
    )
    (tmp_path / "cluster.yaml").write_text(
        "apiVersion: bayplan.dev/v1alpha1\nkind: Cluster\nnodes:\n- {name: d, machine: preset:dgx-h100}\n"
    )
    said = run("-", "-c", "cluster.yaml", "-p", "bestfit", "-o", "json", "--load", "1", stdin=pod)
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    assert (found["cards"], found["arrivals"]) == (8, 8)
    assert "what these cards draw is not known" in said.stderr
    node = (
        "apiVersion: v1\nkind: Node\nmetadata: {name: node-1, labels: {example.com/card: X}}\n"
        'status: {allocatable: {cpu: "8", memory: 8Gi, nvidia.com/gpu: "2"}}\n'
    )
    (tmp_path / "node.yaml").write_text(node + "spec: {unschedulable: false}\n---\n" + node.replace("node-1", "node-2"))
    said = run("-", "-c", "node.yaml", "-p", "bestfit", "--model-label", "example.com/card", stdin=pod)
    assert "of an A10: X" in said.stderr
    assert "2 nodes, 4 cards" in said.stdout


def test_what_was_finished_is_taken_up_again(run: Run, tmp_path: Path) -> None:
    words = ("preset:small", "-p", "bestfit", "-s", "1-3", "--resume", "kept", "-o", "json")
    first = run(*words)
    assert len(list((tmp_path / "kept").iterdir())) == 3
    (damaged, *_) = (tmp_path / "kept").iterdir()
    damaged.write_text("{")
    again = run(*words)
    assert again.stdout == first.stdout
    assert f"note: kept/{damaged.name}: cannot be used, the run is made again" in again.stderr
    assert run(*words).stderr == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-p", "fgd"], "no pods (expected either TRACE or --arrivals)"),
        (["x.csv", "--arrivals", "y.csv"], "two lists of pods"),
        (["x.csv"], "no nodes (expected --nodes or --cluster)"),
        (["x.csv", "--nodes", "a", "--cluster", "b"], "two lists of nodes"),
        (["x.csv", "--nodes", ""], "--nodes: empty name"),
        (["preset:tiny"], "unknown preset: 'preset:tiny' (expected preset:small)"),
        (["preset:small", "--nodes", "none.csv"], "none.csv: cannot be read (No such file or directory)"),
        (["preset:small", "-p", "fdg"], "unknown card policy: 'fdg' (expected fgd or"),
        (["preset:small", "-s", "x"], "--seed: not a seed: 'x'"),
        (["preset:small", "--load", "nan"], "--load: not a load"),
        (["preset:small", "--resume", "/dev/null/x", "-p", "fgd"], "cannot be made"),
    ],
)
def test_what_cannot_be_is_one_line_and_ends_with_2(run: Run, words: list[str], told: str) -> None:
    said = run(*words)
    assert said.returncode == 2
    assert said.stdout == ""
    assert told in said.stderr
    assert len(said.stderr.splitlines()) == 1


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    line = f"{PROGRAM} simulate preset:small -p bestfit -s 1-3 -o csv | head -1; echo ${{PIPESTATUS[0]}}"
    said = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=120)
    assert said.stdout.splitlines()[-1] == "0"
    assert said.stderr == ""


def test_nothing_heavy_is_imported_that_is_not_asked_for(tmp_path: Path) -> None:
    script = (
        "import sys; from bayplan.cli.app import run\n"
        "run(['simulate', 'preset:small', '-p', 'bestfit', '-o', 'json'])\n"
        "heavy = {'scipy', 'matplotlib', 'pyarrow', 'bayplan.hub', 'bayplan.policies.kubelet'}\n"
        "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stderr == "[]\n"


@pytest.mark.parametrize(("policy", "end", "failed"), [("fgd", 95.29, 2532), ("bestfit", 93.13, None)])
def test_published_figures_come_out(run: Run, shared_data: Path, policy: str, end: float, failed: int | None) -> None:
    data = shared_data / "openb"
    words = ["--nodes", str(data / "openb_node_list_gpu_node.csv.gz")]
    words += ["--node-order", str(data / "nodeorder_default_s{seed}.csv.gz")]
    words += ["--arrivals", str(data / "arrivals_default_s{seed}.csv.gz")]
    found = json.loads(run(*words, "-p", policy, "-o", "json").stdout)
    assert found["final_allocation_percent"] == pytest.approx(end, abs=0.005)
    assert failed is None or found["failed"] == failed


def test_a_draw_of_the_trace_is_the_same_everywhere(run: Run) -> None:
    found = run("preset:small", "-p", "bestfit", "-s", "7", "--load", "0.3", "-o", "csv").stdout
    digest = hashlib.sha256(found.encode()).hexdigest()
    assert digest.startswith("80a035135d9f7838"), digest
