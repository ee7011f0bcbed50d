"""Replays a trace: pods arrive one after the other and are placed at once, or refused for good; those that end leave.

No queue, no second try, no migration. At one time those that end leave before others arrive. The replay ends with the
last arrival. Facts: the event model of the FGD paper (USENIX ATC'23); leaving is ours.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import numpy as np

from bayplan.fleet.cards.mix import typical
from bayplan.fleet.cards.model import CardRequest, Spot
from bayplan.fleet.cards.policy import CardPolicy, PolicySetup
from bayplan.fleet.cards.state import CardFleet, Floats, Ints
from bayplan.simulate.meter import Meter
from bayplan.simulate.record import DECLINED, NO_CARDS, NO_CPU, NO_MEMORY, NO_MODEL, Changes, Record
from bayplan.simulate.trace import Trace

PolicyFactory = Callable[[PolicySetup], CardPolicy]
STEP = 256
"""Arrivals between two calls of `progress`."""


def replay(
    trace: Trace,
    factory: PolicyFactory,
    *,
    option: str = "",
    seed: int = 0,
    informed: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Record:
    """What a policy makes of a trace. `progress` is told now and then how many pods have come.

    `informed`: whether it knows the mix of pods beforehand; what is measured is measured by that mix in any case.
    """
    fleet = CardFleet(trace.nodes)
    setup = PolicySetup(fleet=fleet, counts=trace.counts if informed else {}, option=option, seed=seed)
    run = _Run(trace, fleet, factory(setup))
    for arrival in range(len(trace.arrivals)):
        if progress is not None and arrival % STEP == 0:
            progress(arrival)
        run.arrive(arrival)
    if progress is not None:
        progress(len(trace.arrivals))
    return run.record()


class _Run:
    def __init__(self, trace: Trace, fleet: CardFleet, policy: CardPolicy) -> None:
        count = len(trace.arrivals)
        self._trace = trace
        self._fleet = fleet
        self._policy = policy
        self._meter = Meter(self._fleet, typical(trace.counts))
        self._refusals = _Refusals(self._fleet)
        self._which = trace.arrivals.tolist()
        self._arrived = 0
        self._leaving: list[tuple[float, int, Spot | None]] = []
        self._change_times = [float(trace.arrives_s[0])] if count and trace.arrives_s is not None else []
        self._card_sets: dict[tuple[int, ...], int] = {(): 0}
        self.node = np.full(count, -1, np.int64)
        self.cards = np.zeros(count, np.int64)
        self.reason = np.zeros(count, np.int64)
        self.arrived_milli = np.zeros(count, np.int64)
        self.change = np.zeros(count, np.int64)

    def arrive(self, arrival: int) -> None:
        """One pod comes; those whose time is over leave before."""
        request = self._trace.requests[self._which[arrival]]
        if self._trace.arrives_s is not None:
            self._leave_until(float(self._trace.arrives_s[arrival]))
        self._arrived += request.total_milli
        self._policy.seen(request)
        spot = self._policy.place(request)
        if spot is None:
            self.reason[arrival] = self._refusals.reason(request)
        else:
            self._fleet.take(spot, request)
            self._meter.changed(spot.node, request, 1)
            self.node[arrival] = spot.node
            self.cards[arrival] = self._card_sets.setdefault(spot.cards, len(self._card_sets))
        self.arrived_milli[arrival] = self._arrived
        self.change[arrival] = self._meter.changes
        self._note_times(arrival, spot)

    def record(self) -> Record:
        """All of it."""
        standing = self._meter.standing()
        changes = None
        if self._trace.arrives_s is not None and len(self._trace.arrivals):
            times: Floats = np.array(self._change_times, np.float64)
            changes = Changes(times, standing, float(self._trace.arrives_s[-1]))
        return Record(
            node=self.node,
            cards=self.cards,
            card_sets=tuple(self._card_sets),
            reason=self.reason,
            arrived_milli=self.arrived_milli,
            standing=standing.at(self.change),
            capacity_milli=self._fleet.capacity_milli,
            changes=changes,
        )

    def _note_times(self, arrival: int, spot: Spot | None) -> None:
        arrives, leaves = self._trace.arrives_s, self._trace.leaves_s
        if arrives is None:
            return
        if spot is not None:
            self._change_times.append(float(arrives[arrival]))
        if leaves is not None and leaves[arrival] < math.inf:
            heapq.heappush(self._leaving, (float(leaves[arrival]), arrival, spot))

    def _leave_until(self, time_s: float) -> None:
        while self._leaving and self._leaving[0][0] <= time_s:
            when, arrival, spot = heapq.heappop(self._leaving)
            request = self._trace.requests[self._which[arrival]]
            self._arrived -= request.total_milli
            if spot is not None:
                self._fleet.give_back(spot, request)
                self._meter.changed(spot.node, request, -1)
                self._change_times.append(when)


class _Refusals:
    """Says why no node has room. A request that was refused by the fleet as it still is gets the same answer."""

    def __init__(self, fleet: CardFleet) -> None:
        self._fleet = fleet
        self._version = -1
        self._known: dict[CardRequest, int] = {}

    def reason(self, request: CardRequest) -> int:
        """One of `record.REASONS`."""
        if self._version != self._fleet.version:
            self._version = self._fleet.version
            self._known.clear()
        if request not in self._known:
            self._known[request] = self._found(request)
        return self._known[request]

    def _found(self, request: CardRequest) -> int:
        fleet = self._fleet
        left: Ints = np.arange(len(fleet))
        if request.cards:
            left = np.flatnonzero(fleet.allowed(request.models))
            if not len(left):
                return NO_MODEL
            free, asked = (fleet.most_left, request.milli) if request.is_shared else (fleet.idle, request.cards)
            left = left[free[left] >= asked]
            if not len(left):
                return NO_CARDS
        left = left[fleet.cpu_free[left] >= request.cpu_milli]
        if not len(left):
            return NO_CPU
        return DECLINED if (fleet.memory_free[left] >= request.memory_bytes).any() else NO_MEMORY
