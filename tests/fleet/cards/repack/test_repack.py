from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.fleet.cards.mix import counted, typical
from bayplan.fleet.cards.model import CardNode, CardRequest, Spot
from bayplan.fleet.cards.repack import search
from bayplan.fleet.cards.repack.board import Board
from bayplan.fleet.cards.repack.gauge import Gauge, IdleCards, UsableShare
from bayplan.fleet.cards.repack.model import Advice, RunningPod
from bayplan.fleet.cards.repack.room import make_room
from bayplan.fleet.cards.repack.search import Limits, repack
from bayplan.fleet.cards.state import CardFleet, idle_cards

WIDE = 64_000


def part(milli: int, cpu: int = 1000) -> CardRequest:
    return CardRequest(cpu_milli=cpu, memory_bytes=0, cards=1, milli=milli)


def whole(cards: int = 1, cpu: int = 1000) -> CardRequest:
    return CardRequest(cpu_milli=cpu, memory_bytes=0, cards=cards, milli=1000)


def only_cpu(cpu: int) -> CardRequest:
    return CardRequest(cpu_milli=cpu, memory_bytes=0)


def pod(name: str, request: CardRequest, node: int, *cards: int, fixed: str = "", cost: int = 1000) -> RunningPod:
    return RunningPod(name=name, request=request, spot=Spot(node, cards), fixed=fixed, cost=cost)


def board(nodes: list[tuple[int, int]], *pods: RunningPod) -> Board:
    made = [CardNode(name=f"n{i}", cpu_milli=cpu, memory_bytes=0, cards=cards) for i, (cpu, cards) in enumerate(nodes)]
    return Board(CardFleet(made), pods)


def advised(on: Board, moves: int = 3, cost: int | None = None) -> Advice:
    return repack(on, IdleCards(on.fleet), Limits(moves, cost))


def test_two_halves_on_two_cards_become_one_card() -> None:
    on = board([(WIDE, 1), (WIDE, 1)], pod("a", part(500), 0, 0), pod("b", part(500), 1, 0))
    advice = advised(on)
    (move,) = advice.moves
    assert (move.pod, move.source, move.target) == ("a", Spot(0, (0,)), Spot(1, (0,)))
    assert (advice.before, advice.after, advice.complete) == (0, 1, True)


def test_the_cheaper_of_two_moves_is_advised() -> None:
    on = board([(WIDE, 1), (WIDE, 1)], pod("a", part(500), 0, 0, cost=9000), pod("b", part(500), 1, 0))
    assert [move.pod for move in advised(on).moves] == ["b"]


def test_what_is_fixed_stays_and_no_cost_is_passed() -> None:
    pods = pod("a", part(500), 0, 0, fixed="a DaemonSet"), pod("b", part(500), 1, 0)
    assert [move.pod for move in advised(board([(WIDE, 1), (WIDE, 1)], *pods)).moves] == ["b"]
    dear = advised(board([(WIDE, 1), (WIDE, 1)], *pods), cost=999)
    assert dear.moves == ()
    assert dear.reason == "no 3 moves that cost at most 0.999 would make more of the cards usable"
    none = advised(board([(WIDE, 1)], pods[0]))
    assert none.reason == "no pod may be moved"


def test_a_card_is_emptied_though_its_first_pod_gains_nothing() -> None:
    on = board(
        [(WIDE, 1), (WIDE, 1), (WIDE, 1)],
        pod("a", part(300), 0, 0), pod("b", part(300), 0, 0),
        pod("c", part(700), 1, 0), pod("d", part(700), 2, 0),
    )  # fmt: skip
    advice = advised(on)
    assert sorted(move.pod for move in advice.moves) == ["a", "b"]
    assert [move.gain for move in advice.moves] == [0, 1]
    assert advised(on, moves=1).moves == ()


def test_a_move_that_makes_a_place_comes_before_the_one_that_takes_it() -> None:
    """a can join c on n1 only after b has left n1 for n2, whose cards are too small for a."""
    on = board(
        [(WIDE, 1), (2000, 1), (WIDE, 1)],
        pod("a", part(400), 0, 0),
        pod("b", only_cpu(1000), 1),
        pod("c", part(600), 1, 0, fixed="so"),
        pod("d", part(700), 2, 0, fixed="so"),
    )
    assert advised(on, moves=1).moves == ()
    moves = advised(on, moves=2).moves
    assert [move.pod for move in moves] == ["b", "a"]


