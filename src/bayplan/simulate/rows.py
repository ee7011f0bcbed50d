"""Rows of a CSV table by the names of their columns, with a place for every complaint.

Facts: RFC 4180 as Python's `csv` reads it; the first row names the columns. Cells of millions of rows are few
different ones: whoever reads a table looks up what it made of equal cells before, and parses only what is new.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bayplan.errors import InputError
from bayplan.workload.notes import nearest

MAX_ROWS = 5_000_000
_LONGEST_NUMBER = 20


class Table(NamedTuple):
    """`columns` as the first row names them; `rows` with their number (the row after the names is 2), as wide as that.

    Reading rows raises `InputError` with the row, for one that is wider or narrower and for more than `MAX_ROWS`.
    """

    columns: tuple[str, ...]
    rows: Iterator[tuple[int, list[str]]]


def read_table(lines: Iterable[str]) -> Table:
    """The table in these lines. Raises `InputError` where there is none, or two columns have one name."""
    reader = csv.reader(lines, strict=True)
    numbered = _checked(reader)
    head = next(numbered, None)
    if head is None:
        raise InputError("empty", expected="a table whose first row names the columns")
    columns = tuple(name.strip() for name in head[1])
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise InputError("two columns of one name", place="row 1", value=twice[0])
    return Table(columns, _even(numbered, len(columns)))


def positions(columns: Sequence[str], required: Sequence[str], optional: Sequence[str], *, strict: bool) -> list[int]:
    """Where the required and the optional columns stand (-1: absent); with `strict`, no others may be there.

    Raises `InputError`.
    """
    for name in required:
        if name not in columns:
            raise InputError(f"no column {name}", expected=", ".join(required))
    known = (*required, *optional)
    unknown = [name for name in columns if name not in known]
    if strict and unknown:
        hint = nearest(unknown[0], known)
        raise InputError(f"unknown column{hint}", value=unknown[0], expected=", ".join(known))
    return [columns.index(name) if name in columns else -1 for name in known]


def whole(text: str, column: str, default: int | None = None) -> int:
    """A cell that is a whole number, not negative; `default` where it is empty. Raises `InputError`."""
    bare = text.strip()
    if not bare and default is not None:
        return default
    if not (bare.isascii() and bare.isdigit() and len(bare) <= _LONGEST_NUMBER):
        raise InputError("not a number", place=f"column {column}", value=text, expected="a whole number, 0 or more")
    return int(bare)


def seconds(text: str, column: str, default: float) -> float:
    """A cell that is seconds, whole or not; `default` where it is empty. Raises `InputError`."""
    bare = text.strip()
    if not bare:
        return default
    try:
        value = float(bare) if "_" not in bare else math.nan
    except ValueError:
        value = math.nan
    if not -1e15 < value < 1e15:
        raise InputError("not a time", place=f"column {column}", value=text, expected="seconds")
    return value


def in_row(error: InputError, number: int) -> InputError:
    """The error seen from outside its row: `row 12, column cpu_milli`."""
    place = f"row {number}" + (f", {error.place}" if error.place else "")
    moved = InputError(error.problem, source=error.source, place=place, value=error.value, expected=error.expected)
    moved.__cause__ = error
    return moved


def _checked(reader: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, numbered from 1."""
    number = 0
    while True:
        number += 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise InputError(f"not CSV ({error})", place=f"row {number}") from error
        if row is None:
            return
        if number > MAX_ROWS:
            raise InputError("too many rows", expected=f"at most {MAX_ROWS}")
        if row:
            yield number, row


def _even(rows: Iterator[tuple[int, list[str]]], width: int) -> Iterator[tuple[int, list[str]]]:
    for number, row in rows:
        if len(row) != width:
            raise InputError(
                "cells that fit no column", place=f"row {number}", value=len(row), expected=f"{width} cells"
            )
        yield number, row
