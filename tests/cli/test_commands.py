"""What a person types, and what comes of it: exit status, output, one clear message for bad input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = str(Path(sys.executable).parent / "bayplan")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WORKLOAD = str(EXAMPLES / "workload.yaml")
KUBELET = str(EXAMPLES / "kubelet.yaml")
CLUSTER = str(EXAMPLES / "cluster.yaml")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def call(*arguments: str, stdin: str = "", **changes: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "NO_COLOR": "1", **changes}
        return subprocess.run(
            [PROGRAM, *arguments],
            input=stdin,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return call


def pod(name: str, cpu: str, memory: str = "1Gi") -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - name: main\n    image: x\n"
        f'    resources: {{limits: {{cpu: "{cpu}", memory: {memory}}}}}\n'
    )


def test_version_and_help(run: Run) -> None:
    assert re.fullmatch(r"bayplan \d+\.\d+\.\d+\n", run("--version").stdout)
    for words in (["--help"], ["plan", "-h"], ["machine", "--help"], ["explain", "--help"]):
        assert "Usage: bayplan" in run(*words).stdout


def test_counts_are_one_line(run: Run) -> None:
    said = run("machine", "preset:epyc-9654-nps4", "--counts")
    assert said.stdout == "packages=2 dies=0 numa=8 cores=192 pus=384 l2=192 l3=24\n"
    assert run("machine", "--counts").stdout.startswith("packages=")


def test_every_preset_is_listed_and_drawn(run: Run) -> None:
    listed = run("machine", "presets").stdout.split("\n")[:-1]
    assert len(listed) >= 11
    for line in listed:
        drawn = run("machine", line.split()[0])
        assert drawn.returncode == 0
        assert "NUMA node" in drawn.stdout


def test_a_plan_where_all_is_placed_ends_with_0(run: Run) -> None:
    said = run("plan", WORKLOAD, "-m", "preset:dgx-h100", "-k", KUBELET, "--hugepages", "1Gi=16")
    assert said.returncode == 0, said.stderr
    assert "11 of 11 containers placed" in said.stdout


def test_a_plan_with_a_refusal_ends_with_3_and_says_what_would_have_to_change(run: Run) -> None:
    said = run("plan", "-", "-m", "preset:dgx-h100", "-k", KUBELET, stdin=pod("odd", "3"))
    assert said.returncode == 3
    assert "SMTAlignmentError: SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2" in said.stdout
    assert "ask for 4 or 2 CPUs" in said.stdout


@pytest.mark.parametrize("form", ["text", "json", "yaml", "svg", "html"])
def test_every_form_comes_whole(run: Run, form: str) -> None:
    said = run("plan", WORKLOAD, "-m", "preset:xeon-8480-2s-snc4", "-k", KUBELET, "-o", form)
    assert said.returncode == 3
    assert "postgres-0" in said.stdout
    if form == "json":
        assert json.loads(said.stdout)["kind"] == "Plan"


def test_a_plan_is_the_same_every_time(run: Run) -> None:
    once, again = (run("plan", WORKLOAD, "-c", CLUSTER, "-o", "json").stdout for _ in range(2))
    assert once == again


def test_the_last_plan_is_explained(run: Run) -> None:
    run("plan", WORKLOAD, "-m", "preset:dgx-h100", "-k", KUBELET)
    said = run("explain", "ai/train-0")
    assert said.returncode == 0
    assert "which NUMA nodes suit all resources together?" in said.stdout
    assert run("explain", "postgres-0/server").returncode == 0


def test_a_saved_plan_is_explained(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(run("plan", WORKLOAD, "-c", CLUSTER, "-o", "json").stdout)
    assert "upf" in run("explain", "p.json", "telco/upf").stdout
    assert "web-2" in run("explain", "p.json").stdout


def test_what_one_machine_cannot_tell_of_nodes_is_noted(run: Run) -> None:
    choosy = pod("a", "1").replace("spec:", "spec:\n  nodeSelector: {gpu: yes-please}")
    said = run("plan", "-", "-m", "preset:gh200", stdin=choosy)
    assert said.returncode == 0
    assert "1 pod says which nodes are right (nodeSelector" in said.stderr
    assert not run("plan", "-", "-m", "preset:gh200", "--quiet", stdin=choosy).stderr


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("{name: a, machine: preset:gh200, mode: loose}", "nodes[0].mode: unknown mode: 'loose'"),
        ("{name: a, machine: gone.json}", "c.yaml: document 1: nodes[0]: node a: ./gone.json: cannot be read"),
        (
            "{name: a, machine: preset:gh200, devices: {x.com/d: [{id: d0, numaNodes: [77]}]}}",
            "node a: devices[x.com/d]: device d0 is on NUMA nodes that gh200 lacks: '77' (expected 0-8)",
        ),
        ("{name: a, machine: preset:gh200}, {name: a, machine: preset:gh200}", "bayplan: ./c.yaml: document 1: nodes"),
        (
            "{name: a, machine: preset:gh200, kubeletConfig: {cpuManagerPolicy: static, reservedSystemCPUs: '500'}}",
            "expected reservedSystemCPUs of CPUs that are online",
        ),
    ],
)
def test_a_wrong_node_is_named(run: Run, tmp_path: Path, entry: str, told: str) -> None:
    (tmp_path / "c.yaml").write_text(f"apiVersion: bayplan.dev/v1alpha1\nkind: Cluster\nnodes: [{entry}]\n")
    said = run("plan", "-", "-c", "./c.yaml", stdin=pod("a", "1"))
    assert said.returncode == 2
    assert told in said.stderr


def test_a_captured_machine_is_planned_for_elsewhere(run: Run) -> None:
    assert run("machine", "capture", "here.tar.gz").returncode == 0
    assert run("machine", "sysfs:here.tar.gz", "--counts").stdout == run("machine", "--counts").stdout
    assert run("plan", "-", "-m", "here.tar.gz", stdin=pod("a", "100m")).returncode == 0
    again = run("machine", "capture", "here.tar.gz")
    assert again.returncode == 2
    assert "here.tar.gz" in again.stderr
    assert "--force" in again.stderr


def test_a_saved_machine_is_the_machine(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(run("machine", "preset:gh200", "-o", "json").stdout)
    (tmp_path / "m.yaml").write_text(run("machine", "preset:gh200", "-o", "yaml").stdout)
    expected = run("machine", "preset:gh200", "--counts").stdout
    assert run("machine", "m.json", "--counts").stdout == expected
    assert run("machine", "m.yaml", "--counts").stdout == expected


def test_the_safe_mode_goes_where_the_kubelet_would_not_start(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k.yaml").write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n"
        "reservedSystemCPUs: 0-1\ntopologyManagerPolicy: restricted\n"
    )
    exact = run("plan", "-", "-m", "preset:superdome-flex-32s", "-k", "k.yaml", stdin=pod("a", "4"))
    assert exact.returncode == 2
    assert "unsupported on machines with more than 8 NUMA Nodes" in exact.stderr
    safe = run("plan", "-", "-m", "preset:superdome-flex-32s", "-k", "k.yaml", "--mode", "safe", stdin=pod("a", "4"))
    assert safe.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "stdin", "told"),
    [
        (["plan", "gone.yaml"], "", "gone.yaml: cannot be read"),
        (["plan", "-"], "", "no pods"),
        (["plan", "-"], pod("a", "1").replace("kind: Pod", "kind: pod"), "did you mean Pod?"),
        (["plan", "-"], "a: [", "line 2, column 1: not YAML"),
        (["plan", "-"], pod("a", "lots"), "limits.cpu"),
        (["plan", "-"], pod("a", "-1"), "limits.cpu"),
        (["plan", "-", "-m", "preset:dgx"], pod("a", "1"), "dgx-h100"),
        (["plan", "-", "-m", "preset:gh200", "--hugepages", "3Mi=1"], pod("a", "1"), "3Mi"),
        (["plan", "-", "-m", "preset:gh200", "--hugepages", "1Gi=9999"], pod("a", "1"), "more huge pages than memory"),
        (["plan", "-", "-k", WORKLOAD], pod("a", "1"), "KubeletConfiguration"),
        (["plan", "-", "-c", WORKLOAD], pod("a", "1"), "kind"),
        (["plan", "-", "--policy", "kublet"], pod("a", "1"), "kubelet"),
        (["plan", "-", "-o", "pdf"], pod("a", "1"), "'pdf' is not one of"),
        (["machine", "/"], "", ""),
        (["machine", "hwloc:gone.xml"], "", "gone.xml"),
        (["machine", "capture", "/nowhere/x.tar.gz"], "", "/nowhere"),
        (["explain", "a/b"], "", "no last plan"),
        (["explain", "a", "b", "c"], "", "too much"),
        (["frobnicate"], "", "No such command 'frobnicate'"),
    ],
)
def test_bad_input_is_one_clear_message(run: Run, arguments: list[str], stdin: str, told: str) -> None:
    said = run(*arguments, stdin=stdin)
    if not told:
        assert said.returncode == 0, said.stderr
        return
    assert said.returncode == 2
    assert told in said.stderr
    assert "Traceback" not in said.stderr
    assert not said.stdout


def test_colour_is_only_asked_for(run: Run) -> None:
    plain = run("machine", "preset:gh200")
    assert "\x1b[" not in plain.stdout
    assert "\x1b[" in run("machine", "preset:gh200", "--color").stdout
    assert run("machine", "preset:gh200", "--ascii").stdout.isascii()


def test_a_reader_that_goes_away_is_no_error(run: Run, tmp_path: Path) -> None:
    line = f"{PROGRAM} machine preset:superdome-flex-32s -o json | head -c 10; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert not done.stderr


@pytest.mark.parametrize(
    "words", [["machine", "preset:superdome-flex-32s", "-o", "json"], ["--help"], ["machine", "presets"]]
)
def test_a_reader_that_was_never_there_is_no_error(tmp_path: Path, words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [PROGRAM, *words], cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writing)
    assert done.returncode == 0
    assert not done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_poor_terminal_loses_no_answer(tmp_path: Path, encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "XDG_CACHE_HOME": str(tmp_path)}
    for words in (
        ["plan", "-", "-m", "preset:gh200"],
        ["plan", "-", "-m", "preset:gh200", "-o", "html"],
        ["plan", "-", "-m", "preset:gh200", "-o", "svg"],
        ["machine", "presets"],
        ["explain", "a"],
    ):
        done = subprocess.run(
            [PROGRAM, *words],
            input=pod("a", "1").encode(),
            env=environment,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if "-o" in words:
            assert "·" in done.stdout.decode("utf-8")


def test_an_interrupt_leaves_no_mess(tmp_path: Path) -> None:
    pipe = tmp_path / "endless.yaml"
    os.mkfifo(pipe)
    program = subprocess.Popen(
        [PROGRAM, "plan", pipe.name, "-m", "preset:gh200"],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with pipe.open("w"):  # is open once the program has opened it, and keeps it waiting
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=60)
    assert program.returncode == 130
    assert err.strip() == "bayplan: interrupted"
    assert not out
    assert [path.name for path in tmp_path.rglob("*")] == [pipe.name]


def test_words_are_completed_in_the_shell(run: Run) -> None:
    said = run(_BAYPLAN_COMPLETE="bash_complete", COMP_WORDS="bayplan machine preset:dgx", COMP_CWORD="2")
    assert "preset:dgx-h100" in said.stdout


@pytest.mark.parametrize("output", ["json", "yaml", "svg", "html"])
def test_a_document_is_utf_8_whatever_the_locale_says(run: Run, tmp_path: Path, output: str) -> None:
    named = pod("web", "1").replace("{name: web}", '{name: web, annotations: {city: "Köln · Zürich"}}')
    (tmp_path / "web.yaml").write_text(named, encoding="utf-8")
    plan = ("plan", "web.yaml", "-m", "preset:gh200", "-o", output)
    ascii_only = run(*plan, PYTHONIOENCODING="ascii")
    assert not ascii_only.stderr
    assert ascii_only.stdout == run(*plan).stdout


def test_a_drawing_for_a_terminal_without_the_letters_is_no_traceback(run: Run) -> None:
    said = run("plan", WORKLOAD, "-m", "preset:gh200", PYTHONIOENCODING="ascii")
    assert "Traceback" not in said.stderr
    assert said.stdout.isascii()
    assert run("explain", "no-such-pod", PYTHONIOENCODING="ascii").returncode == 2


@pytest.mark.parametrize("words", ["bayplan plan ", "bayplan plan -k k", "bayplan machine ./m", "bayplan explain p"])
def test_files_are_completed_in_the_shell(run: Run, words: str) -> None:
    at = str(len(words.split(" ")) - 1)
    assert run(_BAYPLAN_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=at).stdout.startswith("file,")


@pytest.mark.parametrize("option", ["-m", "-k", "-c"])
def test_an_empty_name_is_not_something_else(run: Run, option: str) -> None:
    said = run("plan", "-", option, "", stdin=pod("a", "100m"))
    assert said.returncode == 2
    assert "empty name" in said.stderr


@pytest.mark.parametrize(
    ("how", "status", "told"),
    [(">/dev/full", 2, "No space left on device"), (">&-", 0, ""), ("2>&-", 0, ""), ("<&-", 2, "no pods")],
)
def test_streams_that_are_closed_or_full(tmp_path: Path, how: str, status: int, told: str) -> None:
    (tmp_path / "a.yaml").write_text(pod("a", "1"))
    what = "-" if how == "<&-" else "a.yaml"
    done = subprocess.run(
        ["sh", "-c", f"{PROGRAM} plan {what} -m preset:gh200 {how}"],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo_runs_to_its_end(tmp_path: Path) -> None:
    script = EXAMPLES.parent / ".ci" / "demo"
    environment = {**os.environ, "BAYPLAN": PROGRAM, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(["sh", str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("containers placed") == 4
    assert "Step by step" in done.stdout
