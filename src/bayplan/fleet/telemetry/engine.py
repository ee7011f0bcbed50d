"""All policies and the newest values together: verdicts, made when something changes.

Not thread-safe; whoever owns it calls `update` after each poll and `advance` at `next_change_at`, and looks verdicts up
in between. Time never goes backwards: an earlier `now` than before is taken for the latest one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec

from bayplan.fleet.selectors import meets, node_meets
from bayplan.fleet.telemetry.model import (
    DESCHEDULE,
    DONTSCHEDULE,
    LABELING,
    POD_LABEL,
    SCHEDULEONMETRIC,
    Condition,
    MetricKey,
    NodeSamples,
    Policy,
    PolicyKey,
    Strategy,
    TelemetrySettings,
)
from bayplan.fleet.telemetry.readings import EMPTY, Table
from bayplan.fleet.telemetry.reasons import ORIGINAL, RuleState, rule_state, why_refused
from bayplan.fleet.telemetry.scoring import NO_RANKING, Ranking, rank
from bayplan.fleet.telemetry.spans import NEVER
from bayplan.fleet.telemetry.verdict import Flip, Verdict, flip, together
from bayplan.fleet.telemetry.violations import NOTHING, Outcome, Watched, judge
from bayplan.fleet.telemetry.watch import Watch

_MOST_MERGED = 1024


class MetricAge(msgspec.Struct, frozen=True, kw_only=True):
    """How fresh a metric is: ages in seconds of its oldest and newest value, None where it has none."""

    metric: MetricKey
    nodes: int
    oldest_s: float | None = None
    newest_s: float | None = None
    polled_s: float | None = None
    failing: str = ""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy says of one node, rule by rule."""

    policy: PolicyKey
    refused: str | None
    rules: tuple[RuleState, ...] = ()
    score: int | None = None
    millionths: int | None = None
    place: int | None = None


