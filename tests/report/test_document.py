from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.fleet.plan import Plan, PlannedNode
from bayplan.idset import CpuSet, decode_idset
from bayplan.machine import Machine
from bayplan.machine.document import Limits
from bayplan.report.document import MachineDocument, machine_json, machine_yaml, plan_json, plan_yaml, read_plan
from bayplan.report.schema import KINDS, main, schema, schema_text

PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "schema"


def test_a_saved_plan_is_read_back_as_it_was(plan: Plan) -> None:
    assert read_plan(plan_json(plan)) == plan


def test_yaml_says_the_same_as_json(small_plan: Plan) -> None:
    text = plan_yaml(small_plan)
    assert read_plan(text) == small_plan
    assert yaml.safe_load(text) == json.loads(plan_json(small_plan))


def test_a_saved_machine_has_all_its_fields_beside_what_it_is(machine: Machine, small_machine: Machine) -> None:
    written = json.loads(machine_json(machine))
    assert list(written)[:3] == ["apiVersion", "kind", "name"]
    read = msgspec.convert(written, MachineDocument, dec_hook=decode_idset)
    for name in Machine.__struct_fields__:
        assert getattr(read, name) == getattr(machine, name)
    assert yaml.safe_load(machine_yaml(small_machine)) == json.loads(machine_json(small_machine))


def test_small_texts_that_stand_for_huge_sets_are_refused(small_plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayplan.report.document.PLAN_FILE", Limits(set_bytes=1 << 16))
    written = json.loads(plan_json(small_plan))
    written["nodes"] = [{**written["nodes"][0], "reserved": "0,65535"}] * 9
    with pytest.raises(InputError, match="the id sets are too large together"):
        read_plan(json.dumps(written))


def test_equal_machines_are_kept_once_and_namesakes_apart(
    large_plan: Plan, make_machine: dict[str, Callable[[], Machine]]
) -> None:
    assert len(json.loads(plan_json(large_plan))["machines"]) == 1
    machines = [make_machine["hybrid"](), msgspec.structs.replace(make_machine["two_sockets"](), name="desktop")]
    nodes = tuple(PlannedNode(name=f"n{i}", machine=m, policy="x") for i, m in enumerate([*machines, machines[0]]))
    plan = Plan(nodes=nodes, placements=())
    written = json.loads(plan_json(plan))
    assert [node["machine"] for node in written["nodes"]] == ["desktop", "desktop-2", "desktop"]
    assert read_plan(plan_json(plan)) == plan


def test_the_document_says_what_it_is_first(small_plan: Plan) -> None:
    written = json.loads(plan_json(small_plan))
    assert list(written)[:2] == ["apiVersion", "kind"]
    assert (written["apiVersion"], written["kind"]) == ("bayplan.dev/v1alpha1", "Plan")
    assert written["nodes"][0]["reserved"] == "0,32"
    assert plan_json(small_plan) == plan_json(read_plan(plan_json(small_plan)))


# The largest machine has nothing that these have not, and the validator takes long for it.
@pytest.mark.parametrize("name", ["two_sockets", "eight_nodes", "hybrid", "gpu_tray"])
def test_output_meets_the_schema(
    name: str, make_machine: dict[str, Callable[[], Machine]], make_plan: Callable[[Machine], Plan]
) -> None:
    machine = make_machine[name]()
    jsonschema.Draft202012Validator.check_schema(schema("Plan"))
    plan = json.loads(plan_json(make_plan(machine)))
    jsonschema.validate(plan, schema("Plan"), jsonschema.Draft202012Validator)
    jsonschema.validate(json.loads(machine_json(machine)), schema("Machine"), jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["apiVersion"], "bayplan.dev/v2"),
        (["nodes", 0, "reserved"], "0-"),
        (["nodes", 0, "name"], None),
        (["placements", 0, "pod", "name"], 7),
        (["placements", 0, "decision", "grants", 0, "exclusive"], [1]),
        (["machines", "xeon-2s", "cores", 0, "id"], "0"),
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(small_plan: Plan, path: list[str | int], value: object) -> None:
    written = json.loads(plan_json(small_plan))
    at = written
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert not jsonschema.Draft202012Validator(schema("Plan")).is_valid(written)
    with pytest.raises(InputError):
        read_plan(json.dumps(written))


@pytest.mark.parametrize("kind", KINDS)
def test_the_published_schema_is_that_of_the_types(kind: str, tmp_path: Path) -> None:
    main(str(tmp_path))
    name = f"{kind.lower()}.json"
    assert (PUBLISHED / name).read_text() == (tmp_path / name).read_text(), (
        "run python -m bayplan.report.schema docs/schema"
    )
    assert json.loads(schema_text("Plan"))["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a mapping: None (expected apiVersion, kind and fields)"),
        ("{", "not JSON"),
        ("kind: Plan", "apiVersion: unknown version: None (expected bayplan.dev/v1alpha1)"),
        ("a: &x [1]\nb: *x", "line 2: YAML alias"),
        ("\x00", "not YAML"),
        ("[" * 100_000, "nest"),
        ('{"nodes": ' + "[" * 100_000, "nested too deep"),
        ('{"x": ' + "[" * 100_000, "nested too deep"),
        ("- " * 100_000, "nested too deep"),
        ('{"\ud800": 1}', "not JSON"),
        ("a: 2024-13-99", "not YAML"),
        ("!!python/object:os.system x", "not YAML"),
    ],
)
def test_what_is_no_plan_is_told_in_one_message(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_plan(text, source="plan.json")
    assert str(caught.value).startswith("plan.json: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_id_list_and_a_missing_machine_name_their_place(small_plan: Plan) -> None:
    written = json.loads(plan_json(small_plan))
    written["nodes"][0]["reserved"] = "3-1"
    with pytest.raises(InputError, match=r"^p: nodes\[0\]\.reserved: range runs backwards: '3-1'"):
        read_plan(json.dumps(written), source="p")
    written["nodes"][0] |= {"reserved": "", "machine": "gone"}
    with pytest.raises(InputError, match=r"^p: nodes\[0\]\.machine: no such machine: 'gone' \(expected a key of"):
        read_plan(json.dumps(written), source="p")


@given(st.text() | st.text(alphabet='{}[]:,"\n -&*!|>aeiou0123456789'))
def test_no_text_ends_in_a_traceback(text: str) -> None:
    with pytest.raises(InputError):
        read_plan(text)


@given(st.data())
def test_a_damaged_plan_is_read_or_refused(data: st.DataObject) -> None:
    machine = Machine(name="m", online=CpuSet([0, 1]), cores=(), packages=(), nodes=())
    text = plan_json(Plan(nodes=(PlannedNode(name="n", machine=machine, policy="p"),), placements=()))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    damaged = text[:start] + data.draw(st.text(max_size=10)) + text[end:]
    with suppress(InputError):
        assert isinstance(read_plan(damaged), Plan)
