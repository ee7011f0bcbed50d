"""The fleet and the workload as the bounds see them: classes of equal nodes, kinds of equal pods, as arrays.

What is too large to be solved is made coarser in the direction that leaves the bounds valid: requests are rounded down,
and nodes of different shapes are put together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from bayplan.fleet.cards.model import CardNode, CardRequest
from bayplan.fleet.cards.state import Bools, Floats, Ints

MOST_CLASSES = 64
"""With more shapes of nodes than this, those of one model and number of cards count as one class."""
MOST_PAIRS = 60_000
"""Kinds of pods times classes of nodes; with more, CPU and memory of pods are rounded down until there are fewer."""
_SIGNIFICANT_BITS = (12, 8, 6, 5, 4, 3, 2, 1, 0)
CPU, MEMORY, CARDS = range(3)


class Problem(NamedTuple):
    """K classes of nodes, J kinds of pods, S sizes of parts of a card (milli, ascending).

    `capacity` (3, K): what a class has in all of CPU (milli), memory (bytes) and cards. `asked` (3, J): what one pod
    takes of each (whole cards; 0 for a part of one). `size` (J): the position of a pod's part in `sizes`, -1 for none.
    `pods` (J): how many of a kind. `milli` (J): what one pod takes of all cards. `fits` (J, K): whether an empty node
    of the class has room for the pod.
    """

    kinds: tuple[CardRequest, ...]
    sizes: Ints
    capacity: Floats
    asked: Floats
    size: Ints
    pods: Floats
    milli: Floats
    fits: Bools

    def with_capacity(self, capacity: Floats) -> Problem:
        """The same with so much in all of each class."""
        return self._replace(capacity=capacity)

    def pooled(self) -> Problem:
        """The same with all classes as one: quick to solve, and most of what is learnt from it holds for each."""
        fits: Bools = np.atleast_1d(self.fits.any(axis=1))[:, None]
        return self._replace(capacity=self.capacity.sum(axis=1, keepdims=True), fits=fits)


class Classes:
    """Which class a node is of: nodes of equal model and shape, or of equal model and cards where shapes are many."""

    def __init__(self, nodes: Sequence[CardNode]) -> None:
        self._by_shape = len({_shape(node) for node in nodes}) <= MOST_CLASSES
        members: dict[tuple[str | int, ...], list[CardNode]] = {}
        for node in nodes:
            members.setdefault(self._key(node), []).append(node)
        self._number = {key: i for i, key in enumerate(members)}
        self.largest = [_largest(of_class) for of_class in members.values()]

    def capacity(self, nodes: Sequence[CardNode]) -> Floats:
        """What these nodes have in all, by class: (3, K)."""
        total = np.zeros((3, len(self._number)))
        for node in nodes:
            total[:, self._number[self._key(node)]] += (node.cpu_milli, node.memory_bytes, node.cards)
        return total

    def _key(self, node: CardNode) -> tuple[str | int, ...]:
        return _shape(node) if self._by_shape else _shape(node)[:2]


def problem(nodes: Sequence[CardNode], demand: Mapping[CardRequest, int]) -> Problem:
    """Nodes and pods (how many of each request) as arrays."""
    return problem_of(Classes(nodes), nodes, demand)


def problem_of(classes: Classes, nodes: Sequence[CardNode], demand: Mapping[CardRequest, int]) -> Problem:
    """The same, in classes that were made of these nodes and others."""
    coarse = _coarse(demand, MOST_PAIRS // max(len(classes.largest), 1))
    kinds = tuple(sorted(coarse, key=_order))
    sizes: Ints = np.array(sorted({kind.milli for kind in kinds if kind.is_shared}), np.int64)
    whole = [0 if kind.is_shared else kind.cards for kind in kinds]
    asked = [[kind.cpu_milli for kind in kinds], [kind.memory_bytes for kind in kinds], whole]
    place = {size: i for i, size in enumerate(sizes.tolist())}
    fits = [[_fits(kind, node) for node in classes.largest] for kind in kinds]
    return Problem(
        kinds=kinds,
        sizes=sizes,
        capacity=classes.capacity(nodes),
        asked=np.array(asked, np.float64),
        size=np.array([place.get(kind.milli, -1) for kind in kinds], np.int64),
        pods=np.array([coarse[kind] for kind in kinds], np.float64),
        milli=np.array([kind.total_milli for kind in kinds], np.float64),
        fits=np.array(fits, np.bool_).reshape(len(kinds), len(classes.largest)),
    )


def _shape(node: CardNode) -> tuple[str | int, ...]:
    return (node.model, node.cards, node.cpu_milli, node.memory_bytes)


def _largest(nodes: Sequence[CardNode]) -> CardNode:
    """As large as any of these in each respect."""
    cpu_milli, memory_bytes = max(node.cpu_milli for node in nodes), max(node.memory_bytes for node in nodes)
    return msgspec.structs.replace(nodes[0], cpu_milli=cpu_milli, memory_bytes=memory_bytes)


def _fits(kind: CardRequest, node: CardNode) -> bool:
    return (
        kind.cpu_milli <= node.cpu_milli
        and kind.memory_bytes <= node.memory_bytes
        and kind.cards <= node.cards
        and (not kind.cards or not kind.models or node.model in kind.models)
    )


def _coarse(demand: Mapping[CardRequest, int], most: int) -> Mapping[CardRequest, int]:
    """At most so many kinds, where rounding down CPU and memory can bring that about."""
    found = Counter({request: count for request, count in demand.items() if count})
    for bits in _SIGNIFICANT_BITS:
        if len(found) <= most:
            break
        rounded: Counter[CardRequest] = Counter()
        for request, count in found.items():
            cpu, memory = _rounded_down(request.cpu_milli, bits), _rounded_down(request.memory_bytes, bits)
            rounded[msgspec.structs.replace(request, cpu_milli=cpu, memory_bytes=memory)] += count
        found = rounded
    return found


def _rounded_down(amount: int, bits: int) -> int:
    dropped = max(amount.bit_length() - bits, 0)
    return amount >> dropped << dropped


def _order(kind: CardRequest) -> tuple[int, int, int, int, tuple[str, ...]]:
    return (kind.cards, kind.milli, kind.cpu_milli, kind.memory_bytes, kind.models)
