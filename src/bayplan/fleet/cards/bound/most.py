"""How much of a fleet's cards can be given out at most, whatever the policy knows, refuses and moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bayplan.fleet.cards.bound.prices import Prices, costs, worth
from bayplan.fleet.cards.bound.problem import Problem, problem
from bayplan.fleet.cards.bound.program import Goal, optimum
from bayplan.fleet.cards.model import WHOLE, CardNode, CardRequest
from bayplan.fleet.cards.state import Bools, Floats


class Bound(NamedTuple):
    """No placement of these pods gives out more than `milli`; `percent` is of all cards.

    `reached`: what the relaxed solution gives out (milli), which prices prove to be the most up to rounding.
    `served`: how many of each request it serves, not whole. Requests are rounded down where there were too many.
    """

    milli: float
    percent: float
    reached: float
    served: Mapping[CardRequest, float]


def bound(nodes: Sequence[CardNode], demand: Mapping[CardRequest, int], *, all_cpu_only: bool = False) -> Bound | None:
    """The most that can be given out to `demand` (how often each request is made), all of it being there at one time.

    `all_cpu_only`: pods without cards may not be refused. None where they have not all room.
    """
    capacity_milli = WHOLE * sum(node.cards for node in nodes)
    relaxed = problem(nodes, demand)
    forced: Bools = (relaxed.milli == 0) & all_cpu_only
    if not relaxed.fits[forced].any(axis=1).all():
        return None
    if not forced.any() and not (relaxed.fits.any(axis=1) & (relaxed.milli > 0)).any():
        return Bound(0.0, 0.0, 0.0, {})
    gain = relaxed.milli / WHOLE
    found = optimum(relaxed, Goal(gain, forced), lambda prices, _: proven(relaxed, gain, forced, prices))
    if found is None:
        return None
    # What is proven may be above what there is at all, by rounding or where the pods are few.
    milli = min(WHOLE * found.proven, float(capacity_milli), float(relaxed.milli @ relaxed.pods))
    served = dict(zip(relaxed.kinds, found.solution.served.tolist(), strict=True))
    percent = 100 * milli / capacity_milli if capacity_milli else 0.0
    return Bound(milli, percent, WHOLE * found.solution.value, served)


def proven(relaxed: Problem, gain: Floats, forced: Bools, prices: Prices) -> float:
    """What these prices prove: all capacity at its price, and what pods bring beyond their cost."""
    cost = costs(relaxed, prices)
    beyond = np.where(np.isfinite(cost), gain - cost, 0.0)
    return worth(relaxed.capacity, prices) + float(
        (relaxed.pods * np.where(forced, beyond, np.maximum(beyond, 0))).sum()
    )
