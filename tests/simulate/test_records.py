"""The record of a run, as CSV and as Parquet, the same bytes every time."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from tests.simulate.least_left import GIB, NODES, LeastLeft

from bayplan.errors import InputError
from bayplan.fleet.cards.fragmentation import CAUSES
from bayplan.fleet.cards.mix import counted
from bayplan.fleet.cards.model import CardRequest
from bayplan.simulate import records
from bayplan.simulate.record import Record
from bayplan.simulate.records import record_columns, record_path, table_bytes, write_record
from bayplan.simulate.replay import replay
from bayplan.simulate.trace import Trace

REQUESTS = (
    CardRequest(cpu_milli=1000, memory_bytes=GIB, cards=2, milli=1000),
    CardRequest(cpu_milli=0, memory_bytes=0),
    CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=250, models=("A10",)),
)


@pytest.fixture
def run() -> tuple[Trace, Record]:
    arrivals = [0, 1, 2, 0, 0, 0]
    counts = counted(REQUESTS[i] for i in arrivals)
    trace = Trace(NODES, REQUESTS, np.array(arrivals), ['a,"b"', "c", "d", "e", "f", "g"], counts)
    return trace, replay(trace, LeastLeft)


def test_each_arrival_is_a_row_with_where_it_went_and_how_things_stood(run: tuple[Trace, Record]) -> None:
    rows = list(csv.DictReader(io.StringIO(table_bytes(record_columns(*run), "csv").decode())))
    assert [row["pod"] for row in rows] == run[0].names
    assert [(row["node"], row["cards"], row["failed"], row["reason"]) for row in rows] == [
        ("a", "0-1", "0", ""),
        ("d", "", "0", ""),
        ("b", "0", "0", ""),
        ("b", "1-2", "0", ""),
        ("", "", "1", "cards"),
        ("", "", "1", "cards"),
    ]
    assert [int(row["alloc_milli"]) for row in rows] == [2000, 2000, 2250, 4250, 4250, 4250]
    assert [int(row["arrived_milli"]) for row in rows] == [2000, 2000, 2250, 4250, 6250, 8250]
    assert [int(row["idle_milli"]) for row in rows] == [5000, 5000, 4750, 2750, 2750, 2750]
    assert [int(row["used_nodes"]) for row in rows] == [1, 2, 3, 3, 3, 3]
    for row in rows:
        booked = [float(row[f"idle_{cause.replace('-', '_')}_milli"]) for cause in CAUSES]
        assert sum(booked) == pytest.approx(float(row["idle_milli"]), abs=0.1)
        unfit = sum(amount for cause, amount in zip(CAUSES, booked, strict=True) if cause != "satisfied")
        assert float(row["frag_milli"]) == pytest.approx(unfit, abs=0.1)
        assert float(row["frag_ratio"]) == pytest.approx(100 * unfit / float(row["idle_milli"]), abs=0.02)


def test_times_are_there_where_the_trace_has_them(run: tuple[Trace, Record]) -> None:
    trace = run[0]._replace(arrives_s=np.arange(6.0), leaves_s=np.full(6, np.inf))
    columns = record_columns(trace, replay(trace, LeastLeft))
    assert columns["arrives_s"].tolist() == [0, 1, 2, 3, 4, 5]
    assert "arrives_s" not in record_columns(*run)


def test_parquet_has_the_same_columns(run: tuple[Trace, Record]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = record_columns(*run)
    content = table_bytes(columns, "parquet")
    assert content == table_bytes(columns, "parquet")
    read = parquet.read_table(io.BytesIO(content)).to_pydict()
    assert read == {name: list(getattr(values, "tolist", lambda v=values: v)()) for name, values in columns.items()}


def test_parquet_without_pyarrow_is_one_clear_error(run: tuple[Trace, Record], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"Parquet needs pyarrow \(expected pip install"):
        table_bytes(record_columns(*run), "parquet")


def test_a_record_is_written_whole_or_not_at_all(run: tuple[Trace, Record], tmp_path: Path) -> None:
    write_record(*run, str(tmp_path / "new" / "folder"), "a/b-s1", "csv")
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["a_b-s1.csv"]
    assert record_path("x", "a/b", "csv") == Path("x/a_b.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_record(*run, str(tmp_path / "file"), "a", "csv")
