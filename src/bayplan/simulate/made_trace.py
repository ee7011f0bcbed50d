"""A small trace that is made up, for examples and tests: `preset:small`.

`python -m bayplan.simulate.made_trace FOLDER` writes `nodes.csv` and `pods.csv` in openb's form; a test holds what is
in `presets/small` to it. All follows from the tables here and the draws of `fleet.cards.generator` with `SEED`, in
whole numbers; nothing is taken from a trace.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from bayplan.fleet.cards.generator import Generator

SEED = 2026
PODS = 600
WEEK_S = 7 * 24 * 3600
T = TypeVar("T")


class _Shape(NamedTuple):
    """So many equal nodes."""

    model: str
    nodes: int
    cards: int
    cpus: int
    memory_gib: int


class _Kind(NamedTuple):
    """So many of 1000 pods ask for this many cards, of that many milli, and for CPUs a card (or in all without)."""

    weight: int
    cards: int
    milli: tuple[int, ...]
    cpus: tuple[int, ...]
    memory_gib: tuple[int, ...]


SHAPES = (
    _Shape("G3", 36, 8, 96, 768),
    _Shape("A10", 16, 4, 64, 256),
    _Shape("V100M32", 10, 8, 80, 512),
    _Shape("T4", 12, 4, 48, 192),
)
KINDS = (
    _Kind(120, 0, (0,), (1, 2, 4, 8, 16), (2, 4, 8, 16, 32)),
    _Kind(400, 1, (120, 180, 270, 330, 450, 550, 640, 720, 800, 840), (2, 4, 6, 8, 10), (4, 8, 16, 24)),
    _Kind(395, 1, (1000,), (6, 8, 10, 14), (16, 32, 48)),
    _Kind(45, 2, (1000,), (6, 8, 12), (32, 48)),
    _Kind(28, 4, (1000,), (8, 12), (32, 64)),
    _Kind(12, 8, (1000,), (8, 12), (64, 80)),
)
NAMED_PERCENT = 18
"""Of 100 pods with one card at most, so many name the models that will do."""
NAMED = ("T4", "A10", "V100M32", "G3", "A10|G3", "G3|V100M32")


def nodes_csv() -> str:
    """The nodes."""
    rows = [
        f"small-node-{i:03d},{shape.cpus * 1000},{shape.memory_gib * 1024},{shape.cards},{shape.model}"
        for i, shape in enumerate(shape for shape in SHAPES for _ in range(shape.nodes))
    ]
    return "\n".join(["sn,cpu_milli,memory_mib,gpu,model", *rows]) + "\n"


def pods_csv() -> str:
    """The pods, in the order of their creation."""
    draws = Generator(SEED)
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time"
    starts = sorted(draws.below(WEEK_S) for _ in range(PODS))
    return "\n".join([head, *(_pod(i, start, draws) for i, start in enumerate(starts))]) + "\n"


def _pod(number: int, start: int, draws: Generator) -> str:
    kind = _weighted(draws)
    milli = _one_of(kind.milli, draws)
    per = max(kind.cards, 1)
    cpus, memory = per * _one_of(kind.cpus, draws), per * _one_of(kind.memory_gib, draws)
    names = kind.cards == 1 and draws.below(100) < NAMED_PERCENT
    models = _one_of(NAMED, draws) if names else ""
    # From an hour to two weeks, short ones more often than long ones.
    runs = 3600 + draws.below(2 * WEEK_S) * draws.below(WEEK_S) // WEEK_S
    return f"small-pod-{number:03d},{cpus * 1000},{memory * 1024},{kind.cards},{milli},{models},{start},{start + runs}"


def _weighted(draws: Generator) -> _Kind:
    left = draws.below(sum(kind.weight for kind in KINDS))
    for kind in KINDS:
        left -= kind.weight
        if left < 0:
            return kind
    raise AssertionError("a draw beyond all weights")


def _one_of(values: Sequence[T], draws: Generator) -> T:
    return values[draws.below(len(values))]


def main(folder: str) -> None:
    """Write the two files into a folder, which must be there."""
    for name, text in (("nodes.csv", nodes_csv()), ("pods.csv", pods_csv())):
        (Path(folder) / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
