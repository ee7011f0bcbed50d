"""The kinds of pods that have a price, as arrays, and which cards each of them may use.

Only pods that ask for cards have one. Leftovers of cards are counted in steps of 10 milli, asked parts rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import WHOLE
from bayplan.fleet.cards.state import Bools, Floats, Ints

STEP_MILLI = 10
"""A leftover is known to this many milli, rounded down."""
STEPS = WHOLE // STEP_MILLI


class PricedKinds:
    """K kinds, sorted by the number of cards, then by the part of a card (so that equal sizes stand together).

    By kind: `gpus` (cards), `cpu` (vCPU), `share` (of all pods that come, CPU-only ones included), `cards`, `size`
    (steps of one card), `group` (kinds that name the same models have the same). `admitted` (T, K): which of them a
    card table admits, `table_of_model`: the table of each of the fleet's models; models that admit the same kinds have
    one table. `known`: whether there is any kind at all. `mean_gpus`, `mean_cpu`: of one pod, of all that come.
    """

    def __init__(self, counts: Mapping[PodKind, float], models: Sequence[str]) -> None:
        total = float(sum(counts.values()))
        self.kinds = sorted(
            (kind for kind, count in counts.items() if kind.cards and count > 0),
            key=lambda kind: (kind.cards, kind.milli, kind.cpu_milli, kind.models),
        )
        self.known = bool(self.kinds)
        self.share: Floats = np.array([counts[kind] / total for kind in self.kinds], np.float64)
        self.gpus: Floats = np.array([kind.total_milli / WHOLE for kind in self.kinds], np.float64)
        self.cpu: Floats = np.array([kind.cpu_milli / 1000 for kind in self.kinds], np.float64)
        self.cards: Ints = np.array([kind.cards for kind in self.kinds], np.int64)
        self.size: Ints = np.array([-(-kind.milli // STEP_MILLI) for kind in self.kinds], np.int64)
        named = sorted({kind.models for kind in self.kinds})
        self.group: Ints = np.array([named.index(kind.models) for kind in self.kinds], np.int64)
        self.groups = len(named)
        self.mean_cpu = sum(count * kind.cpu_milli for kind, count in counts.items()) / 1000 / total if total else 0.0
        self.mean_gpus = float((self.share * self.gpus).sum())
        rows: dict[tuple[bool, ...], int] = {}
        self.table_of_model: Ints = np.zeros(len(models), np.int64)
        for i, model in enumerate(models):
            row = tuple(not kind.models or model in kind.models for kind in self.kinds)
            self.table_of_model[i] = rows.setdefault(row, len(rows))
        self.admitted: Bools = np.array(list(rows), np.bool_).reshape(len(rows), len(self.kinds))
        self._single = int(np.count_nonzero(self.cards == 1))
        sizes, self._first_of_size = np.unique(self.size[: self._single], return_index=True)
        self.sizes: Ints = sizes

    @property
    def single(self) -> slice:
        """The kinds that ask for one card or a part of it."""
        return slice(self._single)

    def by_size(self, amounts: Floats) -> Floats:
        """Amounts of the single kinds (..., K1), added up by size: (..., S), in the order of `sizes`."""
        return np.add.reduceat(amounts, self._first_of_size, axis=-1)
