"""PWR+FGD: the scores of PWR and of FGD, added with a weight; the card is chosen by FGD.

Facts: Lettich et al., CCGrid 2025 (arXiv 2412.17484), who weigh PWR with 50, 100, 200 and 500 thousandths.
"""

from __future__ import annotations

import msgspec
import numpy as np

from bayplan.errors import InputError
from bayplan.fleet.cards.literature.gradient import GradientPolicy
from bayplan.fleet.cards.literature.known_scores import NO_ROOM, first_best
from bayplan.fleet.cards.literature.least_power import LeastPowerPolicy
from bayplan.fleet.cards.mix import kind_of
from bayplan.fleet.cards.model import CardRequest, Spot
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.power import OPENB, PowerTable
from bayplan.fleet.cards.state import Bools, Ints

THOUSAND = 1000
USUAL_WEIGHT = 100


class PowerAndGradientPolicy:
    """See the module. The option is the weight of PWR in thousandths, 0 to 1000; 100 if there is none."""

    def __init__(self, setup: PolicySetup, table: PowerTable = OPENB) -> None:
        self._weight = weight_of(setup.option)
        plain = msgspec.structs.replace(setup, option="")
        self._power = LeastPowerPolicy(plain, table)
        self._gradient = GradientPolicy(plain)

    def seen(self, request: CardRequest) -> None:
        """What comes makes no difference."""

    def place(self, request: CardRequest, among: Bools | None = None) -> Spot | None:
        """On the first of the nodes with the highest score."""
        node = first_best(self._together(request, among))
        return None if node is None else self._gradient.spot(kind_of(request), node)

    def scores(self, request: CardRequest) -> Ints:
        """Both scores by node, weighed: thousandths of hundredths."""
        return self._together(request, None)

    def _together(self, request: CardRequest, among: Bools | None) -> Ints:
        power = self._power.stretched(request, among)
        gradient = self._gradient.known.of(kind_of(request))
        room = power > NO_ROOM
        scores = self._weight * np.where(room, power, 0) + (THOUSAND - self._weight) * np.where(room, gradient, 0)
        return np.where(room, scores, NO_ROOM)


def weight_of(option: str) -> int:
    """The weight that an option names. Raises `InputError`."""
    if not option:
        return USUAL_WEIGHT
    weight = int(option) if option.isascii() and option.isdecimal() and len(option) <= len(str(THOUSAND)) else -1
    if not 0 <= weight <= THOUSAND:
        raise InputError("no weight", place="policy pwr+fgd", value=option, expected="0 to 1000")
    return weight
