"""Verdicts against what the original extender answered for five thousand nodes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import MetricKey, Sample
from bayplan.fleet.telemetry.reading import read_policy
from bayplan.fleet.telemetry.scoring import ten_minus_rank
from bayplan.protocols.extender.arguments import read_args


@pytest.fixture(scope="module")
def bodies(shared_data: Path) -> Path:
    folder = shared_data / "extender-bodies"
    if not folder.is_dir():
        pytest.skip(f"shared data is absent: no folder {folder}")
    return folder


@pytest.fixture(scope="module")
def engine(bodies: Path) -> TelemetryEngine:
    made = TelemetryEngine()
    for policy in read(bodies / "fixtures" / "tas_policies.json.gz"):
        made.set_policy(read_policy(policy, made.settings), 0)
    for metric, values in read(bodies / "fixtures" / "tas_metrics.json.gz").items():
        samples = {node: Sample.read(value, 0) for node, value in values.items()}
        made.update(MetricKey(name=metric), samples, 0)
    return made


def read(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


BODIES = [
    ("tas_full_500", "tas_full_500"),
    ("tas_mini_500", "tas_mini_500"),
    ("tas_mini_5000", "tas_mini_5000"),
    ("tas_names_500", "accept_tas_names_500"),
    ("tas_names_5000", "accept_tas_names_5000"),
]


@pytest.mark.parametrize(("body", "answer"), BODIES)
def test_the_same_nodes_are_refused(body: str, answer: str, engine: TelemetryEngine, bodies: Path) -> None:
    args = read_args(gzip.decompress((bodies / "bodies" / f"{body}.json.gz").read_bytes()))
    verdict = engine.verdict_for(args.pod.metadata.namespace or "", args.pod.labels, 0)
    expected = read(bodies / "expected" / f"{answer}.filter.json.gz")
    passed = [name for name in args.names if verdict.reason(name) is None]
    assert passed == expected["NodeNames"][:-1]
    assert {name for name in args.names if verdict.reason(name) is not None} == set(expected["FailedNodes"])


@pytest.mark.parametrize(("body", "answer"), BODIES)
def test_nodes_are_ranked_the_same(body: str, answer: str, engine: TelemetryEngine, bodies: Path) -> None:
    args = read_args(gzip.decompress((bodies / "bodies" / f"{body}.json.gz").read_bytes()))
    verdict = engine.verdict_for(args.pod.metadata.namespace or "", args.pod.labels, 0)
    expected = [(each["Host"], each["Score"]) for each in read(bodies / "expected" / f"{answer}.prioritize.json.gz")]
    assert list(ten_minus_rank(verdict.ranked, args.names)) == expected
    scores = [verdict.score(host) for host, _ in expected]
    assert scores == sorted(scores, reverse=True)
    assert 0 <= min(scores) <= max(scores) <= 10
