from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.app import bayplan
from bayplan.errors import InputError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PODS, NODES = str(EXAMPLES / "repack/pods.csv"), str(EXAMPLES / "repack/nodes.csv")
ZONES, WIDE = str(EXAMPLES / "repack/zones.yaml"), str(EXAMPLES / "repack/wide.yaml")
MACHINE = ("--machine", "preset:dgx-h100", "-k", str(EXAMPLES / "kubelet.yaml"))


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(bayplan, ["repack", *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.stdout


def test_moves_are_told_with_what_they_cost_and_gain() -> None:
    status, said = run(PODS, "--nodes", NODES, "--goal", "idle", "--moves", "3", "--width", "120")
    assert status == 0
    assert "3 moves, cost 1.4: 4.00 to 7.00 idle cards" in said
    assert "notebook-2" not in said  # the table says that it is not movable


def test_json_has_all_of_it_and_is_the_same_each_time() -> None:
    arguments = (PODS, "--nodes", NODES, "-o", "json")
    said = run(*arguments)[1]
    assert run(*arguments)[1] == said
    made = json.loads(said)
    gains = [move["gain_cards"] for move in made["moves"]]
    assert sum(gains) == pytest.approx(made["after_cards"] - made["before_cards"], abs=1e-4)
    assert made["moves"][-1]["usable_cards"] == made["after_cards"]
    assert made["cost"] == pytest.approx(sum(move["cost"] for move in made["moves"]))


def test_room_is_made_for_cards_or_a_manifest() -> None:
    status, said = run(PODS, "--nodes", NODES, "--for", "4x1000", "-o", "json")
    assert status == 0
    assert json.loads(said)["room"] == {"node": "c", "cards": [4, 5, 6, 7]}
    status, said = run(PODS, "--nodes", NODES, "--for", "9x1000")
    assert status == 3
    assert "no node has such cards" in said
    status, said = run(PODS, "--nodes", NODES, "--for", WIDE)
    assert status == 3
    assert "none of the plans tried, of at most 5 moves, makes room" in said


def test_a_dump_of_a_cluster_is_read(tmp_path: Path) -> None:
    node = """
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {nvidia.com/gpu.product: T4}}
status: {allocatable: {cpu: "8", memory: 64Gi, nvidia.com/gpu: "1"}}
"""
    pod = """
apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations: {alibabacloud.com/gpu-count: "1", alibabacloud.com/gpu-milli: "500", alibabacloud.com/gpu-index: "0"}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: u, controller: true}]
spec:
  nodeName: %s
  containers: [{name: main, image: x}]
"""
    (tmp_path / "nodes.yaml").write_text(node % "a" + "---" + node % "b")
    (tmp_path / "pods.yaml").write_text(pod % ("p", "a") + "---" + pod % ("q", "b"))
    status, said = run(
        str(tmp_path / "pods.yaml"), "--cluster", str(tmp_path / "nodes.yaml"), "--goal", "idle", "-o", "json"
    )
    assert status == 0
    made = json.loads(said)
    assert [(move["pod"], move["to"]) for move in made["moves"]] == [("default/p", {"node": "b", "cards": [0]})]
    assert made["complete"]


def test_a_machine_tells_whom_to_restart() -> None:
    holes = ("--gone", "batch-0", "--gone", "batch-5")
    status, said = run(ZONES, *MACHINE, "--for", WIDE, *holes, "--width", "140")
    assert status == 0
    assert "Evict default/batch-1; then create, in this order: default/wide, default/batch-1." in said
    made = json.loads(run(ZONES, *MACHINE, "--for", WIDE, *holes, "-o", "json")[1])
    assert made["found"]
    assert made["evict"][0]["containers"][0]["from"]["affinity"] == "0"
    assert made["evict"][0]["containers"][0]["to"]["affinity"] == "1"
    status, said = run(ZONES, *MACHINE, "--for", WIDE)
    assert status == 3
    assert "TopologyAffinityError" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([PODS], "0 of these are named"),
        ([PODS, "--nodes", NODES, "--machine", "preset:dgx-h100"], "2 of these are named"),
        ([PODS, "--nodes", ""], "empty name"),
        ([PODS, "--nodes", NODES, "--gone", "x"], "only for one machine"),
        ([PODS, "--nodes", NODES, "--for", "2x500"], "parts of several cards"),
        ([PODS, "--nodes", NODES, "--for", "no-such-file"], "cannot be read"),
        ([PODS, "--nodes", NODES, "--for", ZONES], "not one pod"),
        ([ZONES, *MACHINE], "missing"),
        ([ZONES, *MACHINE, "--for", WIDE, "--gone", "x"], "no such pod"),
    ],
)
def test_bad_input_is_told(arguments: list[str], says: str) -> None:
    with pytest.raises(InputError) as error:
        run(*arguments)
    assert says in str(error.value)
