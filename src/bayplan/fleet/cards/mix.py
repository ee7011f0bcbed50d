"""What a cluster is asked for, as counts: the statistics that card policies know beforehand or learn.

Facts: typical pods as the FGD paper takes them (USENIX ATC'23, section 4): the most frequent kinds that make up 95 % of
all pods, memory not told apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bayplan.fleet.cards.model import WHOLE, CardRequest

COVERAGE = 0.95


class PodKind(NamedTuple):
    """A request without its memory."""

    cpu_milli: int
    milli: int
    cards: int
    models: tuple[str, ...]

    @property
    def total_milli(self) -> int:
        """What it takes of all cards together."""
        return self.cards * self.milli

    @property
    def is_shared(self) -> bool:
        """Whether it takes a part of one card."""
        return 0 < self.milli < WHOLE


class Typical(NamedTuple):
    """A kind and its share of all pods that are counted, 0 to 1."""

    kind: PodKind
    share: float


def kind_of(request: CardRequest) -> PodKind:
    """The request without its memory."""
    return PodKind(request.cpu_milli, request.milli, request.cards, request.models)


def counted(requests: Iterable[CardRequest]) -> Counter[PodKind]:
    """How often each kind occurs."""
    return Counter(map(kind_of, requests))


def typical(counts: Mapping[PodKind, int], coverage: float = COVERAGE) -> tuple[Typical, ...]:
    """The most frequent kinds that together reach `coverage` of all pods, by frequency; shares add up to 1.

    Of equally frequent ones those that ask for more CPU come first, then more of a card, more cards, and the last by
    their models. An order of no meaning, but it decides which kinds are left out: that of the FGD simulator.
    """
    order = sorted(counts.items(), key=lambda item: (item[1], *_size(item[0])), reverse=True)
    total = sum(counts.values())
    taken: list[tuple[PodKind, int]] = []
    sum_taken = 0
    for kind, count in order:
        if sum_taken >= coverage * total:
            break
        taken.append((kind, count))
        sum_taken += count
    # Divided twice, as the FGD simulator does: the last bit of a share can decide where a pod goes.
    return tuple(Typical(kind, (count / total) / (sum_taken / total)) for kind, count in taken)


def _size(kind: PodKind) -> tuple[int, int, int, str]:
    return kind.cpu_milli, kind.milli, kind.cards, "|".join(kind.models)
