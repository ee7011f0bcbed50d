"""What leftovers and idle cards are worth, and what they would take up, held against what is written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fleet.cards.values import written_out

from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.values.kinds import STEPS, PricedKinds
from bayplan.fleet.cards.values.leftovers import Leftovers, profits
from bayplan.fleet.cards.values.whole_cards import WholeCards

TAU = 0.02
PRICES = np.array([0.0, 0.01, 0.05])
KINDS = st.dictionaries(
    st.one_of(
        st.builds(
            PodKind, st.integers(0, 30_000), st.integers(1, 1000), st.just(1), st.sampled_from([(), ("a",), ("b",)])
        ),
        st.builds(
            PodKind, st.integers(0, 90_000), st.just(1000), st.sampled_from([2, 3, 8]), st.sampled_from([(), ("a",)])
        ),
        st.builds(PodKind, st.integers(0, 9_000), st.just(0), st.just(0), st.just(())),
    ),
    st.integers(1, 50),
    min_size=1,
    max_size=8,
)


def single(kinds: PricedKinds, table: int, price: float) -> list[tuple[float, float, int]]:
    """(weight, profit, size) of the single kinds that a table admits; others bring nothing."""
    share = kinds.share[kinds.single]
    rows = zip(kinds.kinds, share / max(share.sum(), 1e-300), kinds.admitted[table], strict=False)
    return [
        (0.9 * float(w), written_out.face(k) - price * k.cpu_milli / 1000 if ok else -1.0, written_out.size(k))
        for k, w, ok in rows
    ]


def tables(kinds: PricedKinds) -> tuple[object, np.ndarray, np.ndarray]:
    share = kinds.share[kinds.single]
    profit = kinds.gpus - PRICES[:, None] * kinds.cpu
    found = profits(kinds, 0.9 * share / max(float(share.sum()), 1e-300), profit[:, kinds.single], TAU)
    return found, Leftovers(kinds).raised(found), profit


@given(KINDS)
@settings(max_examples=40)
def test_leftovers_are_worth_what_is_written_out(counts: dict[PodKind, int]) -> None:
    kinds = PricedKinds(counts, ("a", "b"))
    _, raised, _ = tables(kinds)
    for table in range(len(kinds.admitted)):
        for place, price in enumerate(PRICES.tolist()):
            wanted = written_out.leftovers(single(kinds, table, price), TAU)
            assert TAU * np.log(raised[table, place]) == pytest.approx(wanted, abs=1e-9)


@given(KINDS, st.integers(1, STEPS), st.integers(0, 2))
@settings(max_examples=40)
def test_a_leftover_takes_up_what_is_written_out(counts: dict[PodKind, int], left: int, place: int) -> None:
    kinds = PricedKinds(counts, ("a", "b"))
    found, raised, _ = tables(kinds)
    for table in range(len(kinds.admitted)):
        held = np.zeros_like(raised)
        held[table, place, left] = 1.0
        wanted = written_out.taken(single(kinds, table, float(PRICES[place])), TAU, left)
        supply = Leftovers(kinds).supply(found, raised, held)  # type: ignore[arg-type]
        assert supply == pytest.approx(wanted, abs=1e-9)


@given(KINDS)
@settings(max_examples=40)
def test_idle_cards_are_worth_what_is_written_out(counts: dict[PodKind, int]) -> None:
    kinds = PricedKinds(counts, ("a", "b"))
    _, raised, profit = tables(kinds)
    one = TAU * np.log(raised[:, :, -1])
    worth = WholeCards(kinds, 8).worth(one, profit, TAU)
    for table in range(len(kinds.admitted)):
        for place in range(len(PRICES)):
            gains = {1: (float((kinds.share * kinds.gpus)[kinds.cards == 1].sum()), float(one[table, place]))}
            for number in (2, 3, 8):
                those = (kinds.cards == number) & kinds.admitted[table]
                best = float(profit[place][those].max(initial=0.0))
                gains[number] = (float(kinds.share[kinds.cards == number].sum()), best)
            wanted = written_out.idle_cards(gains, 8, TAU)
            assert worth.values[table, place] == pytest.approx(wanted, abs=1e-6)


@given(KINDS, st.integers(0, 8))
@settings(max_examples=40)
def test_idle_cards_take_up_no_more_than_there_are(counts: dict[PodKind, int], idle: int) -> None:
    kinds = PricedKinds(counts, ("a",))
    _, raised, profit = tables(kinds)
    whole = WholeCards(kinds, 8)
    worth = whole.worth(TAU * np.log(raised[:, :, -1]), profit, TAU)
    held = np.zeros((1, len(PRICES), 9))
    held[0, 0, idle] = 1.0
    singles, several = whole.supply(worth, held)
    used = float(singles.sum()) + float((several * kinds.cards).sum())
    assert -1e-9 <= used <= idle + 1e-9
    assert (several[kinds.cards == 1] == 0).all()
