"""How many pods that ask for MIG instances are served, against the lowest free position of the first card.

    python benchmarks/partitions.py [ARRIVALS]

Random arrivals and departures (exponential, as many seeds as the table says) on 20 cards, at loads of the compute
slices; the served pods in percent. Nothing but the placement differs between the columns.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Callable, Mapping

from bayplan.files.card_layouts import open_layout
from bayplan.fleet.cards.generator import Generator
from bayplan.fleet.cards.partitions.fleet import Instance, PartitionFleet, Placement, Site
from bayplan.fleet.cards.partitions.layout import EMPTY, Layout, starts, taken_with
from bayplan.resources.decision import Refusal

CARDS = 20
SEEDS = 3
LOADS = (0.8, 1.0, 1.3)
MIXES: dict[str, dict[str, int]] = {
    "even": {"1g.10gb": 1, "2g.20gb": 1, "3g.40gb": 1, "4g.40gb": 1, "7g.80gb": 1},
    "small": {"1g.10gb": 6, "2g.20gb": 3, "3g.40gb": 1},
    "middle": {"1g.10gb": 5, "1g.20gb": 2, "2g.20gb": 4, "3g.40gb": 3, "4g.40gb": 1, "7g.80gb": 1},
    "large": {"1g.10gb": 4, "3g.40gb": 3, "7g.80gb": 1},
}
Place = Callable[[str], Placement | None]


def first_fit(fleet: PartitionFleet) -> Place:
    layout = fleet.sites[0].layout

    def place(name: str) -> Placement | None:
        profile = layout.by_name[name]
        for card in range(fleet.sites[0].cards):
            taken = EMPTY
            for each in fleet.instances(0):
                if each.card == card:
                    taken = taken_with(layout, taken, layout.by_name[each.profile], each.start)
            start = next(starts(layout, taken, profile), None)
            if start is not None:
                return Placement(0, (Instance(card, start, name),))
        return None

    return place


def least_loss(fleet: PartitionFleet) -> Place:
    layout = fleet.sites[0].layout

    def place(name: str) -> Placement | None:
        answer = fleet.place({layout.profiles[layout.by_name[name]].resource: 1})
        return None if isinstance(answer, Refusal) else answer

    return place


def served(
    layout: Layout,
    mix: Mapping[str, int],
    told: bool,
    how: Callable[[PartitionFleet], Place],
    load: float,
    seed: int,
    count: int,
) -> float:
    site = Site(name="node", layout=layout, cards=CARDS)
    fleet = PartitionFleet([site], {layout.name: mix} if told else None)
    place = how(fleet)
    generator = Generator(seed)
    names = [name for name, share in mix.items() for _ in range(share)]
    mean = sum(layout.profiles[layout.by_name[name]].compute for name in names) / len(names)
    rate = load * CARDS * layout.compute / mean
    leaving: list[tuple[float, int, Placement]] = []
    now, placed = 0.0, 0
    for arrival in range(count):
        name = names[generator.below(len(names))]
        now += _exponential(generator) / rate
        ends = now + _exponential(generator)
        while leaving and leaving[0][0] <= now:
            fleet.give_back(heapq.heappop(leaving)[2])
        placement = place(name)
        if placement is not None:
            fleet.take(placement)
            heapq.heappush(leaving, (ends, arrival, placement))
            placed += 1
    return 100 * placed / count


def _exponential(generator: Generator) -> float:
    return -math.log((generator.below(1 << 52) + 1) / (1 << 52))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
    layout = open_layout("a100-80gb")
    print(f"Served, percent of {count} pods on {CARDS} cards, mean of {SEEDS} seeds\n")
    print(f"{'load':>5} {'mix':<8} {'first fit':>10} {'mix unknown':>12} {'mix known':>10}")
    for load in LOADS:
        for name, mix in MIXES.items():
            cells = [
                sum(served(layout, mix, told, how, load, seed, count) for seed in range(SEEDS)) / SEEDS
                for told, how in ((False, first_fit), (False, least_loss), (True, least_loss))
            ]
            print(f"{load:>5} {name:<8} {cells[0]:>10.2f} {cells[1]:>12.2f} {cells[2]:>10.2f}")


if __name__ == "__main__":
    main()
