"""What a fleet draws: the published figures of the whole one part at a time, and what a placement would add."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.fleet.cards.mix import kind_of
from bayplan.fleet.cards.model import CardNode, CardRequest, Spot
from bayplan.fleet.cards.power import OPENB, CardPower, PowerModel, PowerTable, SocketPower
from bayplan.fleet.cards.state import CardFleet

EVERY = np.array([0, 1, 2])


@pytest.fixture
def fleet() -> CardFleet:
    return CardFleet(
        [
            CardNode(name="a", cpu_milli=96_000, memory_bytes=0, cards=8, model="G2"),
            CardNode(name="b", cpu_milli=82_000, memory_bytes=0, cards=2, model="T4"),
            CardNode(name="c", cpu_milli=8_000, memory_bytes=0, cards=1, model="H100"),
        ]
    )


def test_idle_nodes_draw_idle_power_by_socket_and_card(fleet: CardFleet) -> None:
    cpu, cards = PowerModel(fleet).watts(EVERY)
    assert cpu.tolist() == [3 * 15, 3 * 15, 15]
    assert cards.tolist() == [8 * 30, 2 * 10, 30]


def test_any_part_of_a_card_or_socket_counts_as_the_whole(fleet: CardFleet) -> None:
    power = PowerModel(fleet)
    fleet.take(Spot(0, (3,)), CardRequest(cpu_milli=1, memory_bytes=0, cards=1, milli=1))
    fleet.take(Spot(1, (0, 1)), CardRequest(cpu_milli=32_001, memory_bytes=0, cards=2, milli=1000))
    cpu, cards = power.watts(EVERY)
    assert cpu.tolist() == [120 + 2 * 15, 2 * 120 + 15, 15]
    assert cards.tolist() == [7 * 30 + 150, 2 * 70, 30]
    fleet.give_back(Spot(0, (3,)), CardRequest(cpu_milli=1, memory_bytes=0, cards=1, milli=1))
    cpu, cards = power.watts(np.array([0]))
    assert (cpu.tolist(), cards.tolist()) == ([45], [240])


def test_models_that_the_table_does_not_know_are_told_and_draw_what_the_table_says_of_others(fleet: CardFleet) -> None:
    table = PowerTable(cards={"T4": CardPower(1, 2)}, other=CardPower(100.5, 700), socket=SocketPower(10, 50, cores=4))
    power = PowerModel(fleet, table)
    assert power.unknown == ("G2", "H100")
    assert PowerModel(fleet, OPENB).unknown == ("H100",)
    cpu, cards = power.watts(EVERY)
    assert cards.tolist() == [8 * 100.5, 2, 100.5]
    assert cpu.tolist() == [12 * 10, 11 * 10, 10]


requests = st.one_of(
    st.builds(CardRequest, cpu_milli=st.integers(0, 9000), memory_bytes=st.just(0)),
    st.builds(
        CardRequest,
        cpu_milli=st.integers(0, 9000),
        memory_bytes=st.just(0),
        cards=st.just(1),
        milli=st.integers(1, 999),
    ),
    st.builds(
        CardRequest,
        cpu_milli=st.integers(0, 9000),
        memory_bytes=st.just(0),
        cards=st.integers(1, 3),
        milli=st.just(1000),
    ),
)


@given(st.integers(0, 70_000), st.lists(st.tuples(st.integers(0, 2), requests), max_size=6), requests)
def test_what_a_placement_adds_is_what_is_drawn_after_it(
    cpu_milli: int, before: list[tuple[int, CardRequest]], pod: CardRequest
) -> None:
    fleet = CardFleet([CardNode(name="a", cpu_milli=cpu_milli, memory_bytes=0, cards=3, model="G3")])
    power, node = PowerModel(fleet), np.array([0])
    for card, other in before:
        idle = [c for c in range(3) if fleet.left[0, c] == 1000][: other.cards]
        if fleet.feasible(other)[0] and (not other.is_shared or fleet.left[0, card] >= other.milli):
            fleet.take(Spot(0, (card,) if other.is_shared else tuple(idle)), other)
    if not fleet.feasible(pod)[0]:
        return
    more = power.more_watts(kind_of(pod), node)[0]
    drawn = sum(float(watts[0]) for watts in power.watts(node))
    room = [c for c in range(3) if fleet.left[0, c] >= (pod.milli or 1)]
    for cards in [(card,) for card in room] if pod.is_shared else [tuple(room[: pod.cards])]:
        fleet.take(Spot(0, cards), pod)
        assert sum(float(watts[0]) for watts in power.watts(node)) == drawn + more[cards[0] if pod.is_shared else 0]
        fleet.give_back(Spot(0, cards), pod)


@pytest.mark.parametrize(("idle", "full"), [(-1, 5), (10, 5), (math.nan, 5), (1, math.nan), (0, math.inf)])
def test_what_is_no_power_is_refused(idle: float, full: float) -> None:
    with pytest.raises(InputError, match="no power"):
        CardPower(idle, full)
    with pytest.raises(InputError, match="no power"):
        SocketPower(idle, full, cores=4)


@pytest.mark.parametrize(("cores", "per_core"), [(0, 2000), (4, 0), (-1, 1)])
def test_a_socket_needs_cores(cores: int, per_core: int) -> None:
    with pytest.raises(InputError, match="without cores"):
        SocketPower(1, 2, cores=cores, cpu_milli_per_core=per_core)


def test_a_table_can_be_read_as_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(OPENB), type=PowerTable) == OPENB
