"""All of upkeep together: told what happens in a cluster, it says what is to be written to it.

Every replica of a controller is told everything; only the one that leads carries plans out. So whoever takes over knows
already, and what the one before did not finish comes out of the next plan.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from typing import Any, Protocol

import msgspec

from bayplan.fleet.scheduling.events import (
    Event,
    NodeChanged,
    NodeGone,
    ObjectChanged,
    ObjectGone,
    PodChanged,
    PodGone,
)
from bayplan.fleet.scheduling.telemetry_check import POLICY_KINDS, TelemetryCheck
from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import POD_LABEL, Policy, PolicyKey
from bayplan.fleet.telemetry.reading import is_policy
from bayplan.fleet.telemetry.verdict import Flip
from bayplan.fleet.upkeep.announcements import (
    Announcement,
    MissingPolicies,
    PolicyObject,
    of_eviction,
    of_flips,
    of_foreign,
)
from bayplan.fleet.upkeep.card_pods import PodPatch, pod_patches
from bayplan.fleet.upkeep.evictions import Eviction, Evictions, EvictionSettings, Result, Violation
from bayplan.fleet.upkeep.nodes import Foreign, NodeIndex, NodePatch
from bayplan.fleet.upkeep.pods import PodFacts, PodIndex, UpkeepPod
from bayplan.fleet.upkeep.status import metrics_of, status_of, status_patch
from bayplan.fleet.upkeep.wakes import Wakes, WakeSettings

_MOST_UNTOLD = 256


class UpkeepSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`period_s`: how often metrics are polled. `status_every_s`: between two writes of one policy's status."""

    period_s: float = 5.0
    status_every_s: float = 10.0
    wakes: WakeSettings = WakeSettings()
    evictions: EvictionSettings = EvictionSettings()


class GivenUpCards(Protocol):
    """Who knows of cards that are to be given up, and of the pods on them."""

    def apply(self, event: Event, now: float) -> None:
        """Something happened."""
        ...

    def descheduled(self) -> Mapping[str, str]:
        """UIDs of pods on cards that are to be given up, and why."""
        ...


class StatusPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What to write to a policy's status."""

    policy: PolicyKey
    api_version: str
    kind: str
    uid: str
    status: Mapping[str, Any]


class _Known(msgspec.Struct):
    """A policy as an object, and the status that it has."""

    object: PolicyObject
    status: Any
    written_at: float = -math.inf


