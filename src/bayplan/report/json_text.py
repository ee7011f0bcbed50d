"""JSON as all documents are written: indented, keys in the order of the types, a line end last."""

from __future__ import annotations

import msgspec


def json_text(value: object) -> str:
    """The text of a value of plain types and msgspec structs."""
    return indented(msgspec.json.encode(value))


def indented(encoded: bytes) -> str:
    """JSON that is encoded already."""
    return msgspec.json.format(encoded, indent=2).decode() + "\n"
