"""Bayplan's own card policy reaches what is told of it in docs/cards.md, on the openb trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from bayplan.files.plugins import load_card_policy
from bayplan.simulate.replay import replay
from bayplan.simulate.result import RunResult, result

SEED = 42


@pytest.fixture(scope="module")
def runner(program: Callable[[str], ModuleType]) -> ModuleType:
    return program("openb")


def played(runner: ModuleType, openb_data: Path, name: str, *, informed: bool = True) -> RunResult:
    trace = runner.trace_of(openb_data, name, SEED)
    record = replay(trace, load_card_policy("values"), seed=SEED, informed=informed)
    return result(trace, record, "values", SEED, informed=informed)


@pytest.mark.parametrize(("name", "at_100", "at_130"), [("default", 96.2, 96.3), ("multigpu50", 97.7, 97.8)])
def test_so_much_of_all_cards_is_given_out(
    name: str, at_100: float, at_130: float, runner: ModuleType, openb_data: Path
) -> None:
    found = played(runner, openb_data, name).allocation_percent
    assert found["100"] >= at_100
    assert found["130"] >= at_130


def test_little_is_lost_where_the_mix_is_not_known_beforehand(runner: ModuleType, openb_data: Path) -> None:
    informed, learnt = (
        played(runner, openb_data, "default", informed=known).allocation_percent for known in (True, False)
    )
    for load in ("100", "130"):
        assert learnt[load] >= informed[load] - 0.3
