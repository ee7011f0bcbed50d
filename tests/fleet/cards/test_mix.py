"""What is typical: which kinds, in which order, with which shares."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from bayplan.errors import InputError
from bayplan.fleet.cards.mix import PodKind, counted, typical
from bayplan.fleet.cards.model import CardRequest


def one(cpu_milli: int, milli: int = 1000, models: tuple[str, ...] = ()) -> PodKind:
    return PodKind(cpu_milli, milli, 1, models)


def test_memory_makes_no_kind_but_models_do() -> None:
    pods = [CardRequest(cpu_milli=1, memory_bytes=memory, cards=1, milli=500) for memory in (1, 2)]
    pods.append(CardRequest(cpu_milli=1, memory_bytes=1, cards=1, milli=500, models=("T4",)))
    pods.append(CardRequest(cpu_milli=1, memory_bytes=1, cards=1, milli=500, models=("T4", "T4")))
    assert counted(pods) == {one(1, 500): 2, one(1, 500, ("T4",)): 1, one(1, 500, ("T4", "T4")): 1}


def test_kinds_are_taken_by_frequency_until_enough_pods_are_covered() -> None:
    found = typical({one(1): 90, one(2): 4, one(3): 3, one(4): 3}, coverage=0.95)
    assert [kind for kind, _ in found] == [one(1), one(2), one(4)]
    assert [share for _, share in found] == [90 / 100 / (97 / 100), 4 / 100 / (97 / 100), 3 / 100 / (97 / 100)]
    assert [kind for kind, _ in typical({one(1): 95, one(2): 5})] == [one(1)]
    assert typical({}) == ()


def test_of_equally_frequent_kinds_the_larger_come_first() -> None:
    order = [
        one(9, 10),
        one(8, 1000, ("T4",)),
        one(8, 1000, ("G2", "T4")),
        one(8, 1000),
        one(8, 500, ("T4",)),
        PodKind(7, 1000, 2, ()),
        PodKind(7, 1000, 1, ()),
    ]
    assert [kind for kind, _ in typical(dict.fromkeys(reversed(order), 1), coverage=1)] == order


def test_models_have_to_be_sorted() -> None:
    with pytest.raises(InputError, match="not sorted"):
        CardRequest(cpu_milli=1, memory_bytes=1, cards=1, milli=500, models=("T4", "G2"))


def test_what_is_typical_of_the_openb_trace_is_what_is_published(openb_data: Path) -> None:
    with gzip.open(openb_data / "openb_pod_list_default.csv.gz", "rt", newline="") as lines:
        counts = counted(
            CardRequest(
                cpu_milli=int(row["cpu_milli"]),
                memory_bytes=0,
                cards=int(row["num_gpu"]),
                milli=int(row["gpu_milli"]) if int(row["num_gpu"]) else 0,
            )
            for row in csv.DictReader(lines)
        )
    with (openb_data / "typical_pods_default.csv").open(newline="") as lines:
        published = list(csv.DictReader(lines))
    found = typical(counts)
    assert [(str(kind.cpu_milli), str(kind.milli), str(kind.cards), str(counts[kind])) for kind, _ in found] == [
        (row["cpu_milli"], row["gpu_milli"], row["num_gpu"], row["n"]) for row in published
    ]
    assert [share for _, share in found] == pytest.approx([float(row["weight"]) for row in published], rel=1e-12)
