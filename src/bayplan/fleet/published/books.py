"""One published node: its document, the pods that are bound to it, and those that are only decided yet.

The state that counts is the document's, less what pods held that have ended since, plus pods that it does not count, in
the order in which they came. Where the hub would refuse one of those, so will the kubelet, and it counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.published.arrivals import Arrivals
from bayplan.fleet.published.asks import Asks, asks_of
from bayplan.fleet.published.layout import HeldPod
from bayplan.fleet.published.pod_objects import named, pod_of
from bayplan.fleet.published.sources import Origin, Source
from bayplan.fleet.published.states import State, States
from bayplan.protocols.kubernetes import PodObject
from bayplan.workload.model import Pod

MOST_DEPARTED = 1_024
_ORDER: tuple[Origin, ...] = ("layout", "annotation", "topology")
ShapeOf = Callable[[Pod], bytes]


class Assumed(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that is decided for a node and not yet seen there. `until`: when that is no longer believed."""

    pod: Pod
    until: float


class NodeBooks:
    """What is known of one node. Everything that changes it makes the state be worked out anew when it is asked for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._sources: dict[Origin, Source] = {}
        self._problems: dict[Origin, str] = {}
        self._bound: dict[str, PodObject] = {}
        self._assumed: dict[str, Assumed] = {}
        self._gone: dict[str, None] = {}
        self._departed: dict[str, tuple[str, str]] = {}
        self._arrivals = Arrivals()
        self._states: tuple[State, ...] = ()
        self._problem = ""
        self._extra: tuple[Asks, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing is known of it any more."""
        return not (self._sources or self._problems or self._bound or self._assumed or self._gone)

    @property
    def source(self) -> Source | None:
        """The document that counts: the agent's before numbers by zone."""
        return next((self._sources[origin] for origin in _ORDER if origin in self._sources), None)

    @property
    def problem(self) -> str:
        """What is wrong with its documents, or with what they say is held."""
        return self._problem or next((self._problems[o] for o in _ORDER if o in self._problems), "")

    @property
    def extra_asks(self) -> tuple[Asks, ...]:
        """Classes and power that pods ask which the document does not count. After `state`."""
        return self._extra

    @property
    def bound(self) -> Collection[PodObject]:
        """The pods that run here, as the API tells them."""
        return self._bound.values()

    def set_source(self, origin: Origin, source: Source | None, problem: str = "") -> None:
        """A document came, went, or came and could not be read."""
        self._sources.pop(origin, None)
        self._problems.pop(origin, None)
        if source is not None:
            self._sources[origin] = source
        if problem:
            self._problems[origin] = problem
        self._states, self._problem = (), ""

    def heartbeat(self, origin: Origin, at: float) -> None:
        """A document's node said that it is still so."""
        source = self._sources.get(origin)
        if source is not None and (source.heartbeat is None or source.heartbeat < at):
            self._sources[origin] = msgspec.structs.replace(source, heartbeat=at)

    def bind(self, uid: str, pod: PodObject) -> None:
        """A pod runs here, or is about to."""
        known = self._bound.get(uid)
        self._bound[uid] = pod
        self._arrivals.came(uid)
        assumed = self._assumed.pop(uid, None)
        source = self.source
        # Its kubelet's word on when it took the pod bears on what numbers by zone count.
        moved = known is not None and known.status != pod.status and source is not None and not source.by_pod
        if known is None or assumed is not None or moved:
            self._states = ()

    def leave(self, uid: str) -> None:
        """A pod that was here has ended, or is gone: what it held is free."""
        pod, assumed = self._bound.pop(uid, None), self._assumed.pop(uid, None)
        source = self.source
        told = source is None or uid in source.told
        self._arrivals.went(uid, None if told else _readable(pod) or (None if assumed is None else assumed.pod))
        self._gone[uid] = None
        if pod is not None:
            self._departed[uid] = named(pod)
        _bound_to(MOST_DEPARTED, self._gone)
        _bound_to(MOST_DEPARTED, self._departed)
        self._states = ()

    def assume(self, pod: Pod, until: float) -> None:
        """A pod is decided for this node."""
        self._assumed[pod.uid] = Assumed(pod=pod, until=until)
        self._arrivals.came(pod.uid)
        self._states = ()

    def forget(self, uid: str) -> None:
        """It was not to be."""
        if self._assumed.pop(uid, None) is not None:
            self._arrivals.forget(uid)
            self._states = ()

    def assumes(self, uid: str) -> bool:
        """Whether a pod is decided for this node and not yet seen."""
        return uid in self._assumed

    def states(self, states: States, shape_of: ShapeOf) -> tuple[State, ...]:
        """The states that may be, each another, the likeliest first.

        None without a document, or with one that contradicts itself (see `problem`).
        """
        if not self._states and self.source is not None and not self._problem:
            try:
                self._states = self._work_out(states, shape_of, self.source)
            except InputError as error:
                self._problem = str(error)
        return self._states

    def _work_out(self, states: States, shape_of: ShapeOf, source: Source) -> tuple[State, ...]:
        self._gone = {uid: None for uid in self._gone if uid in source.told}
        live = self._uncounted(source)
        self._arrivals.keep(live, self._gone)
        self._extra = tuple(asks for asks in map(asks_of, live.values()) if asks.anything)
        found: dict[int, State] = {}
        for order in self._arrivals.orders(live, self._gone):
            there = [h for h in source.pods if h.pod.uid not in self._gone or h.pod.uid in order.still]
            state = states.base(source.kind, there)
            for step in order.steps:
                if step.pod is None:
                    state = states.without(state, step.uid)
                else:
                    state = states.after(shape_of(step.pod), state, step.pod) or state
            found.setdefault(state.number, state)
        return tuple(found.values())

    def held(self) -> tuple[HeldPod, ...]:
        """What the document says is held by pods that have not gone since."""
        source = self.source
        return () if source is None else tuple(h for h in source.pods if h.pod.uid not in self._gone)

    def counted(self) -> frozenset[str]:
        """The uids of the bound pods that the document counts."""
        source = self.source
        return frozenset() if source is None else source.counted([*self._bound.values()], self._departed.values())

    def _uncounted(self, source: Source) -> dict[str, Pod]:
        """The pods that the document does not count, in the order in which they came."""
        counted = source.counted([*self._bound.values()], self._departed.values())
        pods = {uid: _readable(bound) for uid, bound in self._bound.items() if uid not in counted}
        pods.update((uid, one.pod) for uid, one in self._assumed.items() if uid not in source.told)
        return {uid: pod for uid, pod in pods.items() if pod is not None}


def _readable(pod: PodObject | None) -> Pod | None:
    """What a pod asks; one that cannot be read (no API server would have it) asks for nothing."""
    try:
        return None if pod is None else pod_of(pod)
    except InputError:
        return None


def _bound_to(most: int, table: dict[str, Any]) -> None:
    """Forget the oldest beyond so many."""
    while len(table) > most:
        del table[next(iter(table))]
