"""Which pods of a node are in the way of another: the fewest without which it would be admitted, found by trying.

Unlike `room`, they are not to be admitted again: this says who holds what is wanted, not how to make room.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from bayplan.hub.hub import Hub
from bayplan.hub.ledger import Ledger
from bayplan.resources.decision import Grant
from bayplan.workload.model import Pod

MOST_BLOCKERS = 3
MOST_TRIED = 300


def blockers(
    hub: Hub, pod: Pod, *, tried: int = MOST_TRIED, known: Callable[[str], bool] = lambda uid: True
) -> tuple[str, ...]:
    """The uids of the fewest pods without which the hub admits `pod`, of those sets the one that holds least.

    Empty where no set of `MOST_BLOCKERS` or less is found within so many trials. `known`: uids that can be named. The
    hub stays as it is.
    """
    pods, grants = hub.ledger.pods, hub.ledger.contents.grants
    holders = [uid for uid in pods if known(uid) and any(map(_holds, grants.get(uid, ())))]
    holders.sort(key=lambda uid: (*_weight(grants[uid]), pods[uid].full_name))
    for count in range(1, MOST_BLOCKERS + 1):
        for uids in combinations(holders, count):
            if tried == 0:
                return ()
            tried -= 1
            if _admitted_without(hub, uids, pod):
                return uids
    return ()


def _admitted_without(hub: Hub, uids: tuple[str, ...], pod: Pod) -> bool:
    ledger = Ledger()
    ledger.contents = hub.ledger.contents
    trial = Hub(hub.machine, hub.policy, hub.plugins, ledger)
    for uid in uids:
        trial.release(uid)
    return trial.admit(pod).admitted


def _weight(grants: tuple[Grant, ...]) -> tuple[int, int]:
    """Devices and CPUs that it would give up."""
    devices = sum(len(granted.ids) for grant in grants for granted in grant.devices)
    return devices, sum(len(grant.exclusive) for grant in grants)


def _holds(grant: Grant) -> bool:
    return bool(grant.exclusive or grant.memory or grant.devices)
