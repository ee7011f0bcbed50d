"""The choice is the one that trying every node and card comes to, ties and all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fleet.cards.values.slow_fleet import UNIT, SlowFleet

from bayplan.fleet.cards.generator import Generator
from bayplan.fleet.cards.mix import PodKind, counted
from bayplan.fleet.cards.model import CardNode, CardRequest, Spot
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import Bools, CardFleet
from bayplan.fleet.cards.values.constants import Constants
from bayplan.fleet.cards.values.policy import ValuesPolicy

GIB = 2**30
CONSTANTS = Constants(first_steps=20, arrivals_per_step=7, cpu_prices=(0.0, 0.003, 0.02, 0.1))
NODES = (("a", 4, 32), ("a", 2, 8), ("b", 4, 96), ("", 0, 16), ("b", 1, 8))
"""Model, cards, vCPUs."""
PODS = (
    CardRequest(cpu_milli=2000, memory_bytes=GIB, cards=1, milli=333),
    CardRequest(cpu_milli=500, memory_bytes=GIB, cards=1, milli=667),
    CardRequest(cpu_milli=4000, memory_bytes=GIB, cards=1, milli=85, models=("a",)),
    CardRequest(cpu_milli=1000, memory_bytes=GIB, cards=1, milli=915),
    CardRequest(cpu_milli=6000, memory_bytes=GIB, cards=1, milli=1000),
    CardRequest(cpu_milli=3000, memory_bytes=GIB, cards=1, milli=1000, models=("a", "b")),
    CardRequest(cpu_milli=8000, memory_bytes=GIB, cards=2, milli=1000),
    CardRequest(cpu_milli=8000, memory_bytes=2 * GIB, cards=4, milli=1000, models=("b",)),
    CardRequest(cpu_milli=3000, memory_bytes=8 * GIB),
    CardRequest(cpu_milli=0, memory_bytes=0),
)


def fleet_of(count: int) -> CardFleet:
    """The same few nodes again and again, so that there are ties."""
    shapes = [NODES[i % len(NODES)] for i in range(count)]
    return CardFleet(
        [
            CardNode(name=f"n{i}", cpu_milli=cpu * 1000, memory_bytes=32 * GIB, cards=cards, model=model)
            for i, (model, cards, cpu) in enumerate(shapes)
        ]
    )


class Game:
    """Pods come and go on a fleet, as a seed has it; each choice is handed to `check`."""

    def __init__(self, nodes: int, seed: int, option: str = "") -> None:
        self.draws = Generator(seed)
        self.fleet = fleet_of(nodes)
        known = {pod: 1 + self.draws.below(20) for pod in PODS if self.draws.below(4)}
        self.counts = counted(pod for pod, count in known.items() for _ in range(count)) or counted(PODS)
        self.policy = ValuesPolicy(PolicySetup(fleet=self.fleet, counts=self.counts, option=option), CONSTANTS)
        self.running: list[tuple[Spot, CardRequest]] = []

    def slow(self) -> SlowFleet:
        return SlowFleet(self.fleet, self.counts, self.policy._prices.by_kind(), CONSTANTS)

    def play(self, arrivals: int, check: Callable[[CardRequest, Bools | None], Spot | None]) -> list[Spot | None]:
        spots = []
        for _ in range(arrivals):
            pod = PODS[self.draws.below(len(PODS))]
            among: Bools | None = None
            if not self.draws.below(3):
                among = np.array([self.draws.below(2) > 0 for _ in self.fleet.nodes], np.bool_)
            self.policy.seen(pod)
            spots.append(check(pod, among))
            self.take(spots[-1], pod)
        return spots

    def take(self, spot: Spot | None, pod: CardRequest) -> None:
        if spot is not None:
            self.fleet.take(spot, pod)
            self.running.append((spot, pod))
        if self.running and not self.draws.below(4):
            self.fleet.give_back(*self.running.pop(self.draws.below(len(self.running))))


@given(st.sampled_from((0, 1, 4, 12, 35)), st.integers(0, 2**32))
@settings(max_examples=25)
def test_the_place_is_the_first_of_those_that_lose_least_of_all(nodes: int, seed: int) -> None:
    game = Game(nodes, seed)

    def check(pod: CardRequest, among: Bools | None) -> Spot | None:
        spot = game.policy.place(pod, among)
        assert spot == game.slow().place(pod, among)
        return spot

    game.play(60, check)


@given(st.sampled_from((4, 12, 35)), st.integers(0, 2**32))
@settings(max_examples=15)
def test_scores_are_what_the_best_place_of_each_node_loses(nodes: int, seed: int) -> None:
    game = Game(nodes, seed)

    def check(pod: CardRequest, among: Bools | None) -> Spot | None:
        least = np.full(len(game.fleet), -np.inf)
        for spot, loss in game.slow().losses(pod).items():
            least[spot.node] = max(least[spot.node], -loss)
        np.testing.assert_allclose(game.policy.scores(pod), least, atol=1e-9)
        return game.policy.place(pod, among)

    game.play(30, check)


@pytest.mark.parametrize("option", ["", "power", "learning", "learning,power"])
def test_the_place_is_on_the_first_of_the_nodes_that_score_best(option: str) -> None:
    game = Game(35, 7, option)

    def check(pod: CardRequest, among: Bools | None) -> Spot | None:
        scores = np.where(
            game.fleet.feasible(pod) & (True if among is None else among), game.policy.scores(pod), -np.inf
        )
        spot = game.policy.place(pod, among)
        assert (spot is None) == bool((scores == -np.inf).all())
        if spot is not None:
            assert spot.node == int(np.rint(scores * UNIT).argmax())
        return spot

    assert None in game.play(200, check)


@pytest.mark.parametrize("option", ["", "power", "learning", "admission,learning,power"])
def test_two_games_are_the_same(option: str) -> None:
    def spots() -> list[Spot | None]:
        game = Game(12, 3, option)
        return game.play(150, game.policy.place)

    assert spots() == spots()


@given(st.sampled_from((1, 4, 12)), st.integers(0, 2**32))
@settings(max_examples=20)
def test_admission_only_adds_refusals(nodes: int, seed: int) -> None:
    """Of one state, it goes to the same place as without, or nowhere, and nowhere only where too much would be lost."""
    game = Game(nodes, seed)
    strict = ValuesPolicy(PolicySetup(fleet=game.fleet, counts=game.counts, option="admission"), CONSTANTS)

    def check(pod: CardRequest, among: Bools | None) -> Spot | None:
        strict.seen(pod)
        spot, admitted = game.policy.place(pod, among), strict.place(pod, among)
        room = game.fleet.feasible(pod) & (True if among is None else among)
        assert (spot is None) == (not room.any())
        if spot is not None:
            too_much = pod.total_milli / 1000 + CONSTANTS.margin
            loss = min(game.slow().losses(pod, among).values())
            assert admitted == (None if loss > too_much else spot)
        return spot

    game.play(40, check)


def test_pods_without_cards_are_placed_where_their_cpu_is_missed_least() -> None:
    fleet = CardFleet(
        [
            CardNode(name=name, cpu_milli=8000, memory_bytes=GIB, cards=cards, model="a")
            for name, cards in (("short", 4), ("plenty", 1), ("none", 0))
        ]
    )
    policy = ValuesPolicy(PolicySetup(fleet=fleet, counts={PodKind(4000, 1000, 1, ()): 1}), CONSTANTS)
    asked = CardRequest(cpu_milli=4000, memory_bytes=0)
    assert policy.place(asked) == Spot(1)
    fleet.take(Spot(1), asked)
    assert policy.place(asked) == Spot(2)
    short, plenty, none = policy.scores(asked).tolist()
    assert none == 0
    assert min(short, plenty) < 0


def test_leftovers_between_two_steps_count_as_the_lower_one() -> None:
    fleet = CardFleet([CardNode(name=f"n{i}", cpu_milli=64000, memory_bytes=GIB, cards=2, model="a") for i in range(2)])
    wanted = PodKind(0, 330, 1, ())
    policy = ValuesPolicy(PolicySetup(fleet=fleet, counts={wanted: 1}), CONSTANTS)
    fleet.take(Spot(0, (0,)), CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=666))
    fleet.take(Spot(0, (1,)), CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=661))
    asked = CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=330)
    # 334 and 339 milli are both 33 steps, and what is left of either is worth nothing: the lower card.
    assert policy.place(asked) == Spot(0, (0,))
