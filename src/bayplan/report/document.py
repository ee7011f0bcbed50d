"""A plan and a machine as JSON and YAML, and back: the published form that `bayplan explain` reads again.

Each distinct machine stands once under `machines`, nodes refer to it by name, so that a plan for a thousand equal
nodes stays small. Id sets are texts in the kernel's list format. Keys come in the order of the types, which is stable.
`schema` makes the JSON Schema from these same types. A machine's document is also what `bayplan machine` reads back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.plan import Placement, Plan, PlannedNode
from bayplan.idset import CpuSet, IdSet, decode_idset, encode_idset
from bayplan.machine import Machine
from bayplan.resources.decision import Notice

API_VERSION: Literal["bayplan.dev/v1alpha1"] = "bayplan.dev/v1alpha1"
# A plan of 100,000 pods stays below both; what is larger is no plan. The second is there because the ten characters
# `0,65535` make a set of 8 KiB.
MAX_CHARACTERS = 1 << 28
MAX_SET_BYTES = 1 << 28
# PyYAML takes seconds for each megabyte: JSON is the form for large plans.
MAX_YAML_CHARACTERS = 1 << 25


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
    document = _read(text, source)
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
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


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


def _read(text: str, source: str) -> PlanDocument:
    if len(text) > MAX_CHARACTERS:
        raise InputError("too large", source=source, expected=f"at most {MAX_CHARACTERS:,} characters")
    try:
        if text.lstrip("\ufeff \t\r\n").startswith("{"):
            return msgspec.json.decode(text.lstrip("\ufeff"), type=PlanDocument, dec_hook=_set_reader())
        return msgspec.convert(_from_yaml(text, source), PlanDocument, str_keys=True, dec_hook=_set_reader())
    except msgspec.ValidationError as error:
        raise _input_error(error, source) from error
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InputError(f"not valid JSON: {error}", source=source) from error
    except RecursionError as error:
        raise InputError("nested too deeply", source=source) from error


def _from_yaml(text: str, source: str) -> object:
    import yaml

    if len(text) > MAX_YAML_CHARACTERS:
        expected = f"JSON, or YAML of at most {MAX_YAML_CHARACTERS:,} characters"
        raise InputError("too large for YAML", source=source, expected=expected)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            # Aliases of aliases are how a small file becomes an endless one, and a plan is written without any.
            if isinstance(event, yaml.AliasEvent):
                place = f"line {event.start_mark.line + 1}" if event.start_mark else ""
                raise InputError("aliases are not allowed", source=source, place=place)
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        raise InputError(f"not valid YAML: {problem}", source=source, place=place) from error
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"not valid YAML: {error}", source=source) from error


def _input_error(error: msgspec.ValidationError, source: str) -> InputError:
    """What msgspec says (`Expected `int`, got `str` - at `$.nodes[0]`) as a place and a problem."""
    problem, _, path = str(error).partition(" - at `")
    place = re.sub(r"^\$\.?", "", path.rstrip("`"))
    cause = error.__cause__.__cause__ if error.__cause__ else None
    if isinstance(cause, InputError):
        return InputError(cause.problem, source=source, place=place, value=cause.value, expected=cause.expected)
    expected = "" if place else f"a document of kind Plan, {API_VERSION}"
    return InputError(problem.replace("`", ""), source=source, place=place, expected=expected)


def _set_reader() -> Callable[[type, object], object]:
    """`decode_idset` in the form in which msgspec adds the path to what went wrong, with a budget for one document."""
    left = MAX_SET_BYTES

    def read(kind: type, value: object) -> object:
        nonlocal left
        try:
            made = decode_idset(kind, value)
        except InputError as error:
            raise ValueError(error.problem) from error
        left -= made.mask.bit_length() // 8 if isinstance(made, IdSet) else 0
        if left < 0:
            raise ValueError("the id sets are too large together")
        return made

    return read
