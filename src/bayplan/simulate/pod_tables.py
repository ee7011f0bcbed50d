"""Pods from a table: openb's lists and arrivals, and Bayplan's own, as CSV or JSON Lines.

openb: `name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec,...,creation_time,deletion_time,...]`, arrivals with `idx`
before. A card's part above 1000 is cut to 1000, a pod without cards has none; times are seconds. Own: `name`, and what
may be left out: `cpu_milli` 0, `memory_mib` 0, `cards` 0 (1 where `milli` is given), `milli` (of each card) 1000,
`models` ('|' between them) any, `arrives_s`, `runs_s` (empty: it never ends). Facts: the openb trace of Alibaba's
cluster data (GPU v2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from bayplan.errors import InputError
from bayplan.fleet.cards.model import WHOLE, CardRequest
from bayplan.fleet.cards.state import Floats, Ints
from bayplan.simulate.node_tables import MIB, checked_name
from bayplan.simulate.rows import Table, in_row, positions, read_table, seconds, whole

_OPENB_REQUIRED = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_OPENB_OPTIONAL = ("gpu_spec", "creation_time", "deletion_time", "idx")
_OWN_REQUIRED = ("name",)
_OWN_OPTIONAL = ("cpu_milli", "memory_mib", "cards", "milli", "models", "arrives_s", "runs_s")
_Cells = tuple[str, str, str, str, str]


class PodList(NamedTuple):
    """Pods in the order of their list. `which[i]` is the position in `requests` of what pod `i` asks.

    `arrives_s` and `leaves_s` (infinity: never) by pod, both None where the list has no times.
    """

    names: list[str]
    requests: tuple[CardRequest, ...]
    which: Ints
    arrives_s: Floats | None = None
    leaves_s: Floats | None = None


def is_openb(columns: Iterable[str]) -> bool:
    """Whether a table with these columns is one of openb's."""
    return "num_gpu" in columns


def read_pods(lines: Iterable[str]) -> PodList:
    """The pods of a CSV table of either form. Raises `InputError` with row and column."""
    return _gathered(read_table(lines))


def read_pod_lines(lines: Iterable[str]) -> PodList:
    """The pods of JSON Lines: an object on each line, with the fields of Bayplan's own table."""
    columns = _OWN_REQUIRED + _OWN_OPTIONAL
    return _gathered(Table(columns, _json_rows(lines, columns)))


