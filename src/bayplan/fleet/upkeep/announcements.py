"""Events in words: nodes that a policy refuses or allows again, pods whose policy does not exist, and what was evicted.

Each is told once: a flip when it happens, a pod without its policy once in its life.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from bayplan.fleet.telemetry.model import POD_LABEL, PolicyKey
from bayplan.fleet.telemetry.verdict import Flip
from bayplan.fleet.upkeep.evictions import Eviction
from bayplan.fleet.upkeep.nodes import Foreign
from bayplan.fleet.upkeep.pods import PodFacts

_SHOWN = 10


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """What to say of an object: what was done (`action`) and why (`reason`), both CamelCase, and in words."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    action: str
    note: str
    is_warning: bool = False


class PolicyObject(msgspec.Struct, frozen=True, kw_only=True):
    """A policy as an object that can be told of."""

    api_version: str
    kind: str
    uid: str


def of_flips(flips: Iterable[Flip], policies: Mapping[PolicyKey, PolicyObject]) -> Iterator[Announcement]:
    """Which nodes policies refuse now, and which they allow again."""
    for flip in flips:
        policy = policies.get(flip.policy)
        if policy is None:
            continue
        for names, others, reason, words in (
            (flip.refused, flip.others == "refused", "NodesRefused", "may not be used by pods of this policy any more"),
            (flip.allowed, flip.others == "allowed", "NodesAllowed", "may be used by pods of this policy again"),
        ):
            if names or others:
                note = f"{_names(names, others)} {words}"
                yield _of_policy(flip.policy, policy, reason, "Evaluate", note)


def of_foreign(foreign: Iterable[Foreign], policies: Mapping[PolicyKey, PolicyObject]) -> Iterator[Announcement]:
    """Labels of others that are in the place of marks of policies."""
    keys: dict[str, list[PolicyKey]] = {}
    for key in policies:
        keys.setdefault(key.name, []).append(key)
    for each in foreign:
        for key in keys.get(each.key, ()):
            note = (
                f"node {each.node} violates this policy, but has a label {each.key}={each.value} "
                "that is not Bayplan's: it is left alone and not set to violating"
            )
            yield _of_policy(key, policies[key], "LabelTaken", "Label", note, is_warning=True)


def of_eviction(eviction: Eviction, result: str, detail: str, *, dry_run: bool) -> Announcement | None:
    """What became of an eviction; None: nothing that a person has to know of."""
    words = {
        "evicted": ("Evicted", f"{'would be evicted' if dry_run else 'evicted'}: {eviction.reason}"),
        "budget": ("EvictionRefused", f"not evicted, a disruption budget refuses: {detail}; {eviction.reason}"),
        "failed": ("EvictionFailed", f"not evicted: {detail}; {eviction.reason}"),
    }
    if result not in words:
        return None
    reason, note = words[result]
    pod = eviction.pod
    return _of_pod(pod, reason, "Evict", note, is_warning=result != "evicted")


class MissingPolicies:
    """Pods that wait for a policy that does not exist; each is told of once. Mutable, pure."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def new(
        self, waiting: Collection[PodFacts], exists: Callable[[str, str], bool], *, denies: bool
    ) -> Iterator[Announcement]:
        """Those not told of yet. `exists`: whether a pod of a namespace has the policy of a name."""
        self._told &= {pod.uid for pod in waiting}
        for pod in waiting:
            named = pod.labels.get(POD_LABEL)
            if named is None or pod.uid in self._told or exists(pod.namespace, named):
                continue
            self._told.add(pod.uid)
            means = "no node is allowed until there is" if denies else "so all nodes are allowed"
            note = f"label {POD_LABEL} names policy {named}, and there is none of that name in {pod.namespace}: {means}"
            yield _of_pod(pod, "PolicyMissing", "Schedule", note, is_warning=True)


def _of_policy(
    key: PolicyKey, policy: PolicyObject, reason: str, action: str, note: str, *, is_warning: bool = False
) -> Announcement:
    return Announcement(
        api_version=policy.api_version,
        kind=policy.kind,
        namespace=key.namespace,
        name=key.name,
        uid=policy.uid,
        reason=reason,
        action=action,
        note=note,
        is_warning=is_warning,
    )


def _of_pod(pod: PodFacts, reason: str, action: str, note: str, *, is_warning: bool = False) -> Announcement:
    return Announcement(
        api_version="v1",
        kind="Pod",
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        reason=reason,
        action=action,
        note=note,
        is_warning=is_warning,
    )


def _names(names: Collection[str], others: bool) -> str:
    shown = sorted(names)[:_SHOWN]
    more = len(names) - len(shown)
    parts = [", ".join(shown)] if shown else []
    parts += [f"{more} more"] if more else []
    parts += ["all nodes without a value"] if others else []
    return " and ".join(parts)
