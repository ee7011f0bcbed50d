"""Runs beside each other come out as one after the other; finished ones are kept, and what is damaged is made again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bayplan.errors import InputError
from bayplan.fleet.cards.dialects import KNOWN
from bayplan.simulate import kept as kept_module
from bayplan.simulate.kept import Kept
from bayplan.simulate.replay import replay
from bayplan.simulate.result import RunResult, result
from bayplan.simulate.run import PolicyName, Run, Save, parse_seeds, run_one
from bayplan.simulate.runs import run_all
from bayplan.simulate.sources import TraceSource, Wishes, open_nodes
from bayplan.simulate.trace import Trace

BESTFIT, RANDOM = PolicyName("bestfit"), PolicyName("random")
RUNS = [Run(policy, seed) for policy in (BESTFIT, RANDOM) for seed in (1, 2)]


@pytest.fixture
def source() -> TraceSource:
    wishes = Wishes("preset:small/pods.csv", load=0.2)
    return TraceSource(open_nodes("preset:small/nodes.csv"), wishes, KNOWN, lambda note: None)


def silent(note: str) -> None:
    raise AssertionError(note)


def test_processes_beside_each_other_come_to_the_same(source: TraceSource, tmp_path: Path) -> None:
    serial = run_all(RUNS, source.trace, save=Save(str(tmp_path / "a"), "csv"))
    shares: list[float] = []
    beside = run_all(RUNS, source.trace, jobs=2, save=Save(str(tmp_path / "b"), "csv"), advance=shares.append)
    assert beside == serial
    assert [(run.policy, run.seed) for run in serial] == [(str(run.policy), run.seed) for run in RUNS]
    assert sum(shares) == pytest.approx(len(RUNS))
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["bestfit-s1.csv", "bestfit-s2.csv", "random-s1.csv", "random-s2.csv"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_seeds_make_different_traces_and_policies_that_draw_differ(source: TraceSource) -> None:
    first, second, *drawn = run_all(RUNS, source.trace)
    assert first.power_kw != second.power_kw
    assert drawn[0].power_kw != first.power_kw


def test_a_kept_result_is_not_made_again(source: TraceSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = run_all(RUNS, source.trace, kept=Kept(str(tmp_path), silent))
    assert len(list(tmp_path.iterdir())) == len(RUNS)

    def never(*_: object) -> RunResult:
        raise AssertionError("made again")

    monkeypatch.setattr("bayplan.simulate.runs.run_one", never)
    assert run_all(RUNS, source.trace, kept=Kept(str(tmp_path), silent)) == made


def test_another_trace_policy_seed_version_or_code_is_another_result(
    source: TraceSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, trace, run = Kept(str(tmp_path), silent), source.trace(1), RUNS[0]
    kept.keep(trace, run, run_one(trace, run))
    assert kept.find(trace, run) is not None
    others: list[tuple[Trace, Run]] = [
        (trace, Run(PolicyName("bestfit", "x"), 1)),
        (trace, Run(RANDOM, 1)),
        (trace, Run(BESTFIT, 2)),
        (trace, Run(BESTFIT, 1, informed=False)),
        (source.trace(2), run),
        (trace._replace(nodes=trace.nodes[::-1]), run),
        (trace._replace(names=[*trace.names[:-1], "other"]), run),
        (trace._replace(counts={}), run),
        (trace._replace(arrives_s=trace.arrivals.astype(np.float64), leaves_s=np.full(len(trace.arrivals), 1e9)), run),
    ]
    for other_trace, other in others:
        assert kept.find(other_trace, other) is None
    with monkeypatch.context() as patch:
        patch.setattr(kept_module, "__version__", "99")
        assert kept.find(trace, run) is None
    monkeypatch.setattr(kept_module, "_sources", lambda folder, name: [(name, b"changed")])
    assert kept.find(trace, run) is None


@pytest.mark.parametrize("damage", ["cut", "garbage", "other-key", "other-result", "nested", "folder"])
def test_a_file_that_is_no_use_is_told_and_its_run_made_again(source: TraceSource, tmp_path: Path, damage: str) -> None:
    runs = RUNS[:1]
    made = run_all(runs, source.trace, kept=Kept(str(tmp_path), silent))
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    values = json.loads(content)
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        values["key" if damage == "other-key" else "check"] = "0" * 64
        if damage == "other-result":
            values = {**json.loads(content), "result": {**values["result"], "failed": 7}}
        made_worse = {"cut": content[:100], "garbage": b"\xff\x00", "nested": b"[" * 100_000}
        path.write_bytes(made_worse.get(damage, json.dumps(values).encode()))
    told: list[str] = []
    if damage == "folder":
        with pytest.raises(InputError, match="cannot be written"):
            run_all(runs, source.trace, kept=Kept(str(tmp_path), told.append))
    else:
        assert run_all(runs, source.trace, kept=Kept(str(tmp_path), told.append)) == made
        assert path.read_bytes() == content
    assert len(told) == 1
    assert str(path) in told[0]


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        Kept(str(tmp_path / "file"), silent)


def test_a_run_that_was_killed_is_made_again_and_nothing_else(tmp_path: Path) -> None:
    program = str(Path(sys.executable).parent / "bayplan")
    arguments = ["simulate", "preset:small", "-p", "bestfit", "-s", "1-60", "-j", "1", "-o", "json", "--resume"]
    first = subprocess.Popen([program, *arguments, str(tmp_path / "kept")], stdout=subprocess.DEVNULL)
    while first.poll() is None and len(list((tmp_path / "kept").glob("run-*"))) < 3:
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").glob("run-*")}
    assert 3 <= len(before) < 60, "it was killed too late for this test to mean anything"
    arguments[5] = "1-8"
    resumed = subprocess.run([program, *arguments, str(tmp_path / "kept")], capture_output=True, check=True)
    whole = subprocess.run([program, *arguments, str(tmp_path / "other")], capture_output=True, check=True)
    assert resumed.stdout == whole.stdout
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())


def test_a_record_that_is_missing_is_written_although_the_result_is_kept(source: TraceSource, tmp_path: Path) -> None:
    runs = RUNS[:1]
    save, kept = Save(str(tmp_path / "records"), "csv"), Kept(str(tmp_path / "kept"), silent)
    run_all(runs, source.trace, kept=kept)
    run_all(runs, source.trace, kept=kept, save=save)
    assert (tmp_path / "records" / "bestfit-s1.csv").exists()


def test_a_misspelt_policy_is_told_before_any_run(source: TraceSource, tmp_path: Path) -> None:
    runs = [RUNS[0], Run(PolicyName("bestfti"), 1)]
    with pytest.raises(InputError, match=r"unknown card policy: 'bestfti' \(expected bestfit or .*random"):
        run_all(runs, source.trace, save=Save(str(tmp_path / "records"), "csv"))
    assert not (tmp_path / "records").exists()


def test_names_of_policies_and_seeds_as_they_are_typed() -> None:
    assert PolicyName.parse("Best-Fit") == BESTFIT
    assert PolicyName.parse(" GPU_Packing ") == PolicyName("gpupacking")
    assert PolicyName.parse("PWR+FGD:200") == PolicyName("pwr+fgd", "200")
    assert str(PolicyName.parse("PWR+FGD:200")) == "pwr+fgd:200"
    assert parse_seeds(["42"]) == (42,)
    assert parse_seeds(["3,1-2", "2..4"]) == (3, 1, 2, 4)


@pytest.mark.parametrize("text", ["", "x", "-1", "1-", "5-4", "1-99999999", "1.5", "٣", "9" * 30])
def test_what_is_no_seed_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--seed"):
        parse_seeds([text])


def test_one_run_is_a_replay_summed_up(source: TraceSource) -> None:
    from bayplan.files.plugins import load_card_policy

    trace = source.trace(1)
    record = replay(trace, load_card_policy("random"), seed=1)
    assert run_one(trace, Run(RANDOM, 1)) == result(trace, record, "random", 1)
