from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bayplan.cli.app import bayplan
from bayplan.errors import InputError

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  containers:
  - name: main
    image: x
    resources: {limits: {%s}}
"""


def run(*arguments: str) -> tuple[int, str]:
    result: Result = CliRunner().invoke(bayplan, ["partitions", *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.stdout


def test_all_cards_are_listed() -> None:
    status, said = run("--width", "120")
    assert status == 0
    assert "NVIDIA H200 141 GB" in said
    names = [each["name"] for each in json.loads(run("-o", "json")[1])]
    assert "mi300x-192gb" in names


def test_a_card_shows_its_profiles() -> None:
    _, said = run("a30-24gb", "--width", "120")
    assert "4 compute slices, 4 memory slices" in said
    assert "nvidia.com/mig-2g.12gb.me" in said
    profiles = json.loads(run("a30-24gb", "-o", "json")[1])["profiles"]
    assert profiles[0]["starts"] == [0, 1, 2, 3]
    assert [each["most"] for each in profiles] == [4, 1, 2, 1, 1]


def test_instances_are_placed_and_drawn() -> None:
    status, said = run("a100-80gb", "3x1g.10gb", "3g.40gb", "--width", "120")
    assert status == 0
    assert "BBBBCDA." in said or "AAAABCD." in said
    assert "3g.40gb:0" in said


def test_what_does_not_fit_is_refused_with_3() -> None:
    status, said = run("a100-80gb", "7g.80gb", "nvidia.com/mig-1g.10gb=2", "-o", "json")
    assert status == 3
    made = json.loads(said)
    assert made["placements"][1]["asked"] == 2
    assert made["placements"][1]["free"] == 0
    assert made["largest_fit"] is None


def test_pods_ask_by_resource(tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(POD % ("a", "nvidia.com/mig-2g.20gb: 2") + "---" + POD % ("b", "cpu: 1"))
    status, said = run("h100-80gb", "--pods", str(file), "-o", "json")
    assert status == 0
    made = json.loads(said)
    assert [len(each["instances"]) for each in made["placements"]] == [2]


def test_one_profile_only_is_asked_for_as_whole_cards() -> None:
    assert run("a100-80gb", "nvidia.com/gpu=7", "--only", "1g.10gb")[0] == 0
    assert run("a100-80gb", "8x1g.10gb", "--only", "1g.10gb")[0] == 3
    with pytest.raises(InputError, match="cut into another profile"):
        run("a100-80gb", "2g.20gb", "--only", "1g.10gb")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a100"], "no such card"),
        (["a100-80gb", "9g.90gb"], "no such profile"),
        (["a100-80gb", "0x1g.10gb"], "out of range"),
        (["a100-80gb", "1g.10gb", "--mix", "1g.10gb"], "not a share"),
        (["a100-80gb", "1g.10gb", "--mix", "5g.50gb=1"], "no such profile"),
        (["a100-80gb", "1g.10gb", "--only", "5g.50gb"], "no such profile"),
    ],
)
def test_bad_input_is_told(arguments: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        run(*arguments)
