"""Which pods of one node would have to be made anew, so that another one is admitted: moves between its NUMA zones.

A kubelet moves nothing by itself: a pod that is to be elsewhere on its node is evicted and admitted again, and where it
then goes is the policy's choice. So sets of pods are taken away, fewest and cheapest first, and they and the new pod
admitted in each order, on copies of the ledger, until one is found after which all of them are there. Nothing is
guessed: what is told is what the hub answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations

import msgspec

from bayplan.hub.hub import Hub
from bayplan.hub.ledger import Ledger
from bayplan.resources.decision import Decision, Grant, Refusal
from bayplan.workload.model import Pod

TRIALS = 3000
"""No more orders than this are tried."""
LARGEST_PERMUTED = 4
"""Of larger sets, only two orders are tried: the new pod first, or last."""


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that is evicted and admitted again, with what its containers held and hold then."""

    pod: str
    cost: int
    before: tuple[Grant, ...]
    after: tuple[Grant, ...]


class ZoneAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """`order`: the uids as they are to be admitted, once all of `restarts` are evicted; the new one among them.

    `decision` is the new pod's. `complete`: all sets within the limit were tried.
    """

    restarts: tuple[Restart, ...]
    order: tuple[str, ...]
    decision: Decision
    cost: int
    complete: bool

    @property
    def found(self) -> bool:
        """Whether the pod is admitted."""
        return self.decision.refusal is None


def room_on_node(
    hub: Hub,
    pod: Pod,
    costs: Mapping[str, int],
    moves: int,
    *,
    aligned: bool = False,
    fixed: Mapping[str, str] | None = None,
) -> ZoneAdvice:
    """The fewest, of those the cheapest restarts after which the hub admits `pod`. The hub stays as it is.

    `costs` by uid (0 for others), `fixed` are uids that must stay. `aligned`: every container of the pod must have what
    it was aligned to as narrow as the machine allows.
    """
    first = _copy(hub).admit(pod)
    if _fine(first, aligned):
        return ZoneAdvice(restarts=(), order=(pod.uid,), decision=first, cost=0, complete=True)
    candidates = [
        uid for uid in hub.ledger.pods if uid not in (fixed or {}) and any(map(_pinned, hub.ledger.grants(uid)))
    ]
    trials = 0
    for count in range(1, moves + 1):
        sets = sorted(combinations(candidates, count), key=lambda uids: (sum(costs.get(uid, 0) for uid in uids), uids))
        for uids in sets:
            for order in _orders(uids, pod.uid):
                if trials == TRIALS:
                    return _none(pod, first, aligned, complete=False)
                trials += 1
                found = _tried(hub, pod, uids, order, costs, aligned)
                if found is not None:
                    return found
    return _none(pod, first, aligned, complete=True)


def _tried(
    hub: Hub, pod: Pod, uids: Sequence[str], order: Sequence[str], costs: Mapping[str, int], aligned: bool
) -> ZoneAdvice | None:
    trial = _copy(hub)
    for uid in uids:
        trial.release(uid)
    decision: Decision | None = None
    for uid in order:
        answer = trial.admit(pod if uid == pod.uid else hub.ledger.pods[uid])
        if answer.refusal is not None:
            return None
        if uid == pod.uid:
            decision = answer
    if decision is None or not _fine(decision, aligned):
        return None
    restarts = tuple(
        Restart(
            pod=hub.ledger.pods[uid].full_name,
            cost=costs.get(uid, 0),
            before=hub.ledger.grants(uid),
            after=trial.ledger.grants(uid),
        )
        for uid in uids
    )
    cost = sum(restart.cost for restart in restarts)
    return ZoneAdvice(restarts=restarts, order=tuple(order), decision=decision, cost=cost, complete=True)


def _orders(uids: Sequence[str], new: str) -> list[tuple[str, ...]]:
    """The new pod first, then last, then all others."""
    likely = [(new, *uids), (*uids, new)]
    if len(uids) + 1 > LARGEST_PERMUTED:
        return likely
    return likely + [order for order in permutations((new, *uids)) if order not in likely]


def _fine(decision: Decision, aligned: bool) -> bool:
    return decision.refusal is None and (not aligned or all(grant.preferred for grant in decision.grants))


def _pinned(grant: Grant) -> bool:
    return bool(grant.exclusive or grant.memory or grant.devices)


def _copy(hub: Hub) -> Hub:
    ledger = Ledger()
    ledger.contents = hub.ledger.contents
    return Hub(hub.machine, hub.policy, hub.plugins, ledger)


def _none(pod: Pod, first: Decision, aligned: bool, *, complete: bool) -> ZoneAdvice:
    if first.refusal is None and aligned:
        message = "admitted, but not aligned to as few NUMA nodes as the machine allows"
        refusal = Refusal(reason="NotAligned", message=message, rule="hub/aligned")
        first = Decision(pod=pod.uid, refusal=refusal, trace=first.trace)
    return ZoneAdvice(restarts=(), order=(), decision=first, cost=0, complete=complete)
