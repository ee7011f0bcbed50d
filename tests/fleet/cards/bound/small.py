"""Small fleets and workloads for which the best placement can be found by trying them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from bayplan.fleet.cards.model import WHOLE, CardNode, CardRequest, Spot
from bayplan.fleet.cards.state import CardFleet, idle_cards

GIB = 1 << 30


def spots(fleet: CardFleet, request: CardRequest) -> Iterator[Spot]:
    """Every place for the pod, cards of one node that are equally free counted once."""
    for node in range(len(fleet)):
        if not bool(fleet.feasible(request)[node]):
            continue
        left = fleet.left[node]
        if request.is_shared:
            seen = {int(left[card]): card for card in range(int(fleet.cards[node])) if left[card] >= request.milli}
            yield from (Spot(node, (card,)) for card in seen.values())
        else:
            yield Spot(node, idle_cards(left, request.cards))


def best(nodes: Sequence[CardNode], pods: Sequence[CardRequest]) -> tuple[int, int]:
    """By trying all: the most milli of cards that can be given out, and the most pods that can be served."""
    fleet = CardFleet(nodes)

    def tried(i: int, milli: int, served: int) -> Iterator[tuple[int, int]]:
        if i == len(pods):
            yield milli, served
            return
        yield from tried(i + 1, milli, served)
        for spot in list(spots(fleet, pods[i])):
            fleet.take(spot, pods[i])
            yield from tried(i + 1, milli + pods[i].total_milli, served + 1)
            fleet.give_back(spot, pods[i])

    results = list(tried(0, 0, 0))
    return max(milli for milli, _ in results), max(served for _, served in results)


def node(name: str, cards: int, cpus: int, gib: int = 64, model: str = "A") -> CardNode:
    return CardNode(name=name, cpu_milli=cpus * 1000, memory_bytes=gib * GIB, cards=cards, model=model)


def pod(milli: int, cpus: int = 1, gib: int = 1, cards: int = 1, models: tuple[str, ...] = ()) -> CardRequest:
    cards = cards if milli else 0
    return CardRequest(cpu_milli=cpus * 1000, memory_bytes=gib * GIB, cards=cards, milli=milli, models=models)


shapes = st.tuples(st.integers(0, 2), st.integers(1, 6), st.sampled_from((4, 64)), st.sampled_from("AB"))
fleets = st.lists(shapes, min_size=1, max_size=3).map(
    lambda found: [node(f"n{i}", cards, cpus, gib, model) for i, (cards, cpus, gib, model) in enumerate(found)]
)
requests = st.one_of(
    st.builds(
        pod,
        st.sampled_from((190, 300, 400, 510, 600, 810, WHOLE)),
        st.integers(0, 4),
        st.sampled_from((0, 3)),
        st.just(1),
        st.sampled_from(((), ("A",), ("B",), ("A", "B"))),
    ),
    st.builds(pod, st.just(WHOLE), st.integers(0, 4), st.just(1), st.just(2)),
    st.builds(pod, st.just(0), st.integers(0, 4)),
)
workloads = st.lists(requests, max_size=5)
