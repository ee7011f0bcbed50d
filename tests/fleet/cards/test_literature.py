"""Every policy of the literature against a slow one that is written down card by card, while pods come and go.

The slow ones follow the published simulator: floating point where it has floating point, one node at a time, nothing
kept from one pod to the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.fleet.cards.generator import Generator
from bayplan.fleet.cards.literature.best_fit import BestFitPolicy
from bayplan.fleet.cards.literature.clustering import ClusteringPolicy
from bayplan.fleet.cards.literature.dot_product import DotProductPolicy
from bayplan.fleet.cards.literature.gradient import GradientPolicy, sigmoid_near_zero, steps
from bayplan.fleet.cards.literature.least_power import LeastPowerPolicy
from bayplan.fleet.cards.literature.lots import RandomPolicy
from bayplan.fleet.cards.literature.packing import PackingPolicy
from bayplan.fleet.cards.literature.power_and_gradient import PowerAndGradientPolicy
from bayplan.fleet.cards.mix import Typical, counted, typical
from bayplan.fleet.cards.model import CardNode, CardRequest, Spot
from bayplan.fleet.cards.policy import CardPolicy, PolicySetup
from bayplan.fleet.cards.state import CardFleet

GIB = 1 << 30
WATTS = {"T4": (10, 70), "G2": (30, 150), "P100": (25, 250)}


@dataclass
class Node:
    """A node as the slow policies see it."""

    model: str
    cpu_capacity: int
    cpu: int
    memory: int
    left: list[int]
    pods: list[CardRequest] = field(default_factory=list)

    def cards_with_room(self, pod: CardRequest) -> list[int]:
        least = pod.milli if pod.is_shared else 1000
        return [i for i, left in enumerate(self.left) if left >= least]

    def has_room(self, pod: CardRequest) -> bool:
        if self.cpu < pod.cpu_milli or self.memory < pod.memory_bytes:
            return False
        if not pod.cards:
            return True
        return (not pod.models or self.model in pod.models) and len(self.cards_with_room(pod)) >= pod.cards

    def with_pod(self, pod: CardRequest, card: int | None = None) -> Node:
        """Another node, on which it is; card: that of a pod of part of one."""
        left = list(self.left)
        for i in [card] if card is not None else self.cards_with_room(pod)[: pod.cards]:
            left[i] -= pod.milli
        cpu, memory = self.cpu - pod.cpu_milli, self.memory - pod.memory_bytes
        return Node(self.model, self.cpu_capacity, cpu, memory, left, [*self.pods, pod])

    def outcomes(self, pod: CardRequest) -> Iterator[tuple[int | None, Node]]:
        """The ways in which the pod can be there."""
        if pod.is_shared:
            yield from ((card, self.with_pod(pod, card)) for card in self.cards_with_room(pod))
        else:
            yield None, self.with_pod(pod)


def fragmentation(node: Node, mix: tuple[Typical, ...]) -> float:
    """Cause by cause, as the published simulator adds up."""
    idle = sum(node.left)
    fits = lacks_cpu = no_access = lacks_both = lacks_cards = card_lacks_cpu = 0.0
    for kind, share in mix:
        cpu = node.cpu >= kind.cpu_milli
        cards = sum(left >= kind.milli for left in node.left) >= kind.cards
        if not kind.cards and cpu:
            fits += share * idle
        elif not kind.cards:
            lacks_cpu += share * idle
        elif kind.models and node.model not in kind.models:
            no_access += share * idle
        elif cpu and cards:
            lacks_cards += share * sum(left for left in node.left if left < kind.milli)
        elif cards:
            card_lacks_cpu += share * idle
        elif cpu:
            lacks_cards += share * idle
        else:
            lacks_both += share * idle
    return lacks_both + lacks_cards + card_lacks_cpu + fits + lacks_cpu + no_access


def watts(node: Node) -> int:
    idle, full = WATTS[node.model]
    cards = sum(idle if left == 1000 else full for left in node.left)
    cores, free = math.ceil(node.cpu_capacity / 2000), node.cpu // 2000
    sockets, active = math.ceil(cores / 16), math.ceil((cores - free) / 16)
    return cards + 120 * active + 15 * (sockets - active)


# A score of one node; for pods of part of a card, by card.
Scores = dict[int | None, int]
Score = Callable[[Node, CardRequest, tuple[Typical, ...]], Scores]


def tightest(node: Node, pod: CardRequest, score: int) -> Scores:
    """The score, for the tightest card only."""
    if not pod.is_shared:
        return {None: score}
    return {min(node.cards_with_room(pod), key=lambda card: (node.left[card], card)): score}


def dot_product(node: Node, pod: CardRequest, mix: tuple[Typical, ...]) -> Scores:
    cpu = node.cpu / 128000 * (pod.cpu_milli / 128000)
    cards = sum(node.left) / 8000 * (pod.cards * pod.milli / 8000)
    return tightest(node, pod, int(100 * (1 - (cpu + cards) / 2)))


def clustering(node: Node, pod: CardRequest, mix: tuple[Typical, ...]) -> Scores:
    if not pod.cards:
        return {None: 0}
    classes = {(other.cards, other.is_shared) for other in node.pods if other.cards}
    fullness = math.floor(Fraction(25 * (8000 - sum(node.left)), 8000))
    if not classes:
        return tightest(node, pod, fullness + 25)
    if (pod.cards, pod.is_shared) not in classes:
        return tightest(node, pod, fullness)
    return tightest(node, pod, fullness + (75 if len(classes) == 1 else 50))


def packing(node: Node, pod: CardRequest, mix: tuple[Typical, ...]) -> Scores:
    if not pod.cards:
        return {None: 0}
    count = len(node.left)
    if all(left == 1000 for left in node.left):
        return tightest(node, pod, max(33 - count, count))
    taken = sorted(left for left in node.left if left >= pod.milli)[: pod.cards]
    idle = sum(left == 1000 for left in taken)
    if idle:
        return tightest(node, pod, max(50 - idle, 33))
    return tightest(node, pod, max(100 - sum(left * 100 // 1000 for left in taken) // 10, 50))


def best_fit(node: Node, pod: CardRequest, mix: tuple[Typical, ...]) -> Scores:
    cpu, cards = node.cpu - pod.cpu_milli, sum(node.left) - pod.cards * pod.milli
    return tightest(node, pod, int(100 * (1 - 0.5 * cpu / 128000 - 0.5 * cards / 8000)))


def gradient(node: Node, pod: CardRequest, mix: tuple[Typical, ...]) -> Scores:
    def score(after: Node) -> int:
        change = (fragmentation(node, mix) - fragmentation(after, mix)) / 1000
        return int(100 * (1 / (1 + math.exp(-change))))

    return {card: score(after) for card, after in node.outcomes(pod)}


def least_power(node: Node, pod: CardRequest, mix: tuple[Typical, ...]) -> Scores:
    return {card: watts(node) - watts(after) for card, after in node.outcomes(pod)}


def as_they_are(scores: dict[int, Scores]) -> dict[int, int]:
    """The best of each node."""
    return {node: max(by_card.values()) for node, by_card in scores.items()}


def stretched(scores: dict[int, Scores], if_equal: int) -> dict[int, int]:
    best = as_they_are(scores)
    low, high = min(best.values()), max(best.values())
    return {node: if_equal if low == high else (score - low) * 100 // (high - low) for node, score in best.items()}


@dataclass
class SlowFleet:
    nodes: list[Node]
    mix: tuple[Typical, ...]

    def of(self, score: Score, pod: CardRequest, among: list[bool]) -> dict[int, Scores]:
        """The nodes that have room, with their scores."""
        return {i: score(n, pod, self.mix) for i, n in enumerate(self.nodes) if among[i] and n.has_room(pod)}


def answer(name: str, slow: SlowFleet, pod: CardRequest, among: list[bool]) -> tuple[dict[int, int], dict[int, Scores]]:
    """By node with room: its score, and what chooses its card."""
    single: dict[str, Score] = {
        "dotprod": dot_product,
        "gpuclustering": clustering,
        "gpupacking": packing,
        "bestfit": best_fit,
        "fgd": gradient,
        "pwr": least_power,
    }
    if name in single:
        raw = slow.of(single[name], pod, among)
        if not raw or name not in ("bestfit", "pwr"):
            return as_they_are(raw), raw
        return stretched(raw, 100 if name == "pwr" else 0), raw
    weight = int(name.partition(":")[2] or 100)
    by_power, raw = slow.of(least_power, pod, among), slow.of(gradient, pod, among)
    power = stretched(by_power, 100) if by_power else {}
    return {n: weight * power[n] + (1000 - weight) * best for n, best in as_they_are(raw).items()}, raw


def spot_of(scores: dict[int, int], by_card: dict[int, Scores], slow: SlowFleet, pod: CardRequest) -> Spot | None:
    """The first of the highest, node and card."""
    if not scores:
        return None
    node = max(scores, key=lambda n: (scores[n], -n))
    if pod.is_shared:
        cards = by_card[node]
        return Spot(node, (max((c for c in cards if c is not None), key=lambda c: (cards[c], -c)),))
    return Spot(node, tuple(slow.nodes[node].cards_with_room(pod)[: pod.cards]))


POLICIES: dict[str, Callable[[PolicySetup], CardPolicy]] = {
    "dotprod": DotProductPolicy,
    "gpuclustering": ClusteringPolicy,
    "gpupacking": PackingPolicy,
    "bestfit": BestFitPolicy,
    "fgd": GradientPolicy,
    "pwr": LeastPowerPolicy,
    "pwr+fgd": PowerAndGradientPolicy,
    "pwr+fgd:0": PowerAndGradientPolicy,
    "pwr+fgd:500": PowerAndGradientPolicy,
    "pwr+fgd:1000": PowerAndGradientPolicy,
}

cpus = st.sampled_from([0, 1000, 3152, 8000, 11300, 16400, 31000])
models = st.sampled_from([(), (), (), ("T4",), ("G2", "T4"), ("P100",)])
requests = st.one_of(
    st.builds(CardRequest, cpu_milli=cpus, memory_bytes=st.sampled_from([0, GIB, 40 * GIB])),
    st.builds(
        CardRequest,
        cpu_milli=cpus,
        memory_bytes=st.sampled_from([0, GIB]),
        cards=st.just(1),
        milli=st.sampled_from([10, 190, 200, 400, 500, 810, 999, 1000]),
        models=models,
    ),
    st.builds(
        CardRequest,
        cpu_milli=cpus,
        memory_bytes=st.sampled_from([0, GIB]),
        cards=st.sampled_from([2, 4, 8]),
        milli=st.just(1000),
        models=models,
    ),
)
nodes = st.lists(
    st.tuples(
        st.sampled_from([8000, 31000, 64000, 96000, 128000]),
        st.sampled_from([GIB, 64 * GIB]),
        st.sampled_from([0, 1, 2, 4, 8]),
        st.sampled_from(sorted(WATTS)),
    ),
    min_size=1,
    max_size=6,
)


def fleets(shapes: list[tuple[int, int, int, str]], mix: tuple[Typical, ...]) -> tuple[CardFleet, SlowFleet]:
    fleet = CardFleet(
        [
            CardNode(name=f"n{i}", cpu_milli=cpu, memory_bytes=memory, cards=cards, model=model)
            for i, (cpu, memory, cards, model) in enumerate(shapes)
        ]
    )
    slow = [Node(model, cpu, cpu, memory, [1000] * cards) for cpu, memory, cards, model in shapes]
    return fleet, SlowFleet(slow, mix)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=60)
@given(data=st.data(), shapes=nodes, kinds=st.lists(requests, min_size=1, max_size=8), workload=st.lists(requests))
def test_places_and_scores_are_those_of_the_slow_policy(
    name: str,
    data: st.DataObject,
    shapes: list[tuple[int, int, int, str]],
    kinds: list[CardRequest],
    workload: list[CardRequest],
) -> None:
    counts = counted([*kinds, *kinds, *workload])
    fleet, slow = fleets(shapes, typical(counts))
    policy = POLICIES[name](PolicySetup(fleet=fleet, counts=counts, option=name.partition(":")[2]))
    there: list[tuple[Spot, CardRequest]] = []
    for _ in range(data.draw(st.integers(1, 25), label="steps")):
        if there and data.draw(st.integers(0, 3), label="leaves") == 0:
            spot, pod = there.pop(data.draw(st.integers(0, len(there) - 1)))
            leave(slow.nodes[spot.node], pod, spot)
            fleet.give_back(spot, pod)
        pod = data.draw(st.sampled_from(kinds), label="pod")
        among = data.draw(
            st.one_of(st.none(), st.lists(st.booleans(), min_size=len(shapes), max_size=len(shapes))), label="among"
        )
        scores, by_card = answer(name, slow, pod, among or [True] * len(shapes))
        policy.seen(pod)
        spot_found = policy.place(pod, None if among is None else np.array(among))
        assert spot_found == spot_of(scores, by_card, slow, pod)
        scores, _ = answer(name, slow, pod, [True] * len(shapes))
        found = policy.scores(pod)
        assert {node: int(found[node]) for node in scores} == scores
        if spot_found is not None:
            fleet.take(spot_found, pod)
            slow.nodes[spot_found.node] = settled(slow.nodes[spot_found.node], pod, spot_found)
            there.append((spot_found, pod))


def settled(node: Node, pod: CardRequest, spot: Spot) -> Node:
    return node.with_pod(pod, spot.cards[0] if pod.is_shared else None)


def leave(node: Node, pod: CardRequest, spot: Spot) -> None:
    node.cpu += pod.cpu_milli
    node.memory += pod.memory_bytes
    node.pods.remove(pod)
    for card in spot.cards:
        node.left[card] += pod.milli


def test_a_change_of_nothing_is_rounded_as_the_published_placements_have_it() -> None:
    """What lacks cards lacks CPU as well after some pods: the same sum, but put together otherwise."""
    mix = [
        CardRequest(cpu_milli=cpu, memory_bytes=0, cards=1, milli=1000)
        for cpu in range(1000, 21_000, 700)
        for _ in "ab"
    ]
    mix += [CardRequest(cpu_milli=cpu, memory_bytes=0) for cpu in range(500, 20_000, 1100)]
    counts = counted(mix)
    scores = set()
    for milli in range(10, 500, 7):
        fleet, slow = fleets([(24_992, GIB, 8, "G2")], typical(counts))
        policy = GradientPolicy(PolicySetup(fleet=fleet, counts=counts))
        for card in range(8):
            part = CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=1000 - milli)
            fleet.take(Spot(0, (card,)), part)
            slow.nodes[0] = slow.nodes[0].with_pod(part, card)
        pod = CardRequest(cpu_milli=15_400, memory_bytes=0)
        score = int(policy.scores(pod)[0])
        assert {None: score} == gradient(slow.nodes[0], pod, slow.mix)
        scores.add(score)
    assert scores == {49, 50}, "no example in which rounding counts"


def test_a_score_of_the_gradient_is_the_whole_part_of_the_sigmoid() -> None:
    units = 7766
    found = steps(units)
    assert found.tolist() == sorted(found.tolist())
    for score in range(1, 100):
        step = int(found[score - 1])
        before, at = (100 / (1 + math.exp(-change / (1000 * units))) for change in (step - 1, step))
        assert before < score <= at or (score == 50 and step == 0 and before < 50)


@given(st.floats(-1e-9, 1e-9))
def test_near_zero_the_sigmoid_needs_no_exponential(change: float) -> None:
    assert int(sigmoid_near_zero(np.array([change]))[0]) == int(100 * (1 / (1 + math.exp(-change))))


@pytest.mark.parametrize("name", [*POLICIES, "random"])
def test_a_fleet_without_nodes_has_no_room(name: str) -> None:
    policy = {**POLICIES, "random": RandomPolicy}[name](PolicySetup(fleet=CardFleet([]), counts={}))
    for pod in (
        CardRequest(cpu_milli=1, memory_bytes=0),
        CardRequest(cpu_milli=1, memory_bytes=0, cards=1, milli=500),
        CardRequest(cpu_milli=1, memory_bytes=0, cards=2, milli=1000),
    ):
        assert policy.place(pod) is None
        assert len(policy.scores(pod)) == 0


@pytest.mark.parametrize("name", POLICIES)
def test_where_no_node_has_cards_only_pods_without_find_room(name: str) -> None:
    fleet = CardFleet([CardNode(name="a", cpu_milli=4000, memory_bytes=GIB)])
    policy = POLICIES[name](PolicySetup(fleet=fleet, counts={}))
    assert policy.place(CardRequest(cpu_milli=1000, memory_bytes=0)) == Spot(0)
    assert policy.place(CardRequest(cpu_milli=1000, memory_bytes=0, cards=1, milli=500)) is None
    assert policy.place(CardRequest(cpu_milli=1000, memory_bytes=0, cards=1, milli=1000)) is None


@pytest.mark.parametrize("name", [name for name in [*POLICIES, "random"] if not name.startswith("pwr+fgd")])
def test_a_policy_without_options_refuses_one(name: str) -> None:
    setup = PolicySetup(fleet=CardFleet([]), counts={}, option="100")
    with pytest.raises(InputError, match="takes no option"):
        {**POLICIES, "random": RandomPolicy}[name](setup)


@pytest.mark.parametrize("option", ["1001", "-1", "0.5", "x", "9" * 5000, "１00", " 100"])
def test_what_is_no_weight_is_refused(option: str) -> None:
    with pytest.raises(InputError, match="no weight"):
        PowerAndGradientPolicy(PolicySetup(fleet=CardFleet([]), counts={}, option=option))


def test_lots_fall_on_every_node_and_card_with_room_alike_and_follow_from_the_seed() -> None:
    fleet, _ = fleets([(8000, GIB, 2, "T4"), (8000, GIB, 1, "G2"), (8000, GIB, 4, "T4"), (0, GIB, 8, "T4")], ())
    fleet.take(Spot(2, (1,)), CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=800))
    pod = CardRequest(cpu_milli=1000, memory_bytes=0, cards=1, milli=300, models=("T4",))
    policy, again = (RandomPolicy(PolicySetup(fleet=fleet, counts={}, seed=7)) for _ in "ab")
    spots = [policy.place(pod) for _ in range(6000)]
    assert spots == [again.place(pod) for _ in range(6000)]
    often = {spot: spots.count(spot) for spot in set(spots)}
    expected = {Spot(0, (0,)): 1500, Spot(0, (1,)): 1500} | {Spot(2, (card,)): 1000 for card in (0, 2, 3)}
    assert set(often) == set(expected)
    # Six standard deviations of a binomial with 6000 draws of a quarter.
    assert all(abs(often[spot] - count) < 6 * 34 for spot, count in expected.items())
    assert not policy.scores(pod).any()


def test_lots_are_drawn_as_it_is_written() -> None:
    fleet, _ = fleets([(8000, GIB, 2, "T4"), (8000, GIB, 4, "T4"), (8000, GIB, 4, "T4")], ())
    pod = CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=300)
    policy, draws = RandomPolicy(PolicySetup(fleet=fleet, counts={}, seed=3)), Generator(3)
    for _ in range(20):
        among = np.array([False, True, True])
        node = 1 + draws.below(2)
        assert policy.place(pod, among) == Spot(node, (draws.below(4),))
    two = CardRequest(cpu_milli=0, memory_bytes=0, cards=2, milli=1000)
    assert policy.place(two) == Spot(draws.below(3), (0, 1))
