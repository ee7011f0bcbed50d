"""The fleet's arrays: what coming and going does to them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.fleet.cards.fragmentation import Fragmentation
from bayplan.fleet.cards.mix import Typical, kind_of
from bayplan.fleet.cards.model import CardNode, CardRequest, Spot
from bayplan.fleet.cards.power import PowerModel
from bayplan.fleet.cards.state import CardFleet, idle_cards, tightest_card

NODES = [
    CardNode(name="a", cpu_milli=8000, memory_bytes=100, cards=4, model="T4"),
    CardNode(name="b", cpu_milli=4000, memory_bytes=100, cards=1, model="G2"),
    CardNode(name="c", cpu_milli=4000, memory_bytes=100, model="G2"),
]
HALF = CardRequest(cpu_milli=1000, memory_bytes=10, cards=1, milli=500)
TWO = CardRequest(cpu_milli=1000, memory_bytes=10, cards=2, milli=1000)
PLAIN = CardRequest(cpu_milli=1000, memory_bytes=10)


@pytest.fixture
def fleet() -> CardFleet:
    return CardFleet(NODES)


def standing(fleet: CardFleet) -> list[object]:
    arrays = (fleet.cpu_free, fleet.memory_free, fleet.left, fleet.idle, fleet.most_left, fleet.pods)
    return [*(array.tolist() for array in arrays), fleet.allocated_milli]


def test_pods_are_counted_by_class(fleet: CardFleet) -> None:
    fleet.take(Spot(0, (1,)), HALF)
    fleet.take(Spot(0, (1,)), HALF)
    fleet.take(Spot(0, (2, 3)), TWO)
    fleet.take(Spot(0), PLAIN)
    assert fleet.pods.tolist() == [[2, 0, 1, 0, 0], [0] * 5, [0] * 5]
    assert fleet.left.tolist() == [[1000, 0, 0, 0], [1000, 0, 0, 0], [0] * 4]
    assert (fleet.idle.tolist(), fleet.most_left.tolist()) == ([1, 1, 0], [1000, 1000, 0])
    assert (fleet.cpu_free.tolist(), fleet.memory_free.tolist()) == ([4000, 4000, 4000], [60, 100, 100])
    assert (fleet.allocated_milli, fleet.capacity_milli) == (3000, 5000)


@pytest.mark.parametrize(
    ("spot", "pod"),
    [
        (Spot(0), HALF),
        (Spot(0, (0, 1)), HALF),
        (Spot(0, (0,)), TWO),
        (Spot(0, (0, 0)), TWO),
        (Spot(0, (0,)), PLAIN),
        (Spot(0, (4,)), HALF),
        (Spot(0, (-1,)), HALF),
        (Spot(1, (1,)), HALF),
        (Spot(2, (0,)), HALF),
        (Spot(3), PLAIN),
        (Spot(-1), PLAIN),
        (Spot(1), CardRequest(cpu_milli=4001, memory_bytes=0)),
        (Spot(1), CardRequest(cpu_milli=0, memory_bytes=101)),
    ],
)
def test_what_does_not_fit_changes_nothing(fleet: CardFleet, spot: Spot, pod: CardRequest) -> None:
    before = standing(fleet)
    with pytest.raises(ValueError, match=r"is no place for|cannot go to"):
        fleet.take(spot, pod)
    assert standing(fleet) == before
    assert fleet.version == 0


def test_only_what_was_taken_can_be_given_back(fleet: CardFleet) -> None:
    fleet.take(Spot(0, (0, 1)), TWO)
    before = standing(fleet)
    for spot, pod in [
        (Spot(1, (0,)), HALF),
        (Spot(0, (0,)), CardRequest(cpu_milli=1000, memory_bytes=10, cards=1, milli=1000)),
        (Spot(0, (0,)), HALF),
        (Spot(0), CardRequest(cpu_milli=1001, memory_bytes=10)),
    ]:
        with pytest.raises(ValueError, match="was not at"):
            fleet.give_back(spot, pod)
    assert standing(fleet) == before


requests = st.sampled_from([HALF, TWO, PLAIN, CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=1000)])


@given(st.lists(st.tuples(requests, st.integers(0, 2), st.sets(st.integers(0, 3), max_size=2)), max_size=30), st.data())
def test_when_all_have_left_all_is_as_at_the_start(
    wishes: list[tuple[CardRequest, int, set[int]]], data: st.DataObject
) -> None:
    fleet = CardFleet(NODES)
    start, there = standing(fleet), []
    for pod, node, cards in wishes:
        spot = Spot(node, tuple(sorted(cards)))
        try:
            fleet.take(spot, pod)
        except ValueError:
            continue
        there.append((spot, pod))
        assert fleet.idle.tolist() == np.count_nonzero(fleet.left == 1000, axis=1).tolist()
        assert fleet.most_left.tolist() == fleet.left.max(1).tolist()
        assert fleet.allocated_milli == fleet.capacity_milli - fleet.left.sum()
        assert fleet.pods.sum() == sum(other.cards > 0 for _, other in there)
    while there:
        fleet.give_back(*there.pop(data.draw(st.integers(0, len(there) - 1))))
    assert standing(fleet) == start


def test_changes_are_told_by_version(fleet: CardFleet) -> None:
    start = fleet.version
    fleet.take(Spot(0, (0,)), HALF)
    first = fleet.version
    fleet.take(Spot(2), PLAIN)
    assert fleet.changed_since(start).tolist() == [0, 2]
    assert fleet.changed_since(first).tolist() == [2]
    assert fleet.changed_since(fleet.version).tolist() == []
    fleet.give_back(Spot(0, (0,)), HALF)
    assert fleet.changed_since(first).tolist() == [0, 2]


def test_room_needs_cpu_memory_model_and_cards(fleet: CardFleet) -> None:
    def room(**fields: object) -> list[bool]:
        plain: dict[str, object] = {"cpu_milli": 0, "memory_bytes": 0}
        found: list[bool] = fleet.feasible(CardRequest(**{**plain, **fields})).tolist()  # type: ignore[arg-type]
        return found

    assert room() == [True, True, True]
    assert room(cpu_milli=4001) == [True, False, False]
    assert room(memory_bytes=101) == [False, False, False]
    assert room(cards=1, milli=10) == [True, True, False]
    assert room(cards=1, milli=10, models=("G2",)) == [False, True, False]
    assert room(cards=2, milli=1000) == [True, False, False]
    for card in range(4):
        fleet.take(Spot(0, (card,)), CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=100 * (card + 1)))
    assert room(cards=1, milli=900) == [True, True, False]
    assert room(cards=1, milli=901) == [False, True, False]
    assert room(cards=1, milli=1000) == [False, True, False]


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="two nodes of one name"):
        CardFleet([NODES[0], NODES[1], NODES[0]])


def test_cards_are_chosen_lowest_first() -> None:
    left = np.array([400, 1000, 300, 300, 1000])
    assert tightest_card(left, 200) == 2
    assert tightest_card(left, 350) == 0
    assert tightest_card(left, 500) == 1
    assert idle_cards(left, 2) == (1, 4)


def test_states_of_a_node_stand_beside_each_other_and_are_measured_as_the_node_itself(fleet: CardFleet) -> None:
    nodes, cpu, left = [], [], []
    expected: list[list[float]] = []
    mix = [Typical(kind_of(HALF), 0.5), Typical(kind_of(TWO), 0.5)]
    for spot, pod in ((Spot(0, (1,)), HALF), (Spot(1, (0,)), HALF), (Spot(0, (2, 3)), TWO), (Spot(2), PLAIN)):
        fleet.take(spot, pod)
        nodes.append(spot.node)
        cpu.append(int(fleet.cpu_free[spot.node]))
        left.append(fleet.left[spot.node].tolist())
        here = np.array([spot.node])
        watts = PowerModel(fleet).watts(here)
        expected.append([float(Fragmentation(fleet, mix).amounts(here)[0]), float(watts[0][0]), float(watts[1][0])])
    states = fleet.in_states(np.array(nodes), np.array(cpu), np.array(left))
    every = np.arange(len(nodes))
    cpu_w, gpu_w = PowerModel(states).watts(every)
    assert np.column_stack([Fragmentation(states, mix).amounts(every), cpu_w, gpu_w]).tolist() == expected
    assert states.idle.tolist() == [3, 0, 1, 0]
    assert states.most_left.tolist() == [1000, 500, 1000, 0]
    states.left[:] = 0
    assert fleet.left.sum() == 2000