class PodGatherer:
    """Gathers pods; equal requests are kept once. Raises `InputError` for two of one name and for odd times."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._requests: dict[CardRequest, int] = {}
        self._which: list[int] = []
        self._times: list[tuple[float, float]] = []

    def number(self, request: CardRequest) -> int:
        """The number of a request, the same for an equal one."""
        return self._requests.setdefault(request, len(self._requests))

    def add(self, name: str, number: int, arrives_s: float = math.nan, leaves_s: float = math.inf) -> None:
        """One more pod, which asks the request of this number. NaN: it has no times."""
        if name in self._names:
            raise InputError("two pods of one name", value=name)
        if leaves_s < arrives_s:
            raise InputError("ends before it arrives", value=leaves_s, expected=f"{arrives_s} or later")
        self._names[name] = None
        self._which.append(number)
        self._times.append((arrives_s, leaves_s))

    def pods(self) -> PodList:
        """All of them. Raises `InputError` where there are none, or only some have times."""
        if not self._names:
            raise InputError("no pods", expected="one at least")
        times = np.array(self._times, np.float64)
        timed = ~np.isnan(times[:, 0])
        which = np.array(self._which, np.int64)
        pods = PodList(list(self._names), tuple(self._requests), which)
        if not timed.any():
            return pods
        if not timed.all():
            without = pods.names[int(timed.argmin())]
            raise InputError(
                "a pod without a time of arrival among others with one", value=without, expected="all or none"
            )
        return pods._replace(arrives_s=times[:, 0].copy(), leaves_s=times[:, 1].copy())


def _gathered(table: Table) -> PodList:
    openb = is_openb(table.columns)
    required, optional = (_OPENB_REQUIRED, _OPENB_OPTIONAL) if openb else (_OWN_REQUIRED, _OWN_OPTIONAL)
    at = positions(table.columns, required, optional, strict=not openb)
    name, cpu, memory, cards, milli, models, start, end = at[:8]
    at_index = at[8] if openb else -1
    times = _openb_times if openb else _own_times
    request_of: Callable[[_Cells], CardRequest] = _openb_request if openb else _own_request
    gatherer = PodGatherer()
    known: dict[_Cells, int] = {}
    last = -1
    for number, row in table.rows:
        row.append("")  # what a column that is absent, at -1, has
        cells = (row[cpu], row[memory], row[cards], row[milli], row[models])
        try:
            if cells not in known:
                known[cells] = gatherer.number(request_of(cells))
            if at_index >= 0:
                last = _later(row[at_index], last)
            gatherer.add(checked_name(row[name], "name"), known[cells], *times(row[start], row[end]))
        except InputError as error:
            raise in_row(error, number) from error
    return gatherer.pods()


def _openb_request(cells: _Cells) -> CardRequest:
    cpu, memory, cards, milli, models = cells
    count = whole(cards, "num_gpu")
    part = min(whole(milli, "gpu_milli"), WHOLE)
    return CardRequest(
        cpu_milli=whole(cpu, "cpu_milli"),
        memory_bytes=whole(memory, "memory_mib") * MIB,
        cards=count,
        milli=part if count else 0,
        # One that is named twice stays so: the published experiments take these for pods of another kind.
        models=tuple(sorted(_models(models, "gpu_spec"))),
    )


def _own_request(cells: _Cells) -> CardRequest:
    cpu, memory, cards, milli, models = cells
    part = whole(milli, "milli", 0)
    count = whole(cards, "cards", 1 if part else 0)
    return CardRequest(
        cpu_milli=whole(cpu, "cpu_milli", 0),
        memory_bytes=whole(memory, "memory_mib", 0) * MIB,
        cards=count,
        milli=whole(milli, "milli", WHOLE if count else 0),
        models=tuple(sorted(set(_models(models, "models")))),
    )


def _models(text: str, column: str) -> list[str]:
    return [checked_name(name.strip(), column) for name in text.split("|")] if text.strip() else []


def _openb_times(start: str, end: str) -> tuple[float, float]:
    return seconds(start, "creation_time", math.nan), seconds(end, "deletion_time", math.inf)


def _own_times(start: str, runs: str) -> tuple[float, float]:
    arrives, length = seconds(start, "arrives_s", math.nan), seconds(runs, "runs_s", math.inf)
    if length < 0:
        raise InputError("not a time to run", place="column runs_s", value=runs, expected="0 or more")
    if math.isnan(arrives) and length < math.inf:
        raise InputError("a time to run but none of arrival", place="column arrives_s")
    return arrives, arrives + length if length < math.inf else math.inf


def _later(text: str, last: int) -> int:
    index = whole(text, "idx")
    if index <= last:
        raise InputError("not in order", place="column idx", value=index, expected=f"more than {last}")
    return index


def _json_rows(lines: Iterable[str], columns: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InputError(f"not JSON ({error})", place=f"row {number}") from error
        if not isinstance(fields, dict):
            raise InputError("not an object", place=f"row {number}", expected=", ".join(columns))
        try:
            positions(tuple(fields), _OWN_REQUIRED, _OWN_OPTIONAL, strict=True)
            yield number, [_cell(fields.get(name), name) for name in columns]
        except InputError as error:
            raise in_row(error, number) from error


def _cell(value: object, column: str) -> str:
    if isinstance(value, list) and column == "models":
        return "|".join(_cell(model, column) for model in value)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError("neither text nor a number", place=f"column {column}", value=value)
    return str(value)
