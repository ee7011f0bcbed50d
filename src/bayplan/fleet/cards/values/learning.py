"""The mix of pods as it is learnt from those that come, with forgetting; and what is believed before any has come."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import WHOLE
from bayplan.fleet.cards.state import CardFleet

_LARGEST = 1e12
_NEGLIGIBLE = 1e-5


def ignorance(fleet: CardFleet, weight: float) -> dict[PodKind, float]:
    """What is believed where nothing is known: that each model of cards is named as often as any other.

    Pods of whole cards, `weight` of them in all, each with half of the vCPUs that the fleet has for a card. So models
    of which there are few are kept for pods that may name them, until it is known whether there are such pods.
    """
    models = sorted({node.model for node in fleet.nodes if node.cards})
    cards = int(fleet.cards.sum())
    cpu_milli = int(fleet.cpu_capacity[fleet.cards > 0].sum()) // (2 * cards) if cards else 0
    return {PodKind(cpu_milli, WHOLE, 1, (model,)): weight / len(models) for model in models}


class LearntMix:
    """How often each kind comes; a pod that came `half_life` arrivals ago counts half as much as the last one.

    `known` counts as if it had just come, with no more weight than what is remembered at all.
    """

    def __init__(self, known: Mapping[PodKind, float], half_life: float) -> None:
        # What each new pod counts grows, which is the same as that the others fade, at the cost of one multiplication.
        self._growth = 1 + 0.6931471805599453 / half_life
        self._unit = 1.0
        total = sum(known.values())
        most = 1 / (1 - 1 / self._growth)
        scale = min(1.0, most / total) if total else 1.0
        self._weights: dict[PodKind, float] = {kind: count * scale for kind, count in known.items() if count > 0}

    def add(self, kind: PodKind) -> None:
        """One pod came."""
        self._unit *= self._growth
        self._weights[kind] = self._weights.get(kind, 0.0) + self._unit
        if self._unit > _LARGEST:
            self._weights = {kind: weight / self._unit for kind, weight in self._weights.items()}
            self._unit = 1.0

    def counts(self) -> dict[PodKind, float]:
        """What is remembered, without the kinds that have become negligible."""
        least = _NEGLIGIBLE * sum(self._weights.values())
        return {kind: weight for kind, weight in self._weights.items() if weight >= least}
