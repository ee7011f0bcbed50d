"""The nodes of a large fleet as arrays, one a resource and one a label, so that a pod costs little among thousands.

The same answers as `filters` and `scores` give node by node; tests hold them together. What a pod says of nodes
(labels, taints) is worked out once for all pods that say the same. Only this module imports numpy, and only `Fleet`
imports it, when there are many nodes. Amounts are clipped to what 64 bits can compare and add.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayplan.fleet.filters import (
    HARD_EFFECTS,
    NOT_NAMED,
    TERMS_CONFLICT,
    UNMATCHED,
    UNSCHEDULABLE,
    UNTOLERATED,
    Wishes,
    in_order,
)
from bayplan.fleet.node import LARGEST_TOLD, PODS, FleetNode
from bayplan.fleet.node_fields import Taint
from bayplan.fleet.pod_needs import PodNeeds
from bayplan.fleet.scores import AFFINITY_WEIGHT, LARGEST_SCORED, MOST, SOFT_EFFECTS, TAINT_WEIGHT, evenness, scored
from bayplan.fleet.selectors import meets, untolerated
from bayplan.fleet.survey import Kind
from bayplan.workload.model import Selector

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_UNLIMITED = LARGEST_TOLD + 1
_STANDING = ("", TERMS_CONFLICT, NOT_NAMED, UNSCHEDULABLE, UNTOLERATED, UNMATCHED)
_STANDING_BITS = 3
# So many bits, beside the number of a node, are well within 63.
_BITS_AT_ONCE = 40
_MAX_KEPT_CELLS = 20_000_000
# Among labels by key, this stands for the name of the node.
_NAME = ""


class Standing(NamedTuple):
    """What a pod says of each node whatever runs there: which objection (0: none), preferences, soft taints."""

    objection: Ints
    passed: Bools
    preference: Ints | None
    soft: Ints | None


class Label(NamedTuple):
    """One label over all nodes: the values that occur, and for each node the position of its own (-1: it has none)."""

    values: list[str]
    codes: Ints


class ColumnSurvey:
    """See `Survey`. `scores` is by node, -1 where it is out."""

    def __init__(self, states: Ints, scores: Ints, passed: Bools, standing: Standing, short: list[Bools]) -> None:
        self._states = states
        self._scores = scores
        self._passed = passed
        self._standing = standing
        self._short = short

    def best(self) -> int | None:
        """See `Survey.best`."""
        first = int(self._scores.argmax())
        return first if self._scores[first] >= 0 else None

    def strike(self, states: Collection[int]) -> None:
        """See `Survey.strike`."""
        if len(states) == 1:
            self._scores[self._states == next(iter(states))] = -1
        elif states:
            self._scores[np.isin(self._states, np.fromiter(states, np.int64, len(states)))] = -1

    def kinds(self) -> list[Kind]:
        """See `Survey.kinds`."""
        lacking = np.zeros(len(self._scores), np.int64)
        for place, short in enumerate(self._short, 1):
            lacking = 2 * lacking + short
            if place % _BITS_AT_ONCE == 0:
                lacking = np.unique(lacking, return_inverse=True)[1].astype(np.int64)
        standing = self._standing
        filtered = (lacking << _STANDING_BITS) * standing.passed + standing.objection
        keys = np.where(self._passed, self._states, -1 - filtered)
        distinct, firsts, sizes = np.unique(keys, return_index=True, return_counts=True)
        return sorted(map(Kind, firsts.tolist(), sizes.tolist(), (distinct < 0).tolist()))


class ColumnTable:
    """See `Table`."""

    def __init__(self, nodes: Sequence[FleetNode], states: Sequence[int], *, pack: bool) -> None:
        self._nodes = nodes
        self._pack = pack
        self._states = np.array(states, np.int64)
        self._free: dict[str, Ints] = {
            name: np.zeros(len(nodes), np.int64)
            for name in sorted({PODS, "cpu", "memory", *(name for node in nodes for name in node.allocatable)})
        }
        self._offered = {name: _column(nodes, name) for name in ("cpu", "memory")}
        self._used = {name: np.zeros(len(nodes), np.int64) for name in ("cpu", "memory")}
        self._even = np.zeros(len(nodes), np.int64)
        self._scored = {name: np.zeros(len(nodes), np.int64) for name in ("cpu", "memory")}
        for index in range(len(nodes)):
            self._write(index)
        self._named = {node.name: i for i, node in enumerate(nodes)}
        self._cordoned = np.array([node.unschedulable for node in nodes], np.bool_)
        self._taints, self._taint_codes = _taint_classes(nodes)
        self._labels: dict[str, Label] = {}
        self._kept: dict[bytes, Standing] = {}

    def survey(self, key: bytes, wishes: Wishes, needs: PodNeeds) -> ColumnSurvey:
        """See `Table.survey`."""
        standing = self._standing(key, wishes)
        short = [self._free[PODS] < 1] + [self._short(name, needs.amounts[name]) for name in in_order(needs)]
        passed = standing.passed.copy()
        for lacking in short:
            passed &= ~lacking
        scores = self._fullness(needs)
        scores += self._balance(needs)
        if standing.preference is not None:
            scores += AFFINITY_WEIGHT * _normalized(standing.preference, passed)
        if standing.soft is not None:
            scores -= TAINT_WEIGHT * _normalized(standing.soft, passed)
        scores += TAINT_WEIGHT * MOST
        scores[~passed] = -1
        return ColumnSurvey(self._states, scores, passed, standing, short)

    def state(self, index: int) -> int:
        """See `Table.state`."""
        return int(self._states[index])

    def changed(self, index: int, state: int) -> None:
        """See `Table.changed`."""
        self._states[index] = state
        self._write(index)

    def most_free(self, resource: str) -> int | None:
        """See `Table.most_free`."""
        column = self._free.get(resource)
        if column is None:
            return None if any(node.free(resource) is None for node in self._nodes) else 0
        most = int(column.max())
        return None if most >= _UNLIMITED else max(0, most)

    def _write(self, index: int) -> None:
        node = self._nodes[index]
        for name, column in self._free.items():
            free = node.free(name)
            column[index] = _UNLIMITED if free is None else max(-LARGEST_TOLD, free)
        for name, column in self._used.items():
            column[index] = scored(node.requested.get(name, 0))
        self._even[index] = evenness(node, 0, 0)
        self._scored["cpu"][index] = scored(node.scored_cpu_milli)
        self._scored["memory"][index] = scored(node.scored_memory_bytes)

    def _short(self, resource: str, asked: int) -> Bools:
        column = self._free.get(resource)
        if column is None:
            # No node tells of it, so that there is none, or no limit.
            return np.array([node.free(resource) is not None for node in self._nodes], np.bool_)
        # More than the largest amount that is told: never there, unless nothing is told.
        return column < min(asked, _UNLIMITED)

    def _fullness(self, needs: PodNeeds) -> Ints:
        total = np.zeros(len(self._nodes), np.int64)
        parts = np.zeros(len(self._nodes), np.int64)
        for name, more in (("cpu", needs.scored_cpu_milli), ("memory", needs.scored_memory_bytes)):
            offered = self._offered[name]
            taken = np.minimum(self._scored[name] + scored(more), offered)
            known = offered > 0
            share = (taken if self._pack else offered - taken) * MOST // np.maximum(offered, 1)
            total += share * known
            parts += known
        average: Ints = total // np.maximum(parts, 1)
        return average

    def _balance(self, needs: PodNeeds) -> Ints | int:
        cpu, memory = needs.amounts.get("cpu", 0), needs.amounts.get("memory", 0)
        if not cpu and not memory:
            return 0
        gain = self._evenness(cpu, memory) - self._even
        return MOST // 2 + (MOST // 2 + gain) // 2

    def _evenness(self, cpu: int, memory: int) -> Ints:
        shares = []
        both = np.ones(len(self._nodes), np.bool_)
        for name, more in (("cpu", cpu), ("memory", memory)):
            offered = self._offered[name]
            both &= offered > 0
            taken = np.minimum(self._used[name] + scored(more), LARGEST_SCORED).astype(np.float64)
            shares.append(np.minimum(1.0, taken / np.maximum(offered, 1).astype(np.float64)))
        deviation = np.abs(shares[0] - shares[1]) / 2 * both
        evenness: Ints = ((1 - deviation) * MOST).astype(np.int64)
        return evenness

    def _standing(self, key: bytes, wishes: Wishes) -> Standing:
        found = self._kept.get(key)
        if found is None:
            if (len(self._kept) + 1) * len(self._nodes) > _MAX_KEPT_CELLS:
                self._kept.clear()
            found = self._kept[key] = self._work_out(wishes)
        return found

    def _work_out(self, wishes: Wishes) -> Standing:
        objection = np.zeros(len(self._nodes), np.int64)
        if not self._matches_all(wishes):
            objection[~self._matching(wishes)] = _STANDING.index(UNMATCHED)
        hard = [bool(untolerated(taints, wishes.tolerations, HARD_EFFECTS)) for taints in self._taints]
        if any(hard):
            objection[np.array(hard, np.bool_)[self._taint_codes]] = _STANDING.index(UNTOLERATED)
        if not wishes.bears_cordon:
            objection[self._cordoned] = _STANDING.index(UNSCHEDULABLE)
        if wishes.named is not None:
            others = np.ones(len(self._nodes), np.bool_)
            others[[self._named[name] for name in wishes.named if name in self._named]] = False
            objection[others] = _STANDING.index(TERMS_CONFLICT if wishes.contradictory else NOT_NAMED)
        return Standing(objection, objection == 0, self._preference(wishes), self._soft(wishes))

    def _matches_all(self, wishes: Wishes) -> bool:
        return not wishes.selector and wishes.terms is None

    def _matching(self, wishes: Wishes) -> Bools:
        selector = [Selector(key=key, operator="In", values=(value,)) for key, value in wishes.selector.items()]
        found = self._meeting(selector)
        if wishes.terms is None:
            return found
        some = np.zeros(len(self._nodes), np.bool_)
        for term in wishes.terms:
            if term:
                some |= self._meeting(term)
        return found & some

    def _meeting(self, requirements: Sequence[Selector]) -> Bools:
        """The nodes that meet all of them."""
        found = np.ones(len(self._nodes), np.bool_)
        for requirement in requirements:
            label = self._label(_NAME if requirement.field else requirement.key)
            # The last verdict is that on nodes without the label, whose code is -1.
            verdicts = [meets(requirement, value) for value in (*label.values, None)]
            found &= np.array(verdicts, np.bool_)[label.codes]
        return found

    def _label(self, key: str) -> Label:
        found = self._labels.get(key)
        if found is not None:
            return found
        values: dict[str, int] = {}
        codes = np.full(len(self._nodes), -1, np.int64)
        for i, node in enumerate(self._nodes):
            value = node.name if key == _NAME else node.labels.get(key)
            if value is not None:
                codes[i] = values.setdefault(value, len(values))
        if len(self._labels) * len(self._nodes) > _MAX_KEPT_CELLS:
            self._labels.clear()
        label = self._labels[key] = Label(list(values), codes)
        return label

    def _preference(self, wishes: Wishes) -> Ints | None:
        total = np.zeros(len(self._nodes), np.int64)
        for wish in wishes.preferences:
            if wish.requirements:
                total += wish.weight * self._meeting(wish.requirements)
        return total if total.any() else None

    def _soft(self, wishes: Wishes) -> Ints | None:
        counts = [len(untolerated(taints, wishes.tolerations, SOFT_EFFECTS)) for taints in self._taints]
        return np.array(counts, np.int64)[self._taint_codes] if any(counts) else None


def _normalized(amounts: Ints, passed: Bools) -> Ints | int:
    largest = int(amounts.max(where=passed, initial=0))
    return MOST * amounts // largest if largest else 0


def _column(nodes: Sequence[FleetNode], resource: str) -> Ints:
    return np.array([scored(node.allocatable.get(resource, 0)) for node in nodes], np.int64)


def _taint_classes(nodes: Sequence[FleetNode]) -> tuple[list[tuple[Taint, ...]], Ints]:
    """The sets of taints that occur, and for each node which of them it has."""
    classes: dict[tuple[Taint, ...], int] = {}
    codes = [classes.setdefault(node.taints, len(classes)) for node in nodes]
    return list(classes), np.array(codes, np.int64)
