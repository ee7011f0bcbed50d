"""Whole runs on a small made-up trace: the same every time, to the pod."""

from __future__ import annotations

import pytest

from bayplan.fleet.cards.dialects import KNOWN
from bayplan.simulate.result import RunResult
from bayplan.simulate.run import PolicyName, Run, run_one
from bayplan.simulate.sources import TraceSource, Wishes, open_nodes
from bayplan.simulate.trace import Trace

SEED = 1


@pytest.fixture(scope="module")
def trace() -> Trace:
    source = TraceSource(
        open_nodes("preset:small/nodes.csv"), Wishes("preset:small/pods.csv"), KNOWN, lambda note: None
    )
    return source.trace(SEED)


def played(trace: Trace, policy: str, *, informed: bool = True) -> RunResult:
    return run_one(trace, Run(PolicyName.parse(policy), SEED, informed))


@pytest.mark.parametrize(
    ("policy", "informed", "allocated", "failed"),
    [
        ("values", True, 99.4104, 143),
        ("values:power", True, 99.4917, 156),
        ("values:learning", True, 99.4667, 143),
        ("values:admission", True, 99.4104, 143),
        ("values", False, 99.225, 143),
    ],
)
def test_what_is_allocated_in_the_end_is_what_was_written_down(
    trace: Trace, policy: str, informed: bool, allocated: float, failed: int
) -> None:
    """A change of the method or of its bits shows here; a better one may change the numbers."""
    found = played(trace, policy, informed=informed)
    assert found.final_allocation_percent == pytest.approx(allocated, abs=1e-6)
    assert found.failed == failed


def test_more_is_allocated_than_by_the_policies_of_the_literature(trace: Trace) -> None:
    own = played(trace, "values").final_allocation_percent
    assert own > max(played(trace, name).final_allocation_percent for name in ("bestfit", "fgd"))


def test_power_mode_draws_no_more_while_half_of_the_cards_are_asked_for(trace: Trace) -> None:
    plain, saving = played(trace, "values").power_kw, played(trace, "values:power").power_kw
    for load in ("30", "40", "50"):
        assert saving[load] <= plain[load]
    assert saving["50"] < plain["50"]
