"""One run: a policy and a seed on a trace, as they are named, made and summed up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from bayplan.errors import InputError
from bayplan.files.plugins import folded_name, load_card_policy
from bayplan.simulate.replay import replay
from bayplan.simulate.result import RunResult, result
from bayplan.simulate.trace import Trace

Advance = Callable[[float], None]
"""Told how much more of one run is done, 1 being all of it."""
MOST_SEEDS = 10_000
MOST_DIGITS = 19


class PolicyName(msgspec.Struct, frozen=True):
    """A policy as it is named: `pwr+fgd:200` has the option `200`."""

    name: str
    option: str = ""

    @classmethod
    def parse(cls, text: str) -> PolicyName:
        """From what a person typed; `GpuPacking`, `gpu-packing` and `gpupacking` are one."""
        name, _, option = text.strip().partition(":")
        return cls(folded_name(name.strip()), option.strip())

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.name}:{self.option}" if self.option else self.name


class Run(msgspec.Struct, frozen=True):
    """One run that is to be made. `informed`: whether the policy knows the mix of pods beforehand."""

    policy: PolicyName
    seed: int
    informed: bool = True

    def __str__(self) -> str:
        """`fgd-s42`."""
        return f"{self.policy}-s{self.seed}"


class Save(NamedTuple):
    """Where the record by arrival of each run is to be written, and as what: `csv` or `parquet`."""

    folder: str
    form: str


def run_one(trace: Trace, run: Run, save: Save | None = None, advance: Advance | None = None) -> RunResult:
    """Make one run, and write its record where that is wanted."""
    factory = load_card_policy(run.policy.name)
    done = 0.0

    def progress(arrivals: int) -> None:
        nonlocal done
        share = arrivals / max(len(trace.arrivals), 1)
        if advance is not None:
            advance(share - done)
        done = share

    record = replay(trace, factory, option=run.policy.option, seed=run.seed, informed=run.informed, progress=progress)
    if save is not None:
        from bayplan.simulate.records import write_record

        write_record(trace, record, save.folder, str(run), save.form)
    return result(trace, record, str(run.policy), run.seed, informed=run.informed)


def parse_seeds(texts: Sequence[str]) -> tuple[int, ...]:
    """`42`, `42-46` or `42..46`, several with commas, each once, in the order in which they are named.

    Raises `InputError`.
    """
    seeds: dict[int, None] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        first, dash, last = part.replace("..", "-").partition("-")
        numbers = [first, last] if dash else [first]
        if not all(number.isascii() and number.isdigit() and len(number) < MOST_DIGITS for number in numbers):
            raise InputError("not a seed", source="--seed", value=part, expected="like 42, or 42-46")
        span = range(int(first), int(numbers[-1]) + 1)
        if not 0 < len(span) <= MOST_SEEDS:
            raise InputError("not a range of seeds", source="--seed", value=part, expected=f"1 to {MOST_SEEDS} of them")
        seeds.update(dict.fromkeys(span))
    return tuple(seeds)
