"""All policies and the newest values together: verdicts, made when something changes.

Not thread-safe; whoever owns it calls `update` after each poll and `advance` at `next_change_at`, and looks verdicts up
in between. Time never goes backwards: an earlier `now` than before is taken for the latest one. What every mutator
returns are the flips that were not told yet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from bayplan.fleet.telemetry.labeling import LabelPlan, Labels
from bayplan.fleet.telemetry.model import (
    DONTSCHEDULE,
    POD_LABEL,
    Condition,
    MetricKey,
    NodeSamples,
    Policy,
    PolicyKey,
    TelemetrySettings,
)
from bayplan.fleet.telemetry.readings import EMPTY, Table
from bayplan.fleet.telemetry.reasons import rule_state, why
from bayplan.fleet.telemetry.spans import NEVER
from bayplan.fleet.telemetry.state import PolicyState, title, unusable
from bayplan.fleet.telemetry.told import Explanation, MetricAge
from bayplan.fleet.telemetry.verdict import Flip, Verdict, flip, together
from bayplan.fleet.telemetry.watch import Watch

_MOST_MERGED = 1024


class TelemetryEngine:
    """Mutable, pure: the same calls give the same answers."""

    def __init__(self, settings: TelemetrySettings | None = None) -> None:
        self.settings = settings or TelemetrySettings()
        self._states: dict[PolicyKey, PolicyState] = {}
        self._named: dict[str, list[PolicyKey]] = {}
        self._selecting: list[PolicyKey] = []
        self._watches: dict[Condition, Watch] = {}
        self._tables: dict[MetricKey, Table] = {}
        self._failing: dict[MetricKey, str] = {}
        self._nodes: dict[str, Mapping[str, str]] = {}
        self._unsettled: set[PolicyKey] = set()
        self._untold: list[Flip] = []
        self._merged: dict[tuple[PolicyKey, ...], tuple[tuple[Verdict, ...], Verdict]] = {}
        self._next_at = NEVER
        self._now = -math.inf

    @property
    def next_change_at(self) -> float:
        """When something changes by time alone, so that `advance` must be called; infinite: never."""
        return self._now if self._unsettled else self._next_at

    @property
    def policies(self) -> tuple[Policy, ...]:
        """All policies, by namespace and name."""
        return tuple(self._states[key].policy for key in sorted(self._states))

    def metrics(self) -> frozenset[MetricKey]:
        """What sources have to fetch."""
        return frozenset().union(*(state.metrics for state in self._states.values()))

    def set_policy(self, policy: Policy, now: float) -> tuple[Flip, ...]:
        """Add a policy or put it in the place of the one with its namespace and name."""
        self._pass(now)
        key = policy.key
        old = self._verdict_of(key)
        # Watches of the old policy live until the new one has taken over those that it needs: no value is lost between.
        state = PolicyState(policy, self.settings, self._watch)
        if state.selected is not None:
            state.selected.update(name for name, labels in self._nodes.items() if state.selects(name, labels))
        self._states[key] = state
        self._tidy(key)
        state.remake(None, self._tables, self._nodes, self._now)
        self._tell(flip(key, old, state.verdict))
        self._plan()
        return self._told()

    def remove_policy(self, namespace: str, name: str, now: float) -> tuple[Flip, ...]:
        """Forget a policy; one that is not known is no error."""
        self._pass(now)
        key = PolicyKey(namespace, name)
        old = self._verdict_of(key)
        if self._states.pop(key, None) is not None:
            self._tidy(key)
            self._tell(flip(key, old, self._verdict_of(key)))
            self._plan()
        return self._told()

    def set_node(self, name: str, labels: Mapping[str, str]) -> None:
        """A node and its labels, for policies that select nodes. What flips is told by the next `advance`."""
        known = name in self._nodes
        self._nodes[name] = labels
        for key, state in self._states.items():
            if state.selected is None:
                continue
            selects = state.selects(name, labels)
            if not known or selects != (name in state.selected):
                (state.selected.add if selects else state.selected.discard)(name)
                self._unsettled.add(key)

    def remove_node(self, name: str) -> None:
        """Forget a node."""
        if self._nodes.pop(name, None) is None:
            return
        for key, state in self._states.items():
            if state.selected is not None:
                state.selected.discard(name)
                self._unsettled.add(key)

    def update(self, metric: MetricKey, samples: NodeSamples, now: float) -> tuple[Flip, ...]:
        """The newest samples of a metric, in the place of all that were known of it.

        Raises `InputError` for several values of a node where the metric has no parts.
        """
        self._pass(now)
        users = [state for state in self._states.values() if metric in state.metrics]
        if users:
            table = Table(samples, self._now, self._tables.get(metric), parts=bool(metric.part))
            self._tables[metric] = table
            self._failing.pop(metric, None)
            for condition, watch in self._watches.items():
                if condition.metric == metric:
                    watch.look(table, self._now)
            for state in users:
                self._remake(state, metric)
            self._plan()
        return self._told()

    def failed(self, metric: MetricKey, reason: str, now: float) -> tuple[Flip, ...]:
        """A poll that brought nothing: old samples stay, and age."""
        self._pass(now)
        if metric in self.metrics():
            self._failing[metric] = reason
        return self._told()

    def advance(self, now: float) -> tuple[Flip, ...]:
        """Let time pass: values grow old, windows of time are over."""
        self._pass(now)
        return self._told()

    def verdict(self, namespace: str, name: str, now: float) -> Verdict:
        """What one policy says."""
        self._pass(now)
        return self._verdict_of(PolicyKey(namespace, name))

    def verdict_for(self, namespace: str, labels: Mapping[str, str], now: float) -> Verdict:
        """What all policies say together that are for a pod of a namespace with these labels."""
        self._pass(now)
        keys = self.policies_for(namespace, labels)
        if len(keys) == 1:
            return self._verdict_of(keys[0])
        verdicts = tuple(self._verdict_of(key) for key in keys)
        found = self._merged.get(keys)
        if found is not None and all(a is b for a, b in zip(found[0], verdicts, strict=True)):
            return found[1]
        if len(self._merged) >= _MOST_MERGED:
            self._merged.clear()
        merged = together(verdicts)
        self._merged[keys] = (verdicts, merged)
        return merged

    def policies_for(self, namespace: str, labels: Mapping[str, str]) -> tuple[PolicyKey, ...]:
        """The policies that are for a pod, in order; one that its label names and that does not exist is among them."""
        named = labels.get(POD_LABEL)
        keys = {key for key in self._named.get(named or "", ()) if self._states[key].reaches(namespace)}
        if named is not None and not keys:
            keys.add(PolicyKey(namespace, named))
        keys.update(key for key in self._selecting if self._states[key].is_for(namespace, labels))
        return tuple(sorted(keys))

    def labels(self, now: float) -> LabelPlan:
        """The labels that nodes should have: of labeling, and the marks of deschedule."""
        self._pass(now)
        states = [self._states[key] for key in sorted(self._states)]
        labeling = [labels for state in states if (labels := state.labels(self._nodes)) is not None]
        marking = [marks for state in states if (marks := state.marks(self._nodes)) is not None]
        names = frozenset(marks.policy.name for marks in marking)
        return LabelPlan(labeling=tuple(labeling), marking=tuple(marking), marks=names)

    def wanted_labels(self, now: float) -> dict[str, Labels]:
        """Node -> the labels that it should have, for the nodes that should have any."""
        plan = self.labels(now)
        names = {name for each in (*plan.labeling, *plan.marking) for name in each.wanted}
        return {name: plan.for_node(name).wanted for name in sorted(names)}

    def deschedule(self, now: float) -> dict[PolicyKey, Mapping[str, str]]:
        """Policy -> the nodes that violate its deschedule rules, and why."""
        self._pass(now)
        return {
            key: self._states[key].violators(self._nodes)
            for key in sorted(self._states)
            if self._states[key].policy.deschedule is not None
        }

    def ages(self, now: float) -> tuple[MetricAge, ...]:
        """How old the values of each metric in use are."""
        return tuple(self._age(metric, max(now, self._now)) for metric in sorted(self.metrics()))

    def explain(self, namespace: str, name: str, node: str, now: float) -> Explanation:
        """What a policy says of one node, with all numbers."""
        verdict = self.verdict(namespace, name, now)
        key = PolicyKey(namespace, name)
        refused = verdict.reason(node)
        state = self._states.get(key)
        if state is None:
            return Explanation(policy=key, refused=refused)
        rules = [(strategy, each) for strategy, watched in state.watched.items() for each in watched]
        if node in verdict.refused and state.policy.dontschedule is not None:
            all_of = state.policy.dontschedule.all_of
            refused = title(key) + why(state.watched[DONTSCHEDULE], node, all_of=all_of, now=self._now)
        return Explanation(
            policy=key,
            refused=refused,
            rules=tuple(rule_state(strategy, each, node, self._now) for strategy, each in rules),
            score=verdict.score(node) if verdict.has_scores else None,
            millionths=verdict.millionths.get(node),
            place=verdict.ranked.index(node) + 1 if node in verdict.scores else None,
        )

    def _pass(self, now: float) -> None:
        """Bring everything up to a moment."""
        self._now = max(self._now, now)
        if self._next_at > self._now and not self._unsettled:
            return
        due: set[Watch] = {watch for watch in self._watches.values() if watch.next_at <= self._now}
        for watch in due:
            watch.look(watch.table, self._now)
        for key, state in self._states.items():
            ripe = any(each.watch in due for watched in state.watched.values() for each in watched)
            if ripe or key in self._unsettled or state.ranking.next_at <= self._now:
                self._remake(state, None)
        self._unsettled.clear()
        self._plan()

    def _remake(self, state: PolicyState, metric: MetricKey | None) -> None:
        old = state.verdict
        if state.remake(metric, self._tables, self._nodes, self._now):
            self._tell(flip(state.policy.key, old, state.verdict))

    def _plan(self) -> None:
        watches = (watch.next_at for watch in self._watches.values())
        rankings = (state.ranking.next_at for state in self._states.values())
        self._next_at = min(min(watches, default=NEVER), min(rankings, default=NEVER))

    def _verdict_of(self, key: PolicyKey) -> Verdict:
        state = self._states.get(key)
        return state.verdict if state is not None else unusable(key, f"policy {key} does not exist", self.settings)

    def _watch(self, condition: Condition) -> Watch:
        watch = self._watches.get(condition)
        if watch is None:
            watch = self._watches[condition] = Watch(condition)
            watch.look(self._tables.get(condition.metric, EMPTY), self._now)
        return watch

    def _tidy(self, changed: PolicyKey) -> None:
        """After a policy came or went: who is called what, and what nobody needs any more."""
        self._unsettled.discard(changed)
        self._merged.clear()
        self._named = {}
        for key in self._states:
            self._named.setdefault(key.name, []).append(key)
        self._selecting = [key for key, state in self._states.items() if state.policy.pod_selector is not None]
        used = {condition for state in self._states.values() for condition in state.conditions()}
        for condition in self._watches.keys() - used:
            del self._watches[condition]
        for metric in (self._tables.keys() | self._failing.keys()) - self.metrics():
            self._tables.pop(metric, None)
            self._failing.pop(metric, None)

    def _age(self, metric: MetricKey, now: float) -> MetricAge:
        table, failing = self._tables.get(metric), self._failing.get(metric, "")
        if table is None:
            return MetricAge(metric=metric, nodes=0, failing=failing)
        return MetricAge(
            metric=metric,
            nodes=len(table.ats),
            oldest_s=max(now - table.oldest, 0.0) if table.ats else None,
            newest_s=max(now - max(table.ats.values()), 0.0) if table.ats else None,
            polled_s=max(now - table.polled_at, 0.0),
            failing=failing,
        )

    def _tell(self, change: Flip | None) -> None:
        if change is not None:
            self._untold.append(change)

    def _told(self) -> tuple[Flip, ...]:
        told, self._untold = tuple(self._untold), []
        return told
