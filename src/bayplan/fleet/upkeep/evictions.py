"""Which pods are to be asked to go, when, and which never.

A pod is asked to go where it runs on a node that violates the deschedule rules of its policy, or on cards that are to
be given up, and only where that was asked for: users of Telemetry Aware Scheduling have a descheduler for it, and two
of them would evict twice. What must hold at any time: no more than so many in any minute, in all and from one node; one
of an owner at a time; none that is exempt; none that the scheduler would put back on the same node.

After a restart the times of violations begin anew, so that whoever takes over evicts later rather than twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from bayplan.fleet.telemetry.model import PolicyKey
from bayplan.fleet.upkeep.pods import PodFacts, PodIndex
from bayplan.fleet.upkeep.rates import Minute

Result = Literal["evicted", "gone", "budget", "failed"]
_LONGEST_PAUSE_S = 600.0
_UNANSWERED_S = 120.0


class EvictionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom to evict and how fast.

    `all_policies`, or those of `policies` (`namespace/name`), or pods on cards that are given up (`cards`).
    `per_minute`, `per_node_per_minute`: at most so many in any minute. `violation_s`: how long a node must have
    violated without a break. `cool_down_s`: between two pods of one owner. `budget_pause_s`: after a disruption budget
    refused, doubled each time. `local_data`: pods whose emptyDir or hostPath would be lost too.
    `dry_run`: the API server is asked whether it would, and nothing is evicted.
    """

    all_policies: bool = False
    policies: tuple[str, ...] = ()
    cards: bool = False
    per_minute: int = 10
    per_node_per_minute: int = 1
    violation_s: float = 60.0
    cool_down_s: float = 300.0
    budget_pause_s: float = 30.0
    local_data: bool = False
    dry_run: bool = False

    @property
    def evicts(self) -> bool:
        """Whether anybody is evicted at all."""
        return self.all_policies or bool(self.policies) or self.cards

    def covers(self, policy: PolicyKey) -> bool:
        """Whether pods are evicted for a policy."""
        return self.all_policies or str(policy) in self.policies


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A node that violates a policy, and why. `keeps_out`: the policy's dontschedule refuses that node too."""

    policy: PolicyKey
    node: str
    reason: str
    keeps_out: bool


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A pod to evict, and why."""

    pod: PodFacts
    reason: str


class Evictions:
    """What violates since when, and what was done about it. Mutable, pure."""

    def __init__(self, settings: EvictionSettings) -> None:
        self.settings = settings
        self.counts: dict[Result, int] = {"evicted": 0, "gone": 0, "budget": 0, "failed": 0}
        self._since: dict[tuple[str, str], float] = {}
        self._all = Minute(settings.per_minute)
        self._by_node: dict[str, Minute] = {}
        self._asked: dict[str, tuple[Eviction, float]] = {}
        self._not_before: dict[str, float] = {}
        self._refusals: dict[str, int] = {}

    def plan(
        self,
        violations: Sequence[Violation],
        given_up: Mapping[str, str],
        pods: PodIndex,
        policies_of: Callable[[PodFacts], Collection[PolicyKey]],
        now: float,
    ) -> tuple[Eviction, ...]:
        """The pods to evict now; what became of each is to be told by `result`.

        `given_up`: UIDs of pods on cards that are to be given up, and why.
        """
        self._note(violations, given_up, now)
        if not self.settings.evicts:
            return ()
        self._forget(now)
        if not self._all.has_room_for(len(self._asked) + 1, now):
            return ()
        chosen: list[Eviction] = []
        found = self._candidates(violations, given_up, pods, policies_of, now)
        for eviction in sorted({each.pod.uid: each for each in found}.values(), key=_order):
            pod = eviction.pod
            if self._may_ask(pod, now):
                self._asked[pod.uid] = eviction, now
                chosen.append(eviction)
        return tuple(chosen)

    def result(self, uid: str, result: Result, now: float) -> None:
        """What became of an eviction."""
        asked = self._asked.pop(uid, None)
        if asked is None:
            return
        self.counts[result] += 1
        pod = asked[0].pod
        if result in ("evicted", "gone"):
            self._refusals.pop(pod.owner, None)
            self._not_before[pod.owner] = now + self.settings.cool_down_s
        else:
            times = self._refusals[pod.owner] = self._refusals.get(pod.owner, 0) + 1
            pause = self.settings.budget_pause_s * 2 ** min(times - 1, 16)
            self._not_before[pod.owner] = now + min(pause, _LONGEST_PAUSE_S)
        if result == "evicted":
            self._take(pod, now)

    def why_not(self, pod: PodFacts, violation: Violation | None, now: float) -> str:
        """Why a pod is not evicted for now; empty: it could be. `violation` None: it is on cards given up."""
        settings = self.settings
        if pod.exempt:
            return pod.exempt
        if pod.has_local_data and not settings.local_data:
            return "it has data on its node (emptyDir or hostPath)"
        if violation is not None and not violation.keeps_out and violation.policy.name not in pod.avoids:
            return (
                "it could be put on the same node again: neither does dontschedule refuse that, "
                f"nor its affinity (label {violation.policy.name} NotIn violating)"
            )
        if now < self._not_before.get(pod.owner, now):
            return "a pod of the same owner was evicted lately, or refused by a disruption budget"
        return ""

    def _note(self, violations: Sequence[Violation], given_up: Mapping[str, str], now: float) -> None:
        """Since when each violates; one that stopped begins anew."""
        keys = {(str(each.policy), each.node) for each in violations} | {("", uid) for uid in given_up}
        self._since = {key: self._since.get(key, now) for key in keys}

    def _forget(self, now: float) -> None:
        for uid, (eviction, at) in list(self._asked.items()):
            if at + _UNANSWERED_S <= now:
                # Whoever asked was stopped before the answer; it may have been evicted.
                self.result(uid, "failed", now)
                self._take(eviction.pod, now)
        for owner, until in list(self._not_before.items()):
            if until <= now - _LONGEST_PAUSE_S:
                del self._not_before[owner]
                self._refusals.pop(owner, None)
        for node, minute in list(self._by_node.items()):
            if minute.is_empty(now):
                del self._by_node[node]

    def _candidates(
        self,
        violations: Sequence[Violation],
        given_up: Mapping[str, str],
        pods: PodIndex,
        policies_of: Callable[[PodFacts], Collection[PolicyKey]],
        now: float,
    ) -> Iterator[Eviction]:
        settings = self.settings
        by_node: dict[str, dict[PolicyKey, Violation]] = {}
        for each in violations:
            if settings.covers(each.policy) and self._is_ripe((str(each.policy), each.node), now):
                by_node.setdefault(each.node, {})[each.policy] = each
        for node, violated in by_node.items():
            for pod in pods.on(node):
                if not pod.exempt:
                    yield from self._of_policies(pod, violated, policies_of(pod), now)
        for uid, reason in given_up.items() if settings.cards else ():
            pod_there = pods.get(uid)
            if pod_there and self._is_ripe(("", uid), now) and not self.why_not(pod_there, None, now):
                yield Eviction(pod=pod_there, reason=reason)

    def _of_policies(
        self, pod: PodFacts, violated: Mapping[PolicyKey, Violation], policies: Collection[PolicyKey], now: float
    ) -> Iterator[Eviction]:
        for policy in policies:
            each = violated.get(policy)
            if each is not None and not self.why_not(pod, each, now):
                yield Eviction(pod=pod, reason=f"node {each.node} violates policy {policy}, deschedule: {each.reason}")

    def _is_ripe(self, key: tuple[str, str], now: float) -> bool:
        return now - self._since[key] >= self.settings.violation_s

    def _may_ask(self, pod: PodFacts, now: float) -> bool:
        """Whether rates allow it, with those that were asked and have not answered."""
        asked = [eviction.pod for eviction, _ in self._asked.values()]
        if any(other.owner == pod.owner for other in asked):
            return False
        on_node = sum(other.node == pod.node for other in asked)
        return self._all.has_room_for(len(asked) + 1, now) and self._node(pod.node).has_room_for(on_node + 1, now)

    def _take(self, pod: PodFacts, now: float) -> None:
        self._all.take(now)
        self._node(pod.node).take(now)

    def _node(self, name: str) -> Minute:
        return self._by_node.setdefault(name, Minute(self.settings.per_node_per_minute))


def _order(eviction: Eviction) -> tuple[int, float, str, str]:
    """Lowest priority first, then the youngest, then by name."""
    pod = eviction.pod
    return pod.priority, -pod.created_at, pod.full_name, pod.uid