class _State:
    """A policy, what watches its rules, and what was made of them last."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.watched: dict[str, tuple[Watched, ...]] = {}
        self.selected: set[str] | None = None if policy.node_selector is None else set()
        self.verdict = Verdict(policies=(policy.key,))
        self.ranking: Ranking = NO_RANKING
        self.metrics: dict[str, frozenset[MetricKey]] = {}

    def strategies(self) -> Iterator[tuple[str, Strategy]]:
        for name, strategy in (
            (DONTSCHEDULE, self.policy.dontschedule),
            (DESCHEDULE, self.policy.deschedule),
            (LABELING, self.policy.labeling),
        ):
            if strategy is not None:
                yield name, strategy

    def conditions(self) -> set[Condition]:
        return {rule.condition for _, strategy in self.strategies() for rule in strategy.rules}

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        requirements = self.policy.node_selector
        return not requirements or node_meets(requirements, name, labels)


class TelemetryEngine:
    """Mutable, pure: the same calls give the same answers."""

    def __init__(self, settings: TelemetrySettings | None = None) -> None:
        self.settings = settings or TelemetrySettings()
        self._states: dict[PolicyKey, _State] = {}
        self._watches: dict[Condition, Watch] = {}
        self._tables: dict[MetricKey, Table] = {}
        self._failing: dict[MetricKey, str] = {}
        self._nodes: dict[str, Mapping[str, str]] = {}
        self._unsettled: set[PolicyKey] = set()
        self._named: dict[str, list[PolicyKey]] = {}
        self._selecting: list[PolicyKey] = []
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
        found = {condition.metric for condition in self._watches}
        return frozenset(
            found | {s.metric for state in self._states.values() for s in state.policy.scheduleonmetric or ()}
        )

    def set_policy(self, policy: Policy, now: float) -> tuple[Flip, ...]:
        """Add a policy or put it in the place of the one with its namespace and name."""
        self._pass(now)
        key = policy.key
        old = self._verdict_of(key)
        state = _State(policy)
        for name, strategy in state.strategies():
            state.watched[name] = tuple(Watched(rule, self._watch(rule.condition)) for rule in strategy.rules)
            state.metrics[name] = frozenset(rule.condition.metric for rule in strategy.rules)
        state.metrics[SCHEDULEONMETRIC] = frozenset(score.metric for score in policy.scheduleonmetric or ())
        if state.selected is not None:
            state.selected.update(name for name, labels in self._nodes.items() if state.selects(name, labels))
        self._put(key, state)
        self._remake(state, None)
        self._tell(flip(key, old, state.verdict))
        self._plan()
        return self._told()

    def remove_policy(self, namespace: str, name: str, now: float) -> tuple[Flip, ...]:
        """Forget a policy; one that is not known is no error."""
        self._pass(now)
        key = PolicyKey(namespace, name)
        old = self._verdict_of(key)
        if key in self._states:
            self._put(key, None)
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
        """The newest samples of a metric, in the place of all that were known of it."""
        self._pass(now)
        self._failing.pop(metric, None)
        watches = [watch for condition, watch in self._watches.items() if condition.metric == metric]
        users = [s for s in self._states.values() if any(metric in used for used in s.metrics.values())]
        if not users:
            return self._told()
        table = self._tables[metric] = Table(samples, self._now, self._tables.get(metric), parts=bool(metric.part))
        for watch in watches:
            watch.look(table, self._now)
        for state in users:
            self._tell(self._remake(state, metric))
        self._plan()
        return self._told()

    def failed(self, metric: MetricKey, why: str, now: float) -> tuple[Flip, ...]:
        """A poll that brought nothing: old samples stay, and age."""
        self._pass(now)
        if metric in self.metrics():
            self._failing[metric] = why
        return self._told()

    def advance(self, now: float) -> tuple[Flip, ...]:
        """Let time pass: values grow old, windows are over. Returns all flips that were not told yet."""
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
        keys = {key for key in self._named.get(named or "", ()) if _reaches(self._states[key].policy, namespace)}
        if named is not None and not keys:
            keys.add(PolicyKey(namespace, named))
        keys.update(key for key in self._selecting if _selects(self._states[key].policy, namespace, labels))
        return tuple(sorted(keys))

    def ages(self, now: float) -> tuple[MetricAge, ...]:
        """How old the values of each metric in use are."""
        return tuple(self._age(metric, max(now, self._now)) for metric in sorted(self.metrics()))

    def explain(self, namespace: str, name: str, node: str, now: float) -> Explanation:
        """What a policy says of one node, with all numbers."""
        verdict = self.verdict(namespace, name, now)
        key = PolicyKey(namespace, name)
        state = self._states.get(key)
        if state is None:
            return Explanation(policy=key, refused=verdict.reason(node))
        rules = tuple(
            rule_state(strategy, watched, node, self._now)
            for strategy, watches in state.watched.items()
            for watched in watches
        )
        refused = verdict.reason(node)
        if node in verdict.refused and state.policy.dontschedule and not self.settings.original_messages:
            all_of = state.policy.dontschedule.all_of
            told = why_refused(state.watched[DONTSCHEDULE], node, all_of=all_of, now=self._now)
            refused = f"{_title(key)}{told}"
        place = verdict.ranked.index(node) + 1 if node in verdict.scores else None
        return Explanation(
            policy=key,
            refused=refused,
            rules=rules,
            score=verdict.score(node) if verdict.has_scores else None,
            millionths=verdict.millionths.get(node),
            place=place,
        )

    def _pass(self, now: float) -> None:
        """Bring everything up to a moment."""
        self._now = max(self._now, now)
        if self._next_at > self._now and not self._unsettled:
            return
        due = {id(watch) for watch in self._watches.values() if watch.next_at <= self._now}
        for watch in self._watches.values():
            if id(watch) in due:
                watch.look(watch.table, self._now)
        for key, state in self._states.items():
            stale = any(id(w.watch) in due for watches in state.watched.values() for w in watches)
            if stale or key in self._unsettled or state.ranking.next_at <= self._now:
                self._tell(self._remake(state, None))
        self._unsettled.clear()
        self._plan()

    def _plan(self) -> None:
        watches = (watch.next_at for watch in self._watches.values())
        rankings = (state.ranking.next_at for state in self._states.values())
        self._next_at = min(min(watches, default=NEVER), min(rankings, default=NEVER))

    def _remake(self, state: _State, metric: MetricKey | None) -> Flip | None:
        """Make a policy's verdict anew, as far as a metric (None: anything) is about it; gives what flipped."""
        old, key = state.verdict, state.policy.key
        if metric is None or metric in state.metrics[SCHEDULEONMETRIC]:
            state.ranking = self._rank(state)
        filters = metric is None or metric in state.metrics.get(DONTSCHEDULE, ())
        refusing = self._refusing(state) if filters else old
        ranking = state.ranking
        watches = [watched.watch.next_at for watched in state.watched.get(DONTSCHEDULE, ())]
        state.verdict = Verdict(
            policies=(key,),
            refused=refusing.refused,
            judged=refusing.judged,
            elsewhere=refusing.elsewhere,
            scores=ranking.scores,
            ranked=ranking.ranked,
            millionths=ranking.millionths,
            has_scores=bool(state.policy.scheduleonmetric),
            made_at=self._now,
            next_change_at=min([*watches, ranking.next_at]),
        )
        return flip(key, old, state.verdict) if filters else None

    def _rank(self, state: _State) -> Ranking:
        scores = state.policy.scheduleonmetric or ()
        tables = [self._tables.get(score.metric, EMPTY) for score in scores]
        selected = None if state.selected is None else frozenset(state.selected)
        return rank(scores, tables, selected, self._now)

    def _refusing(self, state: _State) -> Verdict:
        policy, key = state.policy, state.policy.key
        problem = policy.problem(DONTSCHEDULE)
        if problem:
            return self._unusable(key, f"{_title(key)}cannot be used: {problem}")
        if policy.dontschedule is None:
            return Verdict(policies=(key,))
        outcome = self._judge(state, DONTSCHEDULE, policy.dontschedule)
        judged = outcome.judged if state.selected is None else frozenset(self._nodes)
        elsewhere = self._worded(key, outcome.elsewhere_why) if outcome.elsewhere else ""
        return Verdict(policies=(key,), refused=self._reasons(state, outcome), judged=judged, elsewhere=elsewhere)

    def _reasons(self, state: _State, outcome: Outcome) -> dict[str, str]:
        key, strategy = state.policy.key, state.policy.dontschedule
        texts = {**outcome.undecided, **outcome.violating}
        if self.settings.original_messages or strategy is None:
            return dict.fromkeys(texts, ORIGINAL)
        if len(texts) <= self.settings.detailed_reasons:
            rules = state.watched[DONTSCHEDULE]
            return {name: f"{_title(key)}{why_refused(rules, name, all_of=strategy.all_of)}" for name in texts}
        worded = {text: self._worded(key, text) for text in set(texts.values())}
        return {name: worded[text] for name, text in texts.items()}

    def _judge(self, state: _State, name: str, strategy: Strategy) -> Outcome:
        watched = state.watched.get(name, ())
        selected = None if state.selected is None else frozenset(state.selected)
        return judge(strategy, [each.watch for each in watched], selected) if watched else NOTHING

    def _verdict_of(self, key: PolicyKey) -> Verdict:
        state = self._states.get(key)
        return state.verdict if state is not None else self._unusable(key, f"policy {key} does not exist")

    def _unusable(self, key: PolicyKey, why: str) -> Verdict:
        if self.settings.missing_policy == "allow":
            return Verdict(policies=(key,))
        return Verdict(policies=(key,), elsewhere=ORIGINAL if self.settings.original_messages else why)

    def _worded(self, key: PolicyKey, text: str) -> str:
        return ORIGINAL if self.settings.original_messages else f"{_title(key)}{text}"

    def _put(self, key: PolicyKey, state: _State | None) -> None:
        """Put a policy's state in its place, or take it away."""
        if state is None:
            self._states.pop(key, None)
        else:
            self._states[key] = state
        self._unsettled.discard(key)
        self._named, self._selecting = {}, []
        for each, known in self._states.items():
            self._named.setdefault(each.name, []).append(each)
            if known.policy.pod_selector is not None:
                self._selecting.append(each)
        self._forget_unused()

    def _watch(self, condition: Condition) -> Watch:
        watch = self._watches.get(condition)
        if watch is None:
            watch = self._watches[condition] = Watch(condition)
            watch.look(self._tables.get(condition.metric, EMPTY), self._now)
        return watch

    def _forget_unused(self) -> None:
        used = {condition for state in self._states.values() for condition in state.conditions()}
        for condition in self._watches.keys() - used:
            del self._watches[condition]
        metrics = self.metrics()
        for metric in (self._tables.keys() | self._failing.keys()) - metrics:
            self._tables.pop(metric, None)
            self._failing.pop(metric, None)
        self._merged.clear()

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


def _title(key: PolicyKey) -> str:
    return f"policy {key}, {DONTSCHEDULE}: "


def _reaches(policy: Policy, namespace: str) -> bool:
    reached = policy.namespaces or (policy.namespace,)
    return namespace in reached or "*" in reached


def _selects(policy: Policy, namespace: str, labels: Mapping[str, str]) -> bool:
    return _reaches(policy, namespace) and all(meets(r, labels.get(r.key)) for r in policy.pod_selector or ())
