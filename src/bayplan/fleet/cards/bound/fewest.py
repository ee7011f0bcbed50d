"""How few nodes can serve a workload at all, when some of it may be refused; and how much of a mix a fleet can hold.

The number of nodes is a lower bound: below it no policy serves enough, at it perhaps none does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from bayplan.fleet.cards.bound.prices import Prices, costs, worth
from bayplan.fleet.cards.bound.problem import Classes, Problem, problem_of
from bayplan.fleet.cards.bound.program import Fleet, Goal, optimum
from bayplan.fleet.cards.model import WHOLE, CardNode, CardRequest
from bayplan.fleet.cards.state import Floats

By = Literal["pods", "cards"]
"""How what is served and refused is counted: by pods, or by the milli of cards that they ask for."""
_SLACK = 1e-9


def fewest(
    base: Sequence[CardNode],
    unit: Sequence[CardNode],
    demand: Mapping[CardRequest, int],
    *,
    refused: float = 0.0,
    by: By = "pods",
) -> float | None:
    """At least how many times (a fraction) `unit` has to stand beside `base` for all of `demand` but `refused`.

    `refused` is an amount: pods, or milli of cards. None: however many there are, not enough can be served.
    """
    classes = Classes([*base, *unit])
    relaxed = problem_of(classes, base, demand)
    # Counted in cards of the unit, so that prices are about 1 whether it is one node or a whole fleet.
    scale = float(max(sum(node.cards for node in unit), len(unit), 1))
    each = classes.capacity(unit) / scale
    gain = np.ones(len(relaxed.kinds)) if by == "pods" else relaxed.milli / WHOLE
    needed = (float(gain @ relaxed.pods) - (refused if by == "pods" else refused / WHOLE)) * (1 - _SLACK)
    if needed <= 0:
        return 0.0
    if not relaxed.fits.any():
        return None
    # Where each pod has a whole unit to itself, no unit is short; what cannot be served then never can.
    plenty = relaxed.with_capacity(relaxed.capacity + each * scale * relaxed.pods.sum())
    nothing = np.zeros(len(relaxed.kinds), np.bool_)
    possible = optimum(plenty, Goal(gain, nothing), lambda prices, _: _beyond(plenty, gain, prices))
    if possible is None or possible.proven < needed:
        return None
    goal = Goal(gain, nothing, Fleet(each, gain, needed))

    def proof(prices: Prices, price: float) -> float:
        left = price * needed - _beyond(relaxed, price * gain, prices)
        asked = worth(each, prices)
        return max(left / asked, 0.0) if asked > 0 else 0.0

    found = optimum(relaxed, goal, proof, possible.patterns)
    return None if found is None else found.proven / scale


def largest_multiple(nodes: Sequence[CardNode], mix: Mapping[CardRequest, int]) -> float:
    """At most how many times the nodes can hold the mix as a whole, nothing refused; infinite for an empty mix."""
    times = fewest([], nodes, mix)
    if times is None:
        return 0.0
    return 1 / times if times else math.inf


def _beyond(relaxed: Problem, gain: Floats, prices: Prices) -> float:
    """All capacity at its price, and what pods bring beyond their cost: at least what can be gained."""
    return worth(relaxed.capacity, prices) + float((relaxed.pods * np.maximum(gain - costs(relaxed, prices), 0)).sum())
