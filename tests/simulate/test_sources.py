"""What a file of pods is, and in which order they come, follows from the file and from what is wished for."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bayplan.errors import InputError
from bayplan.fleet.cards.dialects import KNOWN
from bayplan.fleet.cards.model import CardNode
from bayplan.simulate import orders
from bayplan.simulate.sources import TraceSource, Wishes, open_nodes, preset_file
from bayplan.simulate.trace import Trace

NODES = tuple(CardNode(name=name, cpu_milli=1000, memory_bytes=0, cards=4, model="T4") for name in "cab")
OWN = "name,milli\nb,500\na,250\n"
TIMED = "name,milli,arrives_s\nb,500,2\na,250,1\n"
OPENB = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\nb,0,0,1,500,2,9\na,0,0,1,250,1,8\n"
LINES = '{"name": "b", "milli": 500}\n{"name": "a", "milli": 250}\n'
POD = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pods"


def trace_of(wishes: Wishes, seed: int = 1, told: list[str] | None = None) -> Trace:
    notes: list[str] = [] if told is None else told
    return TraceSource(NODES, wishes, KNOWN, notes.append).trace(seed)


@pytest.mark.parametrize("text", [OWN, LINES, "\n" + OWN, OPENB])
def test_pods_are_told_by_the_beginning_of_their_file(file: Path, text: str) -> None:
    file.write_bytes(gzip.compress(text.encode()))
    trace = trace_of(Wishes(str(file), as_given=True))
    assert trace.names == ["b", "a"]
    assert [trace.requests[i].milli for i in trace.arrivals] == [500, 250]
    assert trace.nodes == NODES


@pytest.mark.parametrize("text", [POD, "---" + POD, "# a comment, with a comma" + POD])
def test_manifests_are_told_from_tables(file: Path, text: str) -> None:
    file.write_text(text)
    assert trace_of(Wishes(str(file), as_given=True)).names == ["default/a"]
    json = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}'
    file.write_text(json)
    assert trace_of(Wishes(str(file), as_given=True)).names == ["default/a"]


def test_a_folder_holds_manifests(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD)
    assert trace_of(Wishes(str(tmp_path), as_given=True)).names == ["default/a"]


def test_what_a_reader_of_manifests_notices_is_told(file: Path) -> None:
    file.write_text(POD.replace("containers:", "nodeName: x, containers:"))
    told: list[str] = []
    trace_of(Wishes(str(file), as_given=True), told=told)
    assert told == [f"{file}: document 1: that a pod is bound to a node is not considered"]


def test_pods_with_times_come_at_them_but_those_of_openb_are_shuffled(file: Path) -> None:
    file.write_text(TIMED)
    assert trace_of(Wishes(str(file))).arrives_s is not None
    shuffled = trace_of(Wishes(str(file), times=False))
    assert shuffled.arrives_s is None
    assert len(shuffled.names) > 2
    file.write_text(OPENB)
    assert trace_of(Wishes(str(file))).arrives_s is None
    assert trace_of(Wishes(str(file), times=True)).names == ["a", "b"]
    file.write_text(TIMED)
    assert trace_of(Wishes(str(file), as_given=True)).names == ["b", "a"]
    assert trace_of(Wishes(str(file), as_given=True, times=True)).names == ["a", "b"]


def test_nodes_are_shuffled_by_the_seed_unless_their_order_is_given(file: Path, tmp_path: Path) -> None:
    file.write_text(TIMED)
    order = tmp_path / "order-3"
    order.write_text("rank,name\n0,b\n1,c\n2,a\n")
    assert trace_of(Wishes(str(file)), 3).nodes == orders.shuffled_nodes(NODES, 3)
    for times in (True, False):
        wishes = Wishes(str(file), node_order=str(tmp_path / "order-{seed}"), times=times)
        assert [node.name for node in trace_of(wishes, 3).nodes] == ["b", "c", "a"]


def test_the_seed_is_put_in_names_of_files(file: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        (tmp_path / f"pods-{seed}").write_text(f"name,milli\np{seed},500\n")
    wishes = Wishes(str(tmp_path / "pods-{seed}"), as_given=True)
    source = TraceSource(NODES, wishes, KNOWN, lambda note: None)
    assert [source.trace(seed).names for seed in (1, 2, 1)] == [["p1"], ["p2"], ["p1"]]


@pytest.mark.parametrize(
    ("text", "wishes", "told"),
    [
        (OWN, Wishes("", times=True), "no times of arrival"),
        (OWN, Wishes("", as_given=True, load=2.0), "--load: no load to choose where the arrivals are given: 2.0"),
        (TIMED, Wishes("", load=2.0), "--load: no load to choose"),
        ("", Wishes(""), "no pods"),
        ("name,milli\na,2000\n", Wishes(""), "row 2, milli: not a part of a card: 2000"),
        ("just words\n", Wishes(""), "document 1"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(file: Path, text: str, wishes: Wishes, told: str) -> None:
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        trace_of(wishes._replace(pods=str(file)))
    assert told in str(caught.value)
    assert str(file) in str(caught.value) or "--load" in str(caught.value)


def test_a_preset_has_nodes_and_pods() -> None:
    assert len(open_nodes(preset_file("preset:small", "nodes.csv"))) == 74
    with pytest.raises(InputError, match=r"unknown preset: 'preset:large' \(expected preset:small\)"):
        preset_file("preset:large", "nodes.csv")
