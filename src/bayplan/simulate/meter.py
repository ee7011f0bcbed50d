"""Measures a fleet while pods come and go: allocation, fragmentation, power, nodes in use.

Each change concerns one node, so only what that node was left with is noted, and measured later, thousands of such
states at once. Sums over the fleet are what they were plus the difference at that node.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayplan.fleet.cards.fragmentation import Fragmentation
from bayplan.fleet.cards.mix import Typical
from bayplan.fleet.cards.model import CardRequest
from bayplan.fleet.cards.power import PowerModel
from bayplan.fleet.cards.state import CardFleet, Floats, Ints
from bayplan.simulate.record import Standing

AT_ONCE = 4096


class Meter:
    """Tells how the fleet stood after each change, change 0 being the start. `changed` must be called after each."""

    def __init__(self, fleet: CardFleet, typical: Sequence[Typical]) -> None:
        self._fleet = fleet
        self._typical = tuple(typical)
        self._pods = [0] * len(fleet)
        self._used = 0
        self._alloc_cpu = int((fleet.cpu_capacity - fleet.cpu_free).sum())
        self._current = _measured(fleet, self._typical)
        self._totals = [self._current.sum(axis=0, keepdims=True)]
        self._counts = [np.array([[fleet.allocated_milli, self._alloc_cpu, 0]], np.int64)]
        self._nodes = np.zeros(AT_ONCE, np.int64)
        self._cpu = np.zeros(AT_ONCE, np.int64)
        self._left = np.zeros((AT_ONCE, fleet.left.shape[1]), np.int64)
        self._noted: list[tuple[int, int, int]] = []
        self.changes = 0

    def changed(self, node: int, request: CardRequest, sign: int) -> None:
        """A pod has come to a node (`sign` 1) or left it (-1)."""
        fleet, row = self._fleet, len(self._noted)
        self._pods[node] += sign
        self._used += self._pods[node] == 1 if sign > 0 else -(self._pods[node] == 0)
        self._alloc_cpu += sign * request.cpu_milli
        self._nodes[row] = node
        self._cpu[row] = fleet.cpu_free[node]
        self._left[row] = fleet.left[node]
        self._noted.append((fleet.allocated_milli, self._alloc_cpu, self._used))
        self.changes += 1
        if row + 1 == AT_ONCE:
            self._measure()

    def standing(self) -> Standing:
        """After each change, the start first."""
        self._measure()
        counts = [np.concatenate([part[:, i] for part in self._counts]) for i in range(3)]
        frag_milli, cpu_w, gpu_w = (np.concatenate([part[:, i] for part in self._totals]) for i in range(3))
        return Standing(
            alloc_milli=counts[0],
            alloc_cpu_milli=counts[1],
            frag_milli=frag_milli,
            frag_by_cause=np.concatenate([part[:, 3:] for part in self._totals]),
            cpu_w=cpu_w,
            gpu_w=gpu_w,
            used_nodes=counts[2],
        )

    def _measure(self) -> None:
        count = len(self._noted)
        if not count:
            return
        nodes = self._nodes[:count]
        after = _measured(self._fleet.in_states(nodes, self._cpu[:count], self._left[:count]), self._typical)
        before = _before(nodes, after, self._current)
        # Added up one by one from the last total, so that sums do not depend on how many are measured at once.
        differences = np.concatenate([self._totals[-1][-1:], after - before])
        self._totals.append(np.cumsum(differences, axis=0)[1:])
        self._counts.append(np.array(self._noted, np.int64))
        self._current[nodes] = after  # of several states of one node the last stays
        self._noted = []


def _measured(fleet: CardFleet, typical: Sequence[Typical]) -> Floats:
    """By node: fragmentation, watts of CPUs, watts of cards, then fragmentation by cause."""
    nodes = np.arange(len(fleet))
    fragmentation = Fragmentation(fleet, typical)
    cpu_w, gpu_w = PowerModel(fleet).watts(nodes)
    columns = (fragmentation.amounts(nodes), cpu_w, gpu_w, fragmentation.by_cause(nodes))
    return np.column_stack(columns).astype(np.float64)


def _before(nodes: Ints, after: Floats, current: Floats) -> Floats:
    """For each change, the measures of its node before it: after that node's change before, or the current ones."""
    order = np.argsort(nodes, kind="stable")
    same = np.flatnonzero(nodes[order][1:] == nodes[order][:-1])
    before: Floats = current[nodes]
    before[order[same + 1]] = after[order[same]]
    return before
