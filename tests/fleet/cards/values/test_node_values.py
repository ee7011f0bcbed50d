"""What nodes are worth, one at a time; and what did not change is not worked out anew."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.fleet.cards.generator import Generator
from bayplan.fleet.cards.model import WHOLE, CardNode, CardRequest, Spot
from bayplan.fleet.cards.state import CardFleet, Floats, Ints
from bayplan.fleet.cards.values.kinds import STEPS
from bayplan.fleet.cards.values.node_values import NodeValues, ValueRows, value_rows

PRICES: Floats = np.array([0.0, 0.004, 0.07])
TABLES = 2
WIDTHS = (4, 0, 2, 1, 4)


def random_values(draws: Generator, most: int) -> tuple[Floats, Floats]:
    """Of leftovers and of idle cards, worth nothing where there are none."""

    def drawn(count: int) -> Floats:
        found: Floats = np.array([draws.unit() for _ in range(TABLES * len(PRICES) * count)])
        found = found.reshape(TABLES, len(PRICES), count)
        found[:, :, 0] = 0
        return found

    return drawn(STEPS + 1), drawn(most + 1)


class Worked:
    """A fleet that a seed filled in some way, and the values of its nodes."""

    def __init__(self, seed: int) -> None:
        self.draws = Generator(seed)
        nodes = [
            CardNode(name=f"n{i}", cpu_milli=5000 * (i + 1), memory_bytes=0, cards=cards, model="a")
            for i, cards in enumerate(WIDTHS)
        ]
        self.fleet = CardFleet(nodes)
        self.taken: list[tuple[Spot, CardRequest]] = []
        self.table: Ints = np.array([self.draws.below(TABLES) for _ in nodes], np.int64)
        self.single, self.whole = random_values(self.draws, max(WIDTHS))
        self.values: ValueRows = value_rows(self.single, self.whole)
        self.nodes = NodeValues(self.fleet, PRICES)

    def change(self, times: int) -> None:
        for _ in range(times):
            if self.taken and not self.draws.below(3):
                self.fleet.give_back(*self.taken.pop(self.draws.below(len(self.taken))))
                continue
            node = self.draws.below(len(WIDTHS))
            milli, cpu = 1 + self.draws.below(WHOLE), self.draws.below(400)
            for card in np.flatnonzero(self.fleet.left[node] >= milli)[:1].tolist():
                if self.fleet.cpu_free[node] >= cpu:
                    request = CardRequest(cpu_milli=cpu, memory_bytes=0, cards=1, milli=milli)
                    self.fleet.take(Spot(node, (card,)), request)
                    self.taken.append((Spot(node, (card,)), request))

    def slow(self, node: int, place: int) -> float:
        """The bracket at one CPU price."""
        left, table = self.fleet.left[node].tolist(), int(self.table[node])
        total = float(PRICES[place]) * int(self.fleet.cpu_free[node]) / 1000
        total += float(self.whole[table, place, left.count(WHOLE)])
        return total + sum(float(self.single[table, place, milli // 10]) for milli in left if milli < WHOLE)


@given(st.integers(0, 2**32), st.integers(0, 25))
def test_the_worth_of_a_node_is_that_of_its_parts_at_the_best_price(seed: int, changes: int) -> None:
    worked = Worked(seed)
    worked.change(changes)
    worked.nodes.renew(worked.table, worked.values, everything=True)
    wanted = [[worked.slow(node, place) for place in range(len(PRICES))] for node in range(len(WIDTHS))]
    np.testing.assert_allclose(worked.nodes.base, wanted, rtol=1e-12)
    assert worked.nodes.value.tolist() == worked.nodes.base.min(axis=1).tolist()
    assert worked.nodes.price.tolist() == [row.index(min(row)) for row in worked.nodes.base.tolist()]


@given(st.integers(0, 2**32), st.lists(st.integers(0, 6), max_size=6))
@settings(max_examples=50)
def test_renewing_what_changed_comes_to_the_same_bits_as_renewing_everything(seed: int, changes: list[int]) -> None:
    worked = Worked(seed)
    for times in changes:
        worked.nodes.renew(worked.table, worked.values, everything=False)
        worked.change(times)
    worked.nodes.renew(worked.table, worked.values, everything=False)
    fresh = NodeValues(worked.fleet, PRICES)
    fresh.renew(worked.table, worked.values, everything=True)
    assert worked.nodes.base.tolist() == fresh.base.tolist()
    assert worked.nodes.value.tolist() == fresh.value.tolist()
    assert worked.nodes.price.tolist() == fresh.price.tolist()
    for found, wanted in zip(worked.nodes.held(worked.table, TABLES), fresh.held(worked.table, TABLES), strict=True):
        assert found.tolist() == wanted.tolist()


def test_only_nodes_that_changed_are_worked_out_again() -> None:
    worked = Worked(1)
    worked.nodes.renew(worked.table, worked.values, everything=False)
    before = worked.nodes.base.copy()
    doubled = worked.values._replace(rows=worked.values.rows * 2)
    worked.fleet.take(Spot(3, (0,)), CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=300))
    worked.nodes.renew(worked.table, doubled, everything=False)
    assert np.flatnonzero((worked.nodes.base != before).any(axis=1)).tolist() == [3]
    worked.nodes.renew(worked.table, doubled, everything=True)
    assert (worked.nodes.base != before).any(axis=1).tolist() == [width > 0 for width in WIDTHS]


@given(st.integers(0, 2**32), st.integers(0, 25))
def test_leftovers_and_idle_cards_are_counted_at_the_price_of_their_node(seed: int, changes: int) -> None:
    worked = Worked(seed)
    worked.change(changes)
    worked.nodes.renew(worked.table, worked.values, everything=True)
    single: Counter[tuple[int, int, int]] = Counter()
    whole: Counter[tuple[int, int, int]] = Counter()
    for node, (table, price) in enumerate(zip(worked.table.tolist(), worked.nodes.price.tolist(), strict=True)):
        left = worked.fleet.left[node].tolist()
        whole[table, price, left.count(WHOLE)] += 1
        single.update((table, price, milli // 10) for milli in left if 0 < milli < WHOLE)
    held, idle = worked.nodes.held(worked.table, TABLES)
    assert {
        place: int(held[place]) for place in zip(*(axis.tolist() for axis in held.nonzero()), strict=True)
    } == single
    assert {place: int(idle[place]) for place in zip(*(axis.tolist() for axis in idle.nonzero()), strict=True)} == whole


def test_a_fleet_of_no_nodes_has_no_values() -> None:
    nodes = NodeValues(CardFleet([]), PRICES)
    single, whole = random_values(Generator(1), 0)
    nodes.renew(np.zeros(0, np.int64), value_rows(single, whole), everything=True)
    assert nodes.value.shape == (0,)
    held, idle = nodes.held(np.zeros(0, np.int64), TABLES)
    assert held.shape == (TABLES, len(PRICES), STEPS + 1)
    assert idle.shape == (TABLES, len(PRICES), 1)
    assert held.sum() == idle.sum() == 0
