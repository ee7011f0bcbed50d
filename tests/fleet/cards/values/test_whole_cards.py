"""What idle cards of one node are worth together and take up: by hand, and where values lie far apart."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fleet.cards.values import written_out

from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.state import Floats
from bayplan.fleet.cards.values.kinds import PricedKinds
from bayplan.fleet.cards.values.whole_cards import WholeCards, Worth

TAU = 0.0077
Parts = Mapping[int, float]


def pod(cards: int, models: tuple[str, ...] = ()) -> PodKind:
    return PodKind(0, 1000, cards, models)


class Node:
    """Nodes of `most` cards of one model; `parts` of their face value are what kinds bring, by number of cards.

    A whole leftover is worth what the kind of one card brings.
    """

    def __init__(self, counts: Mapping[int, int], parts: Parts, most: int, tau: float = TAU) -> None:
        self.kinds = PricedKinds({pod(cards): count for cards, count in counts.items()}, ("a",))
        self.most, self.tau = most, tau
        profit: Floats = np.array([[parts[kind.cards] * kind.cards for kind in self.kinds.kinds]])
        total = sum(counts.values())
        self.gains = {cards: (count / total, parts[cards] * cards) for cards, count in counts.items()}
        self.whole = WholeCards(self.kinds, most)
        one = np.array([[parts[1] if 1 in counts else 0.0]])
        self.worth: Worth = self.whole.worth(one, profit, tau)

    def taken(self, idle: int) -> dict[int, float]:
        """By number of cards, how many pods one node with so many idle cards takes up."""
        held = np.zeros((1, 1, self.most + 1))
        held[0, 0, idle] = 1
        singles, several = self.whole.supply(self.worth, held)
        found = dict(zip(self.kinds.cards.tolist(), several.tolist(), strict=True))
        return {**found, 1: float(singles.sum())} if 1 in found else found


NODES = st.builds(
    Node,
    st.dictionaries(st.sampled_from((1, 2, 3, 4, 8, 16)), st.integers(1, 50), min_size=1),
    st.fixed_dictionaries({cards: st.floats(0.1, 1) for cards in (1, 2, 3, 4, 8, 16)}),
    st.sampled_from((1, 4, 8, 16)),
    st.sampled_from((0.0077, 0.05)),
)


@given(NODES)
def test_idle_cards_are_worth_what_is_written_out_however_far_values_lie_apart(node: Node) -> None:
    wanted = written_out.idle_cards(node.gains, node.most, node.tau)
    assert node.worth.values[0, 0] == pytest.approx(wanted, rel=1e-10, abs=1e-10)


@given(NODES, st.integers(0, 16))
def test_idle_cards_take_up_what_is_written_out(node: Node, idle: int) -> None:
    idle = min(idle, node.most)
    assert node.taken(idle) == pytest.approx(written_out.used(node.gains, idle, node.tau), abs=1e-8)


def test_cards_that_only_a_pod_of_all_of_them_takes_are_worth_nothing_before() -> None:
    node = Node({8: 1}, {8: 1.0}, 8)
    assert node.worth.values[0, 0].tolist() == pytest.approx([0.0] * 8 + [8.0], abs=1e-10)


def test_a_very_wide_node_does_not_overflow() -> None:
    node = Node({256: 1, 1: 1}, {256: 1.0, 1: 0.1}, 256)
    assert node.worth.values[0, 0, 255] == pytest.approx(25.5)
    assert node.worth.values[0, 0, 256] == pytest.approx(256, abs=0.01)


def test_cheap_single_cards_are_worth_no_more_beside_a_dear_pod_of_many() -> None:
    node = Node({1: 3, 16: 1}, {1: 0.1, 16: 1.0}, 16)
    values = node.worth.values[0, 0]
    assert np.diff(values)[:15].tolist() == pytest.approx([0.1] * 15)
    assert values[16] == pytest.approx(16, abs=0.02)


def test_pods_of_three_cards_leave_what_is_over() -> None:
    node = Node({3: 1}, {3: 1.0}, 8)
    assert node.worth.values[0, 0].tolist() == pytest.approx([0, 0, 0, 3, 3, 3, 6, 6, 6], abs=1e-9)
    assert node.taken(8) == pytest.approx({3: 2.0})
    assert node.taken(2) == {3: 0.0}


def test_every_idle_card_is_used_where_single_cards_bring_something() -> None:
    node = Node({1: 3, 3: 1}, {1: 1.0, 3: 1.0}, 8)
    taken = node.taken(8)
    assert taken[1] > 0
    assert taken[3] > 0
    assert taken[1] + 3 * taken[3] == pytest.approx(8)


def test_kinds_wider_than_any_node_count_for_nothing() -> None:
    alone, beside = Node({1: 1}, {1: 0.5}, 2), Node({1: 1, 4: 9}, {1: 0.5, 4: 1.0}, 2)
    assert alone.worth.values.tolist() == beside.worth.values.tolist()


def test_of_kinds_with_equally_many_cards_the_best_one_that_a_model_admits_comes() -> None:
    counts = {pod(2, ("a",)): 1, pod(2, ("b",)): 1, pod(2, ("a", "b")): 1}
    kinds = PricedKinds(counts, ("a", "b", "c"))
    price = {("a",): 0.9, ("b",): 0.5, ("a", "b"): 0.7}
    whole = WholeCards(kinds, 2)
    profit: Floats = np.array([[price[kind.models] for kind in kinds.kinds]])
    worth = whole.worth(np.zeros((3, 1)), profit, TAU)
    held = np.zeros((3, 1, 3))
    held[:, :, 2] = 1
    _, taken = whole.supply(worth, held)
    assert [worth.values[table, 0, 2] for table in kinds.table_of_model] == pytest.approx([0.9, 0.7, 0.0])
    assert dict(zip((kind.models for kind in kinds.kinds), taken.tolist(), strict=True)) == pytest.approx(
        {("a",): 1.0, ("b",): 0.0, ("a", "b"): 1.0}
    )
