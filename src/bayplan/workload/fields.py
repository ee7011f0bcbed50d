"""Typed access to the fields of a document, with the path of each for messages.

A field that is missing and one that is null are the same, as for the API server. Types are those of JSON and are not
bent: a number is no text, text is no number. Everything raises `InputError` whose place is the path.
"""

from __future__ import annotations

from typing import Any

from bayplan.errors import InputError

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
_LONGEST_KEY = 80
_LONGEST_VALUE = 100


class Fields:
    """A mapping at a path. `value` is the mapping itself, which must not be changed."""

    __slots__ = ("path", "value")

    def __init__(self, value: dict[str, Any], path: str = "") -> None:
        self.value = value
        self.path = path

    def at(self, name: str) -> str:
        """The path of a field."""
        return join(self.path, name)

    def error(self, name: str, problem: str, *, value: object = ..., expected: str = "") -> InputError:
        """An error at a field, to be raised; the value is shown unless it is a container."""
        return InputError(problem, place=self.at(name), value=shown(value), expected=expected)

    def text(self, name: str, default: str = "") -> str:
        """Text, or `default`."""
        value = self.value.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise wrong_type(self.at(name), value, "text" if isinstance(value, dict | list) else "text; use quotes")
        return value

    def required_text(self, name: str) -> str:
        """Text that must be there and not be empty."""
        value = self.text(name)
        if not value:
            raise self.error(name, "missing", expected="text")
        return value

    def integer(self, name: str, minimum: int = INT32_MIN, maximum: int = INT32_MAX) -> int | None:
        """A whole number within the bounds, or None."""
        value = self.value.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type(self.at(name), value, "a whole number")
        if not minimum <= value <= maximum:
            raise self.error(name, "out of range", value=value, expected=f"{minimum}..{maximum}")
        return value

    def boolean(self, name: str, default: bool = False) -> bool:
        """A boolean, or `default`."""
        value = self.value.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise wrong_type(self.at(name), value, "true or false")
        return value

    def mapping(self, name: str) -> Fields:
        """A mapping, empty when it is missing."""
        value = self.value.get(name)
        if value is None:
            return Fields({}, self.at(name))
        return as_fields(value, self.at(name))

    def optional(self, name: str) -> Fields | None:
        """A mapping, or None when it is missing."""
        return None if self.value.get(name) is None else self.mapping(name)

    def sequence(self, name: str) -> list[Any]:
        """A list of anything, empty when it is missing."""
        value = self.value.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise wrong_type(self.at(name), value, "a list")
        return value

    def entries(self, name: str) -> list[Fields]:
        """A list of mappings, empty when it is missing."""
        path = self.at(name)
        return [as_fields(entry, f"{path}[{i}]") for i, entry in enumerate(self.sequence(name))]

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, empty when it is missing."""
        values = self.sequence(name)
        for i, value in enumerate(values):
            if not isinstance(value, str):
                raise wrong_type(f"{self.at(name)}[{i}]", value, "text; use quotes")
        return tuple(values)

    def text_map(self, name: str) -> dict[str, str]:
        """A mapping of text to text, empty when it is missing."""
        inner = self.mapping(name)
        for key in inner.value:
            # A null value is an empty text to the API server's decoder.
            if not isinstance(inner.value[key], str):
                return {key: inner.text(key) for key in inner.value}
        return inner.value


def as_fields(value: object, path: str) -> Fields:
    """A value that must be a mapping."""
    if not isinstance(value, dict):
        raise wrong_type(path, value, "a mapping")
    return Fields(value, path)


def join(path: str, name: str) -> str:
    """`spec` + `cpu` is `spec.cpu`; what is no plain word goes in brackets: `limits[nvidia.com/gpu]`."""
    if not name.replace("-", "a").replace("_", "a").isalnum() or len(name) > _LONGEST_KEY:
        safe = "".join(c if c.isprintable() else "?" for c in name[:_LONGEST_KEY])
        return f"{path}[{safe}{'...' if len(name) > _LONGEST_KEY else ''}]"
    return f"{path}.{name}" if path else name


def wrong_type(path: str, value: object, expected: str) -> InputError:
    """An error for a value of the wrong type, to be raised."""
    return InputError(f"is {_type_name(value)}", place=path, value=shown(value), expected=expected)


def shown(value: object) -> object:
    """What of a value may go into a message: containers may be endless (`...` shows nothing), long text is cut."""
    if isinstance(value, dict | list):
        return ...
    return value[:_LONGEST_VALUE] if isinstance(value, str) else value


def _type_name(value: object) -> str:
    if value is None:
        return "empty"
    names: dict[type, str] = {dict: "a mapping", list: "a list", str: "text", bool: "a boolean"}
    return names.get(type(value), "a number")
