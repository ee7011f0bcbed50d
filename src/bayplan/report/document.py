"""A plan and a machine as JSON and YAML, and back: the published form that `bayplan explain` reads again.

Each distinct machine stands once under `machines`, nodes refer to it by name, so that a plan for a thousand equal
nodes stays small. Id sets are texts in the kernel's list format. Keys come in the order of the types, which is stable.
`schema` makes the JSON Schema from these same types. A machine's document is also what `bayplan machine` reads back.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.plan import Placement, Plan, PlannedNode
from bayplan.idset import CpuSet, encode_idset
from bayplan.machine import Machine
from bayplan.machine.document import API_VERSION, Limits, convert, parse, take_header
from bayplan.report.json_text import indented
from bayplan.resources.decision import Notice

# A plan of 100,000 pods stays below these; what is larger is no plan.
PLAN_FILE = Limits(text_bytes=1 << 28, yaml_bytes=1 << 25, set_bytes=1 << 28)


class NodeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A `PlannedNode` whose machine is named rather than held: a key of `machines`."""

    name: str
    machine: str
    policy: str
    reserved: CpuSet = CpuSet()
    shared: CpuSet = CpuSet()
    allocatable: dict[str, int] = {}
    used: dict[str, int] = {}
    settings: dict[str, str] = {}
    warnings: tuple[Notice, ...] = ()


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a file with a plan holds."""

    apiVersion: Literal["bayplan.dev/v1alpha1"]  # noqa: N815
    kind: Literal["Plan"]
    nodes: tuple[NodeEntry, ...]
    placements: tuple[Placement, ...]
    warnings: tuple[Notice, ...] = ()
    machines: dict[str, Machine] = {}


class MachineDocument(Machine, frozen=True, kw_only=True):
    """What a file with a machine holds: the fields of a `Machine` beside what the file is."""

    apiVersion: Literal["bayplan.dev/v1alpha1"]  # noqa: N815
    kind: Literal["Machine"]


def plan_json(plan: Plan) -> str:
    """The plan as JSON, two spaces deep, ending in a newline."""
    return _json(_document(plan))


def plan_yaml(plan: Plan) -> str:
    """The plan as YAML 1.1, without aliases."""
    return _yaml(_document(plan))


def machine_json(machine: Machine) -> str:
    """The machine as JSON, two spaces deep, ending in a newline."""
    return _json(_machine_fields(machine))


def machine_yaml(machine: Machine) -> str:
    """The machine as YAML 1.1, without aliases."""
    return _yaml(_machine_fields(machine))


def read_plan(text: str, *, source: str = "") -> Plan:
    """The plan that a JSON or YAML text holds. Raises `InputError` that names the field."""
    values = parse(text, source=source, limits=PLAN_FILE)
    take_header(values, ("Plan",), source=source)
    document = convert(values, PlanDocument, source=source, limits=PLAN_FILE)
    nodes = []
    for index, entry in enumerate(document.nodes):
        machine = document.machines.get(entry.machine)
        if machine is None:
            raise InputError(
                "no such machine", source=source, place=f"nodes[{index}].machine", value=entry.machine,
                expected="a key of machines",
            )  # fmt: skip
        fields = {name: getattr(entry, name) for name in entry.__struct_fields__ if name != "machine"}
        nodes.append(PlannedNode(machine=machine, **fields))
    return Plan(nodes=tuple(nodes), placements=document.placements, warnings=document.warnings)


def _machine_fields(machine: Machine) -> dict[str, Any]:
    """The fields of a `MachineDocument`, what the file is first."""
    fields = {name: getattr(machine, name) for name in machine.__struct_fields__}
    return {"apiVersion": API_VERSION, "kind": "Machine", **fields}


def _document(plan: Plan) -> PlanDocument:
    keys: dict[int, str] = {}
    names: dict[Machine, str] = {}
    machines: dict[str, Machine] = {}
    for node in plan.nodes:
        machine = node.machine
        if id(machine) in keys:
            continue
        name = names.get(machine) or _free_name(machine.name or "machine", machines)
        names[machine] = keys[id(machine)] = name
        machines.setdefault(name, machine)
    entries = tuple(_entry(node, keys[id(node.machine)]) for node in plan.nodes)
    return PlanDocument(
        apiVersion=API_VERSION,
        kind="Plan",
        nodes=entries,
        placements=plan.placements,
        warnings=plan.warnings,
        machines=machines,
    )


def _entry(node: PlannedNode, machine: str) -> NodeEntry:
    fields = {name: getattr(node, name) for name in node.__struct_fields__ if name != "machine"}
    return NodeEntry(machine=machine, **fields)


def _free_name(name: str, taken: dict[str, Machine]) -> str:
    """Different machines may carry one name: the later ones get a number."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def _json(document: PlanDocument | dict[str, Any]) -> str:
    try:
        encoded = msgspec.json.encode(document, enc_hook=encode_idset)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_encodable(_builtins(document)))
    return indented(encoded)


def _yaml(document: PlanDocument | dict[str, Any]) -> str:
    import yaml

    # Every list and mapping here is a new one, so that the dumper finds none twice and writes no alias.
    value = _encodable(_builtins(document))
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=False, width=120))


def _builtins(document: PlanDocument | dict[str, Any]) -> Any:
    return msgspec.to_builtins(document, enc_hook=encode_idset, str_keys=True)


def _encodable(value: Any) -> Any:
    """The value with lone surrogates replaced, which no file in UTF-8 can hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "replace").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(item) for item in value]
    return value
