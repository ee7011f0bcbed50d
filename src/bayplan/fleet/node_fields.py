"""The parts of a node's description: labels, taints, devices, allocatable resources, each checked as Kubernetes does.

Facts: pkg/apis/core/validation (`validateNodeTaints`: no key and effect twice), k8s.io/kubelet device plugin API
(devices have an id, health and NUMA nodes).
"""

from __future__ import annotations

import msgspec

from bayplan.errors import InputError
from bayplan.idset import MAX_ID, NodeSet
from bayplan.quantity import parse_count, parse_cpu_milli
from bayplan.resources.devices import DeviceUnit
from bayplan.workload.affinity import EFFECTS
from bayplan.workload.fields import Fields, join, shown
from bayplan.workload.names import check_label_value, check_qualified
from bayplan.workload.notes import nearest

_DEVICE_FIELDS = frozenset({"id", "numaNodes", "healthy"})
_LONGEST_ID = 253


class Taint(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps pods away that do not tolerate it. `effect`: NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    effect: str
    value: str = ""


def refuse_unknown(fields: Fields, known: frozenset[str]) -> None:
    """Raise `InputError` for the first field that is not known."""
    for name in fields.value:
        if name not in known:
            hint = nearest(name, known)
            expected = "" if hint else f"one of {', '.join(sorted(known))}"
            raise InputError(f"unknown field{hint}", place=fields.at(name), expected=expected)


def read_labels(fields: Fields) -> dict[str, str]:
    """`labels`, checked."""
    labels, path = fields.text_map("labels"), fields.at("labels")
    for key, value in labels.items():
        check_qualified(key, path)
        check_label_value(value, join(path, key))
    return labels


def read_taints(fields: Fields) -> tuple[Taint, ...]:
    """`taints`, checked."""
    taints: list[Taint] = []
    for entry in fields.entries("taints"):
        taint = Taint(key=entry.required_text("key"), effect=entry.required_text("effect"), value=entry.text("value"))
        check_qualified(taint.key, entry.at("key"))
        check_label_value(taint.value, entry.at("value"))
        if taint.effect not in EFFECTS:
            raise entry.error("effect", "unknown effect", value=taint.effect, expected=", ".join(EFFECTS))
        taints.append(taint)
    if len({(taint.key, taint.effect) for taint in taints}) != len(taints):
        raise fields.error("taints", "two taints of one key and effect")
    return tuple(taints)


def read_devices(fields: Fields) -> dict[str, tuple[DeviceUnit, ...]]:
    """`devices`: resource name -> its devices, whose ids are each other's only once."""
    resources = fields.mapping("devices")
    devices: dict[str, tuple[DeviceUnit, ...]] = {}
    for resource in resources.value:
        check_qualified(resource, resources.path)
        if "/" not in resource:
            raise InputError("not a device resource", place=resources.at(resource), expected="like example.com/gpu")
        seen: set[str] = set()
        devices[resource] = tuple(_read_device(entry, seen) for entry in resources.entries(resource))
    return devices


def read_allocatable(amounts: Fields) -> dict[str, int]:
    """Resource name -> millicores for cpu, bytes or pieces for the others."""
    allocatable = {}
    for name, value in amounts.value.items():
        if value is None or isinstance(value, dict | list):
            raise amounts.error(name, "not a quantity", expected="like 500m, 2 or 1Gi")
        check_qualified(name, amounts.path)
        try:
            allocatable[name] = (parse_cpu_milli if name == "cpu" else parse_count)(value)
        except InputError as error:
            raise error.within(place=amounts.at(name)) from error
    return allocatable


def _read_device(entry: Fields, seen: set[str]) -> DeviceUnit:
    refuse_unknown(entry, _DEVICE_FIELDS)
    name = entry.required_text("id")
    if name in seen:
        raise entry.error("id", "given twice", value=name)
    if len(name) > _LONGEST_ID or not name.isprintable():
        raise entry.error("id", "not a device id", value=name[:_LONGEST_ID], expected="printable text")
    seen.add(name)
    return DeviceUnit(id=name, nodes=_read_nodes(entry) or None, healthy=entry.boolean("healthy", True))


def _read_nodes(entry: Fields) -> NodeSet:
    numbers = entry.sequence("numaNodes")
    for i, number in enumerate(numbers):
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_ID:
            raise InputError("not a NUMA node", place=f"{entry.at('numaNodes')}[{i}]", value=shown(number))
    return NodeSet(numbers)
