"""In which order pods came to a node and left it, and what that leaves open.

A node's kubelet takes pods on one after the other, a little after they are bound, and where it puts one depends on what
was there at that moment. Of pods that their node has not told of yet, nobody knows whether they were put in their place
before or after another one went: the first so many may have been, and the rest not. These orders are given, and a pod
that wants to be on the node must fit in each. That a pod goes later, while others wait to be taken on, may still change
where those are put; no order of the past can tell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from bayplan.workload.model import Pod

MOST_GHOSTS = 64
MOST_ORDERS = 8


class Step(NamedTuple):
    """A pod comes, or (without `pod`) goes."""

    uid: str
    pod: Pod | None


class Order(NamedTuple):
    """What may have happened: `still` are pods that had not gone at first, though they have by now."""

    still: frozenset[str]
    steps: tuple[Step, ...]


class Arrivals:
    """Comings and goings of one node, numbered as they were seen."""

    def __init__(self) -> None:
        self._next = 0
        self._came: dict[str, int] = {}
        self._went: dict[str, int] = {}
        self._ghosts: dict[str, Pod] = {}

    def came(self, uid: str) -> None:
        """A pod was decided for the node, or is bound to it. The first time counts."""
        self._came.setdefault(uid, self._tick())

    def went(self, uid: str, uncounted: Pod | None) -> None:
        """A pod has ended or is gone. `uncounted`: it came, and its node never told of it."""
        self._went[uid] = self._tick()
        if uncounted is not None:
            self._ghosts[uid] = uncounted
            while len(self._ghosts) > MOST_GHOSTS:
                self.forget(next(iter(self._ghosts)))

    def forget(self, uid: str) -> None:
        """A pod never came after all, or does not matter any more."""
        self._came.pop(uid, None)
        self._went.pop(uid, None)
        self._ghosts.pop(uid, None)

    def keep(self, uids: Collection[str], gone: Collection[str]) -> None:
        """Only these pods are there and only those that have gone matter, with the ones between that left traces."""
        first = min((self._came.get(uid, 0) for uid in uids), default=self._next)
        ghosts = {uid for uid in self._ghosts if self._went[uid] > first}
        self._ghosts = {uid: pod for uid, pod in self._ghosts.items() if uid in ghosts}
        self._came = {uid: n for uid, n in self._came.items() if uid in uids or uid in ghosts}
        self._went = {uid: n for uid, n in self._went.items() if uid in gone or uid in ghosts}

    def orders(self, live: Mapping[str, Pod], gone: Collection[str]) -> list[Order]:
        """What may have been, the likeliest first. `live` are not told of yet, `gone` are told of still."""
        come = [Step(uid, pod) for uid, pod in live.items()]
        orders = [Order(frozenset(), tuple(come))]
        if not live:
            return orders
        if len(come) > 1:
            orders.append(Order(frozenset(), tuple(reversed(come))))
        first = min(self._came.get(uid, 0) for uid in live)
        late = frozenset(uid for uid in gone if self._went.get(uid, -1) > first)
        ghosts = {uid: pod for uid, pod in self._ghosts.items() if self._went[uid] > first}
        if late or ghosts:
            taken = sorted(self._came.get(uid, 0) for uid in live)[-MOST_ORDERS:]
            orders = [self._order(live, late, ghosts, until) for until in reversed(taken)] + orders
        return orders

    def _order(self, live: Mapping[str, Pod], late: frozenset[str], ghosts: Mapping[str, Pod], until: int) -> Order:
        """Pods that came up to some time were taken on as they came, the others after all that have gone."""
        steps = [(self._came.get(uid, 0), Step(uid, pod)) for uid, pod in ghosts.items()]
        steps += [(self._went[uid], Step(uid, None)) for uid in (*late, *ghosts)]
        for uid, pod in live.items():
            came = self._came.get(uid, 0)
            steps.append((came if came <= until else self._next + came, Step(uid, pod)))
        return Order(late, tuple(step for _, step in sorted(steps, key=lambda step: step[0])))

    def _tick(self) -> int:
        self._next += 1
        return self._next