class Upkeep:
    """Mutable, pure. `cards` None: cards are not looked at."""

    def __init__(self, engine: TelemetryEngine, settings: UpkeepSettings, cards: GivenUpCards | None = None) -> None:
        self.engine = engine
        self.settings = settings
        self.nodes = NodeIndex()
        self.pods = PodIndex()
        self.evictions = Evictions(settings.evictions)
        self.wakes = Wakes(settings.wakes, settings.period_s)
        self._check = TelemetryCheck(engine)
        self._cards = cards
        self._policies: dict[PolicyKey, _Known] = {}
        self._flips: deque[Flip] = deque(maxlen=_MOST_UNTOLD)
        self._foreign: frozenset[Foreign] = frozenset()
        self._missing = MissingPolicies()

    def apply(self, event: Event, now: float) -> None:
        """Something happened. Pods have to be `UpkeepPod`s. Raises `InputError` for what cannot be read."""
        match event:
            case NodeChanged():
                self.nodes.set_node(event.node)
            case NodeGone():
                self.nodes.remove_node(event.name)
            case PodChanged(pod=UpkeepPod() as pod):
                self.pods.set_pod(pod)
            case PodGone():
                self.pods.remove_pod(event.uid)
            case ObjectChanged() if is_policy(event.object):
                self._note_policy(event.object)
            case ObjectGone() if event.kind in POLICY_KINDS:
                self._policies.pop(PolicyKey(event.namespace, event.name), None)
            case _:
                pass
        self._check.apply(event, now)
        if self._cards is not None:
            self._cards.apply(event, now)
        self._take_flips(self._check.flips, now)
        self._check.flips = []

    def begin(self) -> None:
        """It is ours to write from now on: look at every node; what flipped before was told by whoever led then."""
        self._flips.clear()
        self.nodes.again(self.nodes.by_name)

    def next_at(self) -> float:
        """When a plan may change by time alone."""
        return min(self.engine.next_change_at, self.wakes.next_at)

    def node_patches(self, now: float) -> list[NodePatch]:
        """Labels of nodes, at most one patch each. What was not carried out goes to `nodes.again`."""
        self._advance(now)
        return self.nodes.patches(self.engine.labels(now))

    def wake_patches(self, now: float) -> tuple[NodePatch, ...]:
        """Nodes to touch so that waiting pods are tried again."""
        self._advance(now)
        if self.wakes.next_at > now:
            return ()
        waiting = {key for pod in self.pods.waiting for key in self._policies_of(pod)}
        return self.wakes.plan(waiting.__contains__, self.nodes.by_name, now)

    def pod_patches(self) -> list[PodPatch]:
        """Labels of pods on cards that are to be given up; none where cards are not looked at."""
        return [] if self._cards is None else pod_patches(self._cards.descheduled(), self.pods)

    def to_evict(self, now: float) -> tuple[Eviction, ...]:
        """Pods to evict; what became of each is to be told by `evicted`."""
        self._advance(now)
        given_up = {} if self._cards is None else self._cards.descheduled()
        return self.evictions.plan(self._violations(now), given_up, self.pods, self._policies_of, now)

    def evicted(self, eviction: Eviction, result: Result, detail: str, now: float) -> Announcement | None:
        """What became of an eviction, and what to say of it."""
        self.evictions.result(eviction.pod.uid, result, now)
        return of_eviction(eviction, result, detail, dry_run=self.settings.evictions.dry_run)

    def status_patches(self, now: float) -> list[StatusPatch]:
        """The policies whose status does not say what is so."""
        self._advance(now)
        ages = {age.metric: age for age in self.engine.ages(now)}
        violators, conflicts = self.engine.deschedule(now), self.engine.labels(now).conflicts
        found = []
        for policy in self.engine.policies:
            known = self._policies.get(policy.key)
            if known is None or now < known.written_at + self.settings.status_every_s:
                continue
            told = status_of(
                policy, metrics_of(policy, ages), violators.get(policy.key), conflicts.get(policy.key, {}), now
            )
            patch = status_patch(policy, told, known.status, now)
            if patch is not None:
                known.written_at = now
                found.append(_status_patch(policy, known, patch))
        return found

    def announcements(self, now: float) -> list[Announcement]:
        """What is to be told and was not yet."""
        self._advance(now)
        objects = {key: known.object for key, known in self._policies.items()}
        flips = list(self._flips)
        self._flips.clear()
        foreign = frozenset(self.nodes.foreign)
        new, self._foreign = sorted(foreign - self._foreign), foreign
        denies = self.engine.settings.missing_policy == "deny"
        return [
            *of_flips(flips, objects),
            *of_foreign(new, objects),
            *self._missing.new(self.pods.waiting, self._has_policy, denies=denies),
        ]

    def _violations(self, now: float) -> list[Violation]:
        return [
            Violation(
                policy=key,
                node=node,
                reason=reason,
                keeps_out=self.engine.verdict(key.namespace, key.name, now).reason(node) is not None,
            )
            for key, nodes in self.engine.deschedule(now).items()
            for node, reason in nodes.items()
        ]

    def _policies_of(self, pod: PodFacts) -> Collection[PolicyKey]:
        return self.engine.policies_for(pod.namespace, pod.labels)

    def _has_policy(self, namespace: str, name: str) -> bool:
        return any(
            key in self._policies for key in self.engine.policies_for(namespace, {POD_LABEL: name}) if key.name == name
        )

    def _note_policy(self, value: Mapping[str, Any]) -> None:
        metadata = value.get("metadata") or {}
        key = PolicyKey(metadata.get("namespace") or "default", metadata.get("name") or "")
        shown = PolicyObject(api_version=value["apiVersion"], kind=value["kind"], uid=metadata.get("uid") or "")
        known = self._policies.get(key)
        if known is None or known.object != shown:
            self._policies[key] = _Known(object=shown, status=value.get("status"))
        else:
            known.status = value.get("status")

    def _advance(self, now: float) -> None:
        self._take_flips(self.engine.advance(now), now)

    def _take_flips(self, flips: Collection[Flip], now: float) -> None:
        if flips:
            self._flips.extend(flips)
            self.wakes.flipped(flips, now)


def _status_patch(policy: Policy, known: _Known, patch: Mapping[str, Any]) -> StatusPatch:
    shown = known.object
    return StatusPatch(policy=policy.key, api_version=shown.api_version, kind=shown.kind, uid=shown.uid, status=patch)
