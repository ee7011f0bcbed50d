"""A Machine as a file and back: `apiVersion: bayplan.dev/v1alpha1`, `kind: Machine`, then the fields of the model.

Written as JSON, read as JSON or YAML (a person edits YAML). Field names and units are those of
`bayplan.machine.model`; sets are in the kernel's list format. What is read is checked (`bayplan.machine.check`), so a
Machine from a file holds to the same rules as one that was read from hardware. It never opens a file itself.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.errors import InputError
from bayplan.idset import encode_idset
from bayplan.machine import document, model
from bayplan.machine.check import check

KIND = "Machine"
_PARTS: dict[type[msgspec.Struct], dict[str, type[msgspec.Struct]]] = {
    model.Machine: {
        "cores": model.Core,
        "packages": model.Package,
        "nodes": model.MemoryNode,
        "dies": model.Die,
        "clusters": model.Cluster,
        "caches": model.Cache,
        "core_kinds": model.CoreKind,
        "frequencies": model.FrequencyRange,
        "devices": model.Device,
        "findings": model.Finding,
    },
    model.MemoryNode: {
        "hugepages": model.HugepagePool,
        "access": model.MemoryAccess,
        "side_caches": model.MemorySideCache,
    },
}


def dump(machine: model.Machine) -> bytes:
    """The machine as indented JSON, ending in a newline. `load` gives back an equal Machine."""
    fields = {name: getattr(machine, name) for name in machine.__struct_fields__}
    header = {"apiVersion": document.API_VERSION, "kind": KIND}
    return msgspec.json.format(msgspec.json.encode({**header, **fields}, enc_hook=encode_idset)) + b"\n"


def load(text: str | bytes, *, source: str = "") -> model.Machine:
    """Read a machine file. `source` names it in errors and, if given, in the Machine. Raises `InputError`."""
    return from_document(document.parse(text, source=source), source=source)


def from_document(values: dict[str, Any], *, source: str = "") -> model.Machine:
    """The same from the parsed document (`bayplan.machine.document.parse`)."""
    _, fields = document.take_header(values, (KIND,), source=source)
    _refuse_unknown(fields, model.Machine, "", source)
    machine = document.convert(fields, model.Machine, source=source)
    if source:
        machine = msgspec.structs.replace(machine, source=source)
    return check(machine)


def _refuse_unknown(value: object, kind: type[msgspec.Struct], place: str, source: str) -> None:
    """A mistyped field must not be dropped in silence, and the types of the model accept any field."""
    if not isinstance(value, dict):
        return
    known = kind.__struct_fields__
    for name, part in value.items():
        inside = f"{place}.{name!s:.80}" if place else f"{name!s:.80}"
        if name not in known:
            raise InputError("unknown field", source=source, place=inside, expected=f"one of {', '.join(known)}")
        below = _PARTS.get(kind, {}).get(name)
        if below is None:
            continue
        items = enumerate(part) if isinstance(part, list) else ((None, part),)
        for index, item in items:
            _refuse_unknown(item, below, inside if index is None else f"{inside}[{index}]", source)