def test_fragmentation_counts_what_the_mix_can_use() -> None:
    """A card of 500 is as good as free where pods of 500 alone come."""
    pods = pod("a", part(500), 0, 0), pod("b", part(500), 1, 0)
    on = board([(WIDE, 1), (WIDE, 1)], *pods)
    halves = UsableShare(on.fleet, typical(counted([part(500)])))
    assert repack(on, halves, Limits(3)).moves == ()
    on = board([(WIDE, 1), (WIDE, 1)], *pods)
    both = UsableShare(on.fleet, typical(counted([part(500), whole()])))
    advice = repack(on, both, Limits(3))
    assert len(advice.moves) == 1
    assert (advice.before, advice.after) == (0.5, 1.0)


def test_a_pod_that_is_not_where_it_is_said_to_be_is_told() -> None:
    with pytest.raises(InputError, match="pod b: does not fit where it is said to be, on n0, cards 0"):
        board([(WIDE, 1)], pod("a", part(600), 0, 0), pod("b", part(600), 0, 0))


def test_room_is_made_for_a_pod_by_the_cheapest_that_leave() -> None:
    on = board(
        [(WIDE, 2), (WIDE, 2)],
        pod("a", whole(), 0, 0, cost=5000), pod("b", whole(), 0, 1, cost=5000),
        pod("c", part(300), 1, 0), pod("d", part(300), 1, 1),
    )  # fmt: skip
    advice = make_room(on, IdleCards(on.fleet), whole(), Limits(3))
    assert [move.pod for move in advice.moves] == ["c"]
    assert advice.room == Spot(1, (0,))
    assert on.made == []


def test_room_is_made_by_a_chain() -> None:
    """b has to leave n1 for the whole card, and has a place on n2 only after c has left there for n0."""
    small = board(
        [(2000, 1), (WIDE, 1), (2000, 1)],
        RunningPod(name="a", request=part(800), spot=Spot(0, (0,)), fixed="static"),
        pod("b", part(300), 1, 0),
        pod("c", only_cpu(1000), 2),
        RunningPod(name="d", request=part(600), spot=Spot(2, (0,)), fixed="static"),
    )
    advice = make_room(small, IdleCards(small.fleet), whole(cpu=63_500), Limits(3))
    assert [move.pod for move in advice.moves] == ["c", "b"]
    assert advice.room == Spot(1, (0,))


def test_room_that_is_there_needs_no_move_and_what_cannot_be_is_told() -> None:
    on = board([(WIDE, 2)], pod("a", part(300), 0, 0))
    gauge = IdleCards(on.fleet)
    assert make_room(on, gauge, whole(), Limits(3)).room == Spot(0, (1,))
    assert "no node has such cards" in make_room(on, gauge, whole(3), Limits(3)).reason
    assert "even if it were empty" in make_room(on, gauge, whole(2, cpu=WIDE + 1), Limits(3)).reason
    assert "none of the plans tried" in make_room(on, gauge, whole(2), Limits(3)).reason


