"""Text that people write, as documents of plain values: YAML or JSON, one or many in a stream.

Values are dict, list, str, int, float, bool and None; what they mean is for `manifests` and its like. JSON is noticed
by its first character, and its documents may follow each other with nothing between (as `kubectl get -o json` twice).
Equal keys in one mapping are an error in both, as for `kubectl --validate=strict`. The standard library reads JSON
here rather than msgspec, for it alone tells of equal keys and of where a document ends.

Whoever opens files gives bytes; nothing is opened here. Bounded: size, nesting, what aliases expand to.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from bayplan.errors import InputError
from bayplan.workload.yaml_events import load_all
from bayplan.workload.yaml_scalars import MAX_INT_DIGITS

MAX_BYTES = 64 * 2**20
_JSON_START = re.compile(r"\s*[\[{]")
# A quoted first key: this was meant as JSON, so its mistakes are JSON's. `{a: 1}` is a flow mapping of YAML.
_JSON_MEANT = re.compile(r"\s*(?:\[\s*)?\{\s*\"")
_JSON_SPACE = re.compile(r"[ \t\r\n]*")
_DOCUMENT_MARK = re.compile(r"^---", re.MULTILINE)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# An escaped backslash, a whole pair, or (captured) half of one.
_ESCAPES = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


class Document(msgspec.Struct, frozen=True):
    """One document of a stream: where it stood (`number` counts from 1, empty documents too), and its value."""

    source: str
    number: int
    value: Any

    @property
    def place(self) -> str:
        """`document 2`, for messages."""
        return f"document {self.number}"


def read_documents(content: bytes | str, source: str) -> tuple[Document, ...]:
    """The documents of a stream that are not empty. `source` is its name in messages. Raises `InputError`."""
    try:
        text = _decode(content)
        values = _values(text)
    except InputError as error:
        raise error.within(source=source) from error
    return tuple(Document(source, i, value) for i, value in enumerate(values, 1) if value is not None)


def _values(text: str) -> list[Any]:
    if not _JSON_START.match(text):
        return list(load_all(text))
    try:
        return list(_json_documents(text))
    except json.JSONDecodeError as error:
        # Documents that are JSON each may be parted as YAML documents are.
        if _JSON_MEANT.match(text) and not _DOCUMENT_MARK.search(text):
            place = f"line {error.lineno}, column {error.colno}"
            raise InputError(f"not JSON: {error.msg}", place=place) from error
        return list(load_all(text))


def _json_documents(text: str) -> Iterator[Any]:
    _check_surrogates(text)
    decoder = json.JSONDecoder(
        object_pairs_hook=_object, parse_int=_parse_int, parse_float=float, parse_constant=_refuse_constant
    )
    position, number = _skip_space(text, 0), 1
    while position < len(text):
        try:
            value, position = decoder.raw_decode(text, position)
        except InputError as error:
            raise error.within(place=f"document {number}") from error
        except RecursionError as error:
            raise InputError("nested too deeply", place=f"document {number}", expected="fewer levels") from error
        yield value
        position, number = _skip_space(text, position), number + 1


def _skip_space(text: str, position: int) -> int:
    found = _JSON_SPACE.match(text, position)
    return found.end() if found else position


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise InputError("key given twice", value=next(key for key, count in counts.items() if count > 1))
    return value


def _parse_int(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_INT_DIGITS else float(digits)


def _refuse_constant(name: str) -> Any:
    raise InputError("not a number in JSON", value=name)


def _decode(content: bytes | str) -> str:
    """The text without byte order mark; UTF-8 only, as the API server takes it."""
    if len(content) > MAX_BYTES:
        raise InputError("too large", value=len(content), expected=f"at most {MAX_BYTES} bytes")
    text = _decode_bytes(content) if isinstance(content, bytes) else content
    text = text.removeprefix("\ufeff")
    nul = text.find("\0")
    if nul >= 0:
        raise InputError("a NUL byte, so this is not text", place=_line(text, nul))
    lone = None if text.isascii() else _LONE_SURROGATE.search(text)
    if lone:
        raise InputError("not valid Unicode", place=_line(text, lone.start()), value=lone.group())
    return text


def _decode_bytes(content: bytes) -> str:
    if content.startswith(_BOMS):
        raise InputError("UTF-16 or UTF-32 text", expected="UTF-8")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8", place=f"line {line}", value=content[error.start : error.start + 1]) from error


def _check_surrogates(text: str) -> None:
    r"""Refuse half of a `\ud83d\ude00` pair: such text cannot be written anywhere again."""
    if "\\ud" not in text and "\\uD" not in text:
        return
    half = next((found for found in _ESCAPES.finditer(text) if found.group(1)), None)
    if half:
        raise InputError("half of a surrogate pair", place=_line(text, half.start()), value=half.group())


def _line(text: str, position: int) -> str:
    return f"line {text.count(chr(10), 0, position) + 1}"
