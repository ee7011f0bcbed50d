"""Answers of Prometheus's HTTP API to instant queries: bytes in, series with exact values out.

A value is the decimal that Prometheus wrote, exactly: `0.1` is one tenth. NaN, +Inf, -Inf and histograms are no value
that a rule could compare, and are given as None. What is no answer of Prometheus is refused as a whole: half of it
would be guesswork. Facts: prometheus.io querying/api (format overview, instant queries, vectors),
web/api/v1/api.go (`jsonPoint`: values are text, times are numbers).
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Literal

import msgspec

from bayplan.errors import BayplanError, InputError

LARGEST_ANSWER = 64 * 1024 * 1024
_SHOWN_WARNINGS = 8
_LONGEST_TEXT = 400
_NUMBER = re.compile(r"([+-]?)([0-9]{1,400})(?:\.([0-9]{1,400}))?(?:[eE]([+-]?[0-9]{1,3}))?", re.ASCII)
_NO_VALUE = frozenset({"NaN", "+Inf", "-Inf", "Inf"})


class QueryRefusedError(BayplanError):
    """Prometheus understood the request and says no. `kind` is its errorType: bad_data, execution, timeout, ..."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.text = text
        super().__init__(f"Prometheus refused the query: {kind}: {text}")

    @property
    def blames_query(self) -> bool:
        """Whether another query could be answered: the server itself is well."""
        return self.kind in ("bad_data", "execution", "not_found")


class Series(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One element of an instant vector. `at` is the moment of evaluation, in seconds since 1970 on the server's clock.

    `value` is None where the series has no finite number: NaN, infinite, or a native histogram.
    """

    labels: dict[str, str]
    value: Fraction | None
    at: float


class Vector(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an instant query. `warnings` are the server's, for instance that a part of it did not answer."""

    series: tuple[Series, ...]
    warnings: tuple[str, ...] = ()


class _Element(msgspec.Struct, frozen=True, gc=False):
    metric: dict[str, str]
    value: tuple[float, str] | None = None
    histogram: msgspec.Raw | None = None


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Body(msgspec.Struct, frozen=True, rename="camel"):
    status: Literal["success", "error"]
    data: _Data | None = None
    error_type: str | None = None
    error: str | None = None
    warnings: list[str] | None = None


_BODY = msgspec.json.Decoder(_Body)
_ELEMENTS = msgspec.json.Decoder(list[_Element])


def read_vector(body: bytes, *, largest: int = LARGEST_ANSWER) -> Vector:
    """The instant vector of an answer. Raises `QueryRefusedError` for an answer that is an error, else `InputError`."""
    if len(body) > largest:
        raise InputError("answer of Prometheus too large", value=len(body), expected=f"at most {largest} bytes")
    try:
        answer = _BODY.decode(body)
        if answer.status == "error":
            raise QueryRefusedError(
                (answer.error_type or "unknown")[:_LONGEST_TEXT], (answer.error or "")[:_LONGEST_TEXT]
            )
        if answer.data is None:
            raise InputError("answer of Prometheus without data", place="data")
        if answer.data.result_type != "vector":
            raise InputError(
                "not an instant vector",
                place="data.resultType",
                value=answer.data.result_type,
                expected="a query that gives one series per node",
            )
        elements = _ELEMENTS.decode(answer.data.result)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not an answer of Prometheus: {error}") from error
    series = tuple(_series(element, number) for number, element in enumerate(elements))
    warnings = tuple(text[:_LONGEST_TEXT] for text in (answer.warnings or ())[:_SHOWN_WARNINGS])
    return Vector(series=series, warnings=warnings)


def read_value(text: str) -> Fraction | None:
    """The exact number of a sample value; None where it is not finite. Raises `InputError`."""
    if text in _NO_VALUE:
        return None
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise InputError("not a sample value", value=text, expected="a decimal number")
    sign, whole, part, exponent = found.groups(default="")
    power = int(exponent or 0) - len(part)
    if abs(power) > _LONGEST_TEXT * 2:
        raise InputError("sample value out of range", value=text, expected="a 64 bit floating point number")
    digits = int(f"{sign}{whole}{part}")
    return Fraction(digits * 10**power) if power >= 0 else Fraction(digits, 10**-power)


def _series(element: _Element, number: int) -> Series:
    place = f"data.result[{number}]"
    if element.value is None:
        if element.histogram is None:
            raise InputError("series without a value", place=place)
        return Series(labels=element.metric, value=None, at=0.0)
    at, text = element.value
    if not math.isfinite(at):
        raise InputError("not a time", place=f"{place}.value[0]", value=at, expected="seconds since 1970")
    try:
        value = read_value(text)
    except InputError as error:
        raise error.within(place=f"{place}.value[1]") from error
    return Series(labels=element.metric, value=value, at=at)
