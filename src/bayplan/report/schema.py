"""The published JSON Schemas (draft 2020-12) of the documents, made from their types.

`python -m bayplan.report.schema docs/schema` writes the files, and a test holds them to the types. Made here rather
than by `msgspec.json.schema`, which refuses a default that is of a custom type, as the empty id set is.
Descriptions are the docstrings of the types.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import inspect as types

from bayplan.idset import IdSet
from bayplan.report.document import MachineDocument, PlanDocument
from bayplan.report.json_text import json_text

Kind = Literal["Plan", "Machine"]
KINDS: tuple[Kind, ...] = ("Plan", "Machine")
_ROOTS: dict[Kind, type[msgspec.Struct]] = {"Plan": PlanDocument, "Machine": MachineDocument}
_ID_LIST = r"^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$"
_PLAIN: dict[type[types.Type], str] = {
    types.StrType: "string",
    types.IntType: "integer",
    types.FloatType: "number",
    types.BoolType: "boolean",
    types.NoneType: "null",
}


def schema(kind: Kind = "Plan") -> dict[str, Any]:
    """The JSON Schema of a document. Keys that have a default may be absent; unknown keys are allowed."""
    root = types.type_info(_ROOTS[kind])
    structs = {found.cls.__name__: found for found in _structs(root, set())}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://bayplan.dev/schema/v1alpha1/{kind.lower()}.json",
        "$ref": f"#/$defs/{_ROOTS[kind].__name__}",
        "$defs": {name: _struct(structs[name]) for name in sorted(structs)},
    }


def schema_text(kind: Kind) -> str:
    """The file's text."""
    return json_text(schema(kind))


def main(folder: str) -> None:
    """Write one file for each kind into a folder, which must be there."""
    for kind in KINDS:
        (Path(folder) / f"{kind.lower()}.json").write_text(schema_text(kind), encoding="utf-8")


def _structs(kind: types.Type, seen: set[type]) -> Iterator[types.StructType]:
    """Every struct that can occur in a type, each once."""
    if isinstance(kind, types.StructType):
        if kind.cls in seen:
            return
        seen.add(kind.cls)
        yield kind
        for field in kind.fields:
            yield from _structs(field.type, seen)
    for inner in _inside(kind):
        yield from _structs(inner, seen)


def _inside(kind: types.Type) -> tuple[types.Type, ...]:
    if isinstance(kind, types.VarTupleType | types.ListType):
        return (kind.item_type,)
    if isinstance(kind, types.TupleType):
        return kind.item_types
    if isinstance(kind, types.DictType):
        return (kind.value_type,)
    return kind.types if isinstance(kind, types.UnionType) else ()


def _struct(kind: types.StructType) -> dict[str, Any]:
    return {
        "type": "object",
        "description": cleandoc(kind.cls.__doc__ or ""),
        "properties": {field.encode_name: _schema(field.type) for field in kind.fields},
        "required": [field.encode_name for field in kind.fields if field.required],
    }


def _schema(kind: types.Type) -> dict[str, Any]:
    if type(kind) in _PLAIN:
        return {"type": _PLAIN[type(kind)]}
    if isinstance(kind, types.StructType):
        return {"$ref": f"#/$defs/{kind.cls.__name__}"}
    if isinstance(kind, types.LiteralType):
        return {"enum": list(kind.values)} if len(kind.values) > 1 else {"const": kind.values[0]}
    if isinstance(kind, types.UnionType):
        return {"anyOf": [_schema(one) for one in kind.types]}
    if isinstance(kind, types.VarTupleType | types.ListType):
        return {"type": "array", "items": _schema(kind.item_type)}
    if isinstance(kind, types.TupleType):
        size = len(kind.item_types)
        return {
            "type": "array",
            "prefixItems": [_schema(one) for one in kind.item_types],
            "minItems": size,
            "maxItems": size,
        }
    return _schema_of_mapping(kind) if isinstance(kind, types.DictType) else _schema_of_custom(kind)


def _schema_of_mapping(kind: types.DictType) -> dict[str, Any]:
    keys = {"propertyNames": {"pattern": "^[0-9]+$"}} if isinstance(kind.key_type, types.IntType) else {}
    return {"type": "object", **keys, "additionalProperties": _schema(kind.value_type)}


def _schema_of_custom(kind: types.Type) -> dict[str, Any]:
    if isinstance(kind, types.CustomType) and issubclass(kind.cls, IdSet):
        return {"type": "string", "pattern": _ID_LIST, "description": "Ids in the kernel's list format, like 0-3,8."}
    raise TypeError(f"no schema for {kind!r}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "docs/schema")
