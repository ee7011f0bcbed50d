"""One JSON or YAML document of Bayplan's own kinds, from text to plain values and on to a type.

Both machine files (`saved`) and descriptions (`preset`) come through here, so that hostile text meets the same limits:
size, depth of nesting, no YAML aliases (a few of them can stand for gigabytes), and a budget for the id sets, because
ten characters (`0,65535`) make a set of 8 KiB. It never opens a file and raises nothing but `InputError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from bayplan.errors import InputError
from bayplan.idset import IdSet, decode_idset

API_VERSION: Final = "bayplan.dev/v1alpha1"
MAX_TEXT_BYTES = 32 * 2**20
MAX_YAML_BYTES = 2 * 2**20  # a person's file; reading YAML takes a hundred times as long as JSON
MAX_DEPTH = 32
MAX_SET_BYTES = 128 * 2**20
_AT = re.compile(r"(?P<problem>.*?)(?: - at `(?:key in )?\$?(?P<place>.*)`)?", re.DOTALL)
_WRONG_TYPE = re.compile(r"Expected `(?P<expected>.*)`, got `(?P<got>.*)`", re.DOTALL)
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
T = TypeVar("T")


class Limits(NamedTuple):
    """How large a file may be: bytes of text, bytes of YAML (which takes seconds a megabyte), bytes of all id sets."""

    text_bytes: int = MAX_TEXT_BYTES
    yaml_bytes: int = MAX_YAML_BYTES
    set_bytes: int = MAX_SET_BYTES


MACHINE_FILE = Limits()


def parse(text: str | bytes, *, source: str = "", limits: Limits = MACHINE_FILE) -> dict[str, Any]:
    """The one mapping that a JSON or YAML text holds. Text that starts with `{` is taken for JSON."""
    plain = _decoded(text, source, limits)
    value = _parse_json(plain, source) if plain.lstrip().startswith("{") else _parse_yaml(plain, source, limits)
    if not isinstance(value, dict):
        raise InputError("not a mapping", source=source, value=value, expected="apiVersion, kind and fields")
    return value


def take_header(document: dict[str, Any], kinds: tuple[str, ...], *, source: str = "") -> tuple[str, dict[str, Any]]:
    """The kind of a document, and the document without `apiVersion` and `kind`. Refuses other versions and kinds."""
    rest = dict(document)
    version, kind = rest.pop("apiVersion", None), rest.pop("kind", None)
    if version != API_VERSION:
        raise InputError("unknown version", source=source, place="apiVersion", value=version, expected=API_VERSION)
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError("unknown kind", source=source, place="kind", value=kind, expected=" or ".join(kinds))
    return kind, rest


def convert(value: object, kind: type[T], *, source: str = "", limits: Limits = MACHINE_FILE) -> T:
    """Plain values to a msgspec type. Raises `InputError` with the path of the field, its value and what it wants."""
    try:
        return msgspec.convert(value, kind, str_keys=True, dec_hook=_set_reader(limits.set_bytes))
    except msgspec.ValidationError as error:
        raise _explained(error, value, source) from error
    except RecursionError as error:
        raise InputError("nested too deep", source=source, expected=f"at most {MAX_DEPTH} levels") from error


def _decoded(text: str | bytes, source: str, limits: Limits) -> str:
    if len(text) > limits.text_bytes:
        raise InputError("too large", source=source, value=len(text), expected=f"at most {limits.text_bytes} bytes")
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8 text", source=source, place=f"byte {error.start}") from error


def _parse_json(text: str, source: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InputError("not JSON", source=source, value=str(error), expected="one JSON object") from error
    except RecursionError as error:
        raise InputError("nested too deep", source=source, expected=f"at most {MAX_DEPTH} levels") from error


def _parse_yaml(text: str, source: str, limits: Limits) -> object:
    # Imported here: most machine files are JSON, and a command line waits for every import.
    import yaml

    if len(text) > limits.yaml_bytes:
        wanted = f"at most {limits.yaml_bytes} bytes of YAML; more as JSON"
        raise InputError("too large", source=source, value=len(text), expected=wanted)
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_traps(yaml.parse(text, Loader=loader), source)
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(f"not YAML: {problem}", source=source, place=place) from error
    except (ValueError, TypeError, UnicodeEncodeError) as error:  # dates that do not exist, unhashable keys, surrogates
        raise InputError("not YAML", source=source, value=str(error)) from error


def _refuse_traps(events: Iterable[Any], source: str) -> None:
    """Walk the YAML events, which needs no recursion, before anything is built."""
    depth = 0
    for event in events:
        kind = type(event).__name__
        place = f"line {event.start_mark.line + 1}" if event.start_mark is not None else ""
        if kind == "AliasEvent":
            raise InputError("YAML alias", source=source, place=place, expected="no aliases")
        depth += kind in ("MappingStartEvent", "SequenceStartEvent")
        depth -= kind in ("MappingEndEvent", "SequenceEndEvent")
        if depth > MAX_DEPTH:
            raise InputError("nested too deep", source=source, place=place, expected=f"at most {MAX_DEPTH} levels")


def _set_reader(budget: int) -> Callable[[type, object], object]:
    """`decode_idset` with a budget; msgspec adds the path only to ValueError."""
    left = budget

    def read(kind: type, value: object) -> object:
        nonlocal left
        try:
            made = decode_idset(kind, value)
        except InputError as error:
            raise ValueError(error.problem) from error
        if isinstance(made, IdSet):
            left -= made.mask.bit_length() // 8
        if left < 0:
            raise ValueError(f"the id sets are too large together (over {budget} bytes)")
        return made

    return read


def _explained(error: msgspec.ValidationError, value: object, source: str) -> InputError:
    found = _AT.fullmatch(str(error))
    assert found is not None
    place = (found["place"] or "").lstrip(".")
    problem = found["problem"]
    cause = error.__cause__.__cause__ if error.__cause__ is not None else None
    if isinstance(cause, InputError):
        return InputError(cause.problem, source=source, place=place, value=cause.value, expected=cause.expected)
    wrong = _WRONG_TYPE.fullmatch(problem)
    if wrong is not None:
        return InputError(
            "wrong type", source=source, place=place, value=_at(value, place), expected=f"{wrong['expected']}"
        )
    missing = problem.startswith("Object")
    shown = ... if missing else _at(value, place)
    return InputError(problem[:1].lower() + problem[1:200], source=source, place=place[:200], value=shown)


def _at(value: Any, place: str) -> object:
    """The value at a msgspec path, or `...` where the path says no more than `[...]`."""
    for name, index in _STEP.findall(place):
        try:
            value = value[name] if name else value[int(index)]
        except (KeyError, IndexError, TypeError):
            return ...
    return value
