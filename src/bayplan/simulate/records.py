"""The record of a run by arrival, as a CSV file or as Parquet (the extra `parquet`)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bayplan.errors import InputError
from bayplan.files.whole import write_whole
from bayplan.fleet.cards.fragmentation import CAUSES
from bayplan.simulate.record import REASONS, Record
from bayplan.simulate.trace import Trace

FORMS = ("csv", "parquet")


def record_path(folder: str, name: str, form: str) -> Path:
    """Where the record of that name is."""
    return Path(folder) / f"{name.replace('/', '_')}.{form}"


def write_record(trace: Trace, record: Record, folder: str, name: str, form: str) -> None:
    """Write a record, whole or not at all. Raises `InputError` where that is not possible."""
    path = record_path(folder, name, form)
    content = table_bytes(record_columns(trace, record), form)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror or error})", source=str(path)) from error


def record_columns(trace: Trace, record: Record) -> dict[str, Any]:
    """Column -> its values by arrival: where the pod went, and how the fleet stood after it.

    Amounts in milli of a card, watts; `frag_ratio` in percent of what is idle; `cards` joined by `-`.
    """
    standing, idle = record.standing, record.idle_milli
    names = np.array(["", *(node.name for node in trace.nodes)], object)
    sets = np.array(["-".join(map(str, cards)) for cards in record.card_sets], object)
    columns: dict[str, Any] = {
        "idx": np.arange(len(record.node)),
        "pod": trace.names,
        "node": names[record.node + 1],
        "cards": sets[record.cards],
        "arrived_milli": record.arrived_milli,
        "alloc_milli": standing.alloc_milli,
        "frag_milli": np.round(standing.frag_milli, 2),
        "frag_ratio": np.round(np.divide(100 * standing.frag_milli, idle, out=np.zeros(len(idle)), where=idle > 0), 2),
        "idle_milli": idle,
        "used_nodes": standing.used_nodes,
        "alloc_cpu_milli": standing.alloc_cpu_milli,
        "power_cpu_w": standing.cpu_w,
        "power_gpu_w": standing.gpu_w,
        "failed": (record.node < 0).astype(np.int64),
        "reason": np.array(REASONS, object)[record.reason],
    }
    for i, cause in enumerate(CAUSES):
        columns[f"idle_{cause.replace('-', '_')}_milli"] = np.round(standing.frag_by_cause[:, i], 2)
    if trace.arrives_s is not None:
        columns["arrives_s"] = trace.arrives_s
    return columns


def check_form(form: str) -> None:
    """Raises `InputError` where a table of this form cannot be written here."""
    if form == "parquet" and find_spec("pyarrow") is None:
        raise InputError("Parquet needs pyarrow", expected="pip install 'bayplan[parquet]', or csv")


def table_bytes(columns: dict[str, Any], form: str) -> bytes:
    """A table as the bytes of a CSV or Parquet file, the same for the same columns."""
    return _parquet(columns) if form == "parquet" else _csv(columns).encode()


def _csv(columns: dict[str, Any]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(_cells(values) for values in columns.values()), strict=True))
    return text.getvalue()


def _cells(values: Any) -> Iterator[object]:
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    # 97.0 W is 97 to a reader, and many columns of watts and times are whole.
    return (int(value) if isinstance(value, float) and value.is_integer() else value for value in listed)


def _parquet(columns: dict[str, Any]) -> bytes:
    check_form("parquet")
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table({name: pa.array(values) for name, values in columns.items()}), sink)
    return bytes(sink.getvalue().to_pybytes())
