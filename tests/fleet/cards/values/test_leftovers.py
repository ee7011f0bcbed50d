"""What leftovers are worth and take up at the edges: no kinds, the smallest and the largest parts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.fleet.cards.values import written_out

from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.state import Floats
from bayplan.fleet.cards.values.kinds import STEPS, PricedKinds
from bayplan.fleet.cards.values.leftovers import Leftovers, Profits, profits

TAU, STOP = 0.05, 0.01
CPU_PRICES: Floats = np.array([0.0, 0.004, 0.05])


def worked_out(counts: dict[PodKind, float]) -> tuple[PricedKinds, Profits, Floats]:
    """At face values."""
    kinds = PricedKinds(counts, ("a",))
    share = kinds.share[kinds.single]
    weights: Floats = (1 - STOP) * share / max(float(share.sum()), 1e-300)
    profit = kinds.gpus - CPU_PRICES[:, None] * kinds.cpu
    found = profits(kinds, weights, profit[:, kinds.single], TAU)
    return kinds, found, Leftovers(kinds).raised(found)


@pytest.mark.parametrize("counts", [{}, {PodKind(8000, 1000, 4, ()): 3.0}, {PodKind(4000, 0, 0, ()): 5.0}])
def test_without_kinds_of_one_card_leftovers_are_worth_nothing(counts: dict[PodKind, float]) -> None:
    kinds, found, raised = worked_out(counts)
    assert raised.shape == (1, len(CPU_PRICES), STEPS + 1)
    assert (raised == 1).all()
    assert Leftovers(kinds).supply(found, raised, np.ones_like(raised)).tolist() == []


def test_a_kind_of_a_whole_card_gives_worth_to_whole_cards_only() -> None:
    kinds, found, raised = worked_out({PodKind(0, 1000, 1, ()): 1.0})
    assert (raised[:, :, :STEPS] == 1).all()
    assert TAU * math.log(raised[0, 0, STEPS]) == pytest.approx(1 + TAU * math.log(1 - STOP))
    # One card at each of three CPU prices; the kind asks for no CPU.
    taken = Leftovers(kinds).supply(found, raised, np.ones_like(raised))
    assert taken.tolist() == pytest.approx([3.0], rel=1e-6)


def test_parts_below_one_step_fill_a_card_step_by_step() -> None:
    kinds, found, raised = worked_out({PodKind(0, 3, 1, ()): 1.0})
    assert kinds.sizes.tolist() == [1]
    wanted = written_out.leftovers([(1 - STOP, 0.003, 1)], TAU)
    assert TAU * np.log(raised[0, 0]) == pytest.approx(wanted, rel=1e-9)
    held = np.zeros_like(raised)
    held[0, 0, STEPS] = 1
    taken = Leftovers(kinds).supply(found, raised, held)
    assert taken == pytest.approx(written_out.taken([(1 - STOP, 0.003, 1)], TAU, STEPS), rel=1e-9)


def test_parts_just_above_a_step_take_the_next_one() -> None:
    kinds, _, raised = worked_out({PodKind(0, 501, 1, ()): 1.0})
    assert kinds.sizes.tolist() == [51]
    assert raised[0, 0, 50] == 1
    assert raised[0, 0, 51] > 1


def test_nothing_is_taken_by_what_costs_more_cpu_than_it_brings() -> None:
    hungry, modest = PodKind(32000, 500, 1, ()), PodKind(0, 500, 1, ())
    kinds, found, raised = worked_out({hungry: 1.0, modest: 1.0})
    held = np.zeros_like(raised)
    held[0, 2, STEPS] = 1
    taken = dict(zip(kinds.kinds, Leftovers(kinds).supply(found, raised, held).tolist(), strict=True))
    assert taken[hungry] == 0
    assert taken[modest] > 1.9