PODS = st.lists(
    st.tuples(
        st.sampled_from([part(300), part(500), part(700), whole(), whole(2), only_cpu(2000)]),
        st.integers(0, 2),
        st.integers(0, 1),
        st.booleans(),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=5,
)


def drawn(wishes: list[tuple[CardRequest, int, int, bool, int]]) -> Board:
    nodes = [CardNode(name=f"n{i}", cpu_milli=cpu, memory_bytes=0, cards=2) for i, cpu in enumerate((4000, 5000, 6000))]
    fleet = CardFleet(nodes)
    pods = []
    for i, (request, node, card, fixed, cost) in enumerate(wishes):
        cards = (
            () if not request.cards else (card,) if request.is_shared else idle_cards(fleet.left[node], request.cards)
        )
        try:
            fleet.take(Spot(node, cards), request)
        except ValueError:
            continue
        pods.append(pod(f"p{i}", request, node, *cards, fixed="so" if fixed else "", cost=cost * 1000))
    return Board(CardFleet(nodes), pods)


def by_trying_all(on: Board, gauge: Gauge, moves: int, goal: CardRequest | None) -> tuple[int, int] | None:
    """Best gain and its least cost, or the least cost after which `goal` has room, by every sequence of moves."""
    nodes = np.arange(len(on.fleet))
    start = int(gauge.worth(nodes).sum())
    best: tuple[int, int] | None = (0, 0) if goal is None else None

    def walk(left: int, cost: int) -> None:
        nonlocal best
        gain = int(gauge.worth(nodes).sum()) - start
        if goal is None:
            assert best is not None
            best = min(best, (-gain, cost))
        elif on.fleet.feasible(goal).any() and (best is None or cost < best[1]):
            best = (0, cost)
        if not left:
            return
        for i in on.movable:
            here, request = on.at[i], on.pods[i].request
            for node, card in product(range(len(on.fleet)), range(2)):
                on.fleet.give_back(here, request)
                cards: tuple[int, ...] = () if not request.cards else (card,)
                if request.cards and not request.is_shared:
                    cards = idle_cards(on.fleet.left[node], request.cards)
                try:
                    on.fleet.take(Spot(node, cards), request)
                except ValueError:
                    on.fleet.take(here, request)
                    continue
                on.at[i] = Spot(node, cards)
                walk(left - 1, cost + on.pods[i].cost)
                on.fleet.give_back(on.at[i], request)
                on.fleet.take(here, request)
                on.at[i] = here

    walk(moves, 0)
    return best


def replayed(on: Board, advice: Advice, gauge: Gauge) -> int:
    """What the moves gain when they are made one after the other on a fleet of its own; each must have room."""
    nodes = np.arange(len(on.fleet))
    before = int(gauge.worth(nodes).sum())
    names = [each.name for each in on.pods]
    for move in advice.moves:
        request = on.pods[names.index(move.pod)].request
        on.fleet.give_back(move.source, request)
        assert on.fleet.feasible(request, np.array([move.target.node]))[0]
        on.fleet.take(move.target, request)
    return int(gauge.worth(nodes).sum()) - before


@settings(deadline=None, max_examples=25)
@given(PODS, st.booleans())
def test_small_cases_are_as_good_as_trying_every_sequence(
    wishes: list[tuple[CardRequest, int, int, bool, int]], idle: bool
) -> None:
    on = drawn(wishes)
    gauge: Gauge = (
        IdleCards(on.fleet) if idle else UsableShare(on.fleet, typical(counted([whole(), part(500), part(300)])))
    )
    best = by_trying_all(on, gauge, 2, None)
    advice = repack(on, gauge, Limits(2))
    assert best is not None
    assert advice.after - advice.before == pytest.approx(-best[0] / gauge.units_per_card, abs=1e-9)
    assert advice.cost == best[1]
    assert replayed(on, advice, gauge) == -best[0]


@settings(deadline=None, max_examples=25)
@given(PODS)
def test_plans_of_the_beam_can_be_carried_out_and_gain_what_they_say(
    wishes: list[tuple[CardRequest, int, int, bool, int]],
) -> None:
    on = drawn(wishes)
    gauge = UsableShare(on.fleet, typical(counted([whole(), part(500), part(300)])))
    exact = repack(on, gauge, Limits(2))
    plan = search._Beam(on, gauge, Limits(2)).best()
    on.go_to(())
    assert 0 <= plan.gain / gauge.units_per_card <= exact.after - exact.before + 1e-9
    on.go_to(plan.steps)


@settings(deadline=None, max_examples=25)
@given(PODS, st.sampled_from([whole(), whole(2), part(700), whole(2, cpu=3500)]))
def test_room_is_found_where_trying_all_finds_it_with_one_move_and_costs_no_less(
    wishes: list[tuple[CardRequest, int, int, bool, int]], goal: CardRequest
) -> None:
    on = drawn(wishes)
    gauge = IdleCards(on.fleet)
    one = by_trying_all(on, gauge, 1, goal)
    two = by_trying_all(on, gauge, 2, goal)
    advice = make_room(on, gauge, goal, Limits(2))
    if one is not None:
        assert advice.room is not None
        assert advice.cost <= one[1]
    if advice.room is not None:
        assert two is not None
        assert advice.cost >= two[1]
        replayed(on, advice, gauge)
        assert on.fleet.feasible(goal, np.array([advice.room.node]))[0]
