"""Prices of what nodes have, and what pods cost at them: the proof of a bound.

Put a price on the CPU, memory and cards of each class of nodes. Whatever is served pays its price, and nobody can pay
for more than there is: so what all capacity is worth at the prices, and what pods bring beyond their cost, together
bound what can be had (weak duality). That holds for *any* prices; the program only looks for good ones, and no trust
in its solver is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayplan.fleet.cards.bound.patterns import Pattern, best_patterns
from bayplan.fleet.cards.bound.problem import CARDS, CPU, MEMORY, Problem
from bayplan.fleet.cards.state import Floats


class Prices(NamedTuple):
    """By class: of a milli of CPU, a byte of memory, a card (K each), and of a part of a card by size (K, S).

    None is negative. A card costs at least what the parts cut from it can earn: see `consistent`.
    """

    cpu: Floats
    memory: Floats
    card: Floats
    part: Floats


def consistent(problem: Problem, prices: Prices) -> tuple[Prices, list[Pattern]]:
    """Prices at which no pattern earns more than its card costs, and for each class the pattern that earns most."""
    part = np.maximum(prices.part, 0)
    earned, patterns = best_patterns(problem.sizes, part)
    return Prices(
        np.maximum(prices.cpu, 0), np.maximum(prices.memory, 0), np.maximum(prices.card, earned), part
    ), patterns


def costs(problem: Problem, prices: Prices) -> Floats:
    """What a pod of each kind costs in the class where it is cheapest; infinite where it fits in none."""
    by_class: Floats = np.multiply.outer(problem.asked[CPU], prices.cpu)
    by_class += np.multiply.outer(problem.asked[MEMORY], prices.memory)
    by_class += np.multiply.outer(problem.asked[CARDS], prices.card)
    shared = problem.size >= 0
    by_class[shared] += prices.part.T[problem.size[shared]]
    cheapest: Floats = np.where(problem.fits, by_class, np.inf).min(axis=1, initial=np.inf)
    return cheapest


def worth(capacity: Floats, prices: Prices) -> float:
    """What a capacity (3, K) is worth."""
    return float((capacity * np.stack([prices.cpu, prices.memory, prices.card])).sum())
