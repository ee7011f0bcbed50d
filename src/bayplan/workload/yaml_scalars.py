"""What a plain YAML scalar means, as Kubernetes reads it.

Kubernetes reads YAML through sigs.k8s.io/yaml (a go-yaml v2), whose scalars are YAML 1.1 without the surprises: no
dates (`2024-01-01` stays text), no base-60 numbers (`12:30` stays text). `yes`, `on` and `y` are booleans there, so
they are here: a label `y` without quotes is refused by Kubernetes too. Never builds anything but text, numbers,
booleans and None.
"""

from __future__ import annotations

import re

from bayplan.errors import InputError

Scalar = str | int | float | bool | None

TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
NULL = frozenset({"", "~", "null", "Null", "NULL"})
# Longer ones become a float: no quantity needs them, and Python's int() refuses (and once hung on) thousands of digits.
MAX_INT_DIGITS = 40
_SPECIAL_FLOATS = {
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(TRUE, True),
    **dict.fromkeys(FALSE, False),
    **dict.fromkeys(NULL, None),
    **_SPECIAL_FLOATS,
}
# Only text that starts so can be a number at all; everything else is text without a closer look.
_NUMBER_START = frozenset("0123456789+-.")
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)", re.ASCII)
_BASED = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F_]+)|0[bB]([01_]+)|0[oO]?([0-7_]+))", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)

_STANDARD = "tag:yaml.org,2002:"


def resolve(text: str) -> Scalar:
    """The value of a plain scalar without a tag."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START:
        return text
    number = _integer(text)
    if number is not None:
        return number
    return float(text) if _FLOAT.fullmatch(text) else text


def resolve_tagged(text: str, tag: str) -> Scalar:
    """The value of a scalar with an explicit tag. Raises `InputError` for a tag or a value that does not fit it."""
    kind = tag.removeprefix(_STANDARD)
    if tag == "!" or kind in ("str", "timestamp"):
        return text
    value = resolve(text)
    fits = {
        "null": value is None,
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
    }
    if kind == tag or kind not in fits:
        raise InputError("unknown YAML tag", value=tag, expected="plain values, without tags")
    if not fits[kind]:
        raise InputError(f"not a value for the tag !!{kind}", value=text)
    return float(value) if kind == "float" and isinstance(value, int) else value


def key_text(key: object) -> str:
    """A mapping key as text: YAML becomes JSON first, where every key is text. Raises `InputError`."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return repr(key)
    raise InputError("a mapping key must be text or a number", value=... if isinstance(key, dict | list) else key)


def _integer(text: str) -> int | float | None:
    if _DECIMAL.fullmatch(text):
        return int(text) if len(text) <= MAX_INT_DIGITS else float(text.replace("_", ""))
    found = _BASED.fullmatch(text)
    if found is None or len(text) > 2 * MAX_INT_DIGITS:
        return None
    sign, *digits = found.groups()
    for base, part in zip((16, 2, 8), digits, strict=True):
        if part is not None and part.strip("_"):
            number = int(part.replace("_", ""), base)
            return -number if sign == "-" else number
    return None
