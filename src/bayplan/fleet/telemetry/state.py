"""A policy with what watches its rules, and what was last made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from bayplan.fleet.selectors import meets, node_meets
from bayplan.fleet.telemetry.labeling import PolicyLabels, as_of_now, label, mark
from bayplan.fleet.telemetry.model import (
    DESCHEDULE,
    DONTSCHEDULE,
    LABELING,
    SCHEDULEONMETRIC,
    Condition,
    MetricKey,
    Policy,
    PolicyKey,
    Strategy,
    TelemetrySettings,
)
from bayplan.fleet.telemetry.readings import EMPTY, Table
from bayplan.fleet.telemetry.reasons import ORIGINAL, why
from bayplan.fleet.telemetry.rule_fields import LABEL_PREFIX
from bayplan.fleet.telemetry.scoring import NO_RANKING, Ranking, rank
from bayplan.fleet.telemetry.verdict import Verdict
from bayplan.fleet.telemetry.violations import Outcome, Watched, judge
from bayplan.fleet.telemetry.watch import Watch


class PolicyState:
    """One policy in an engine. `selected`: the nodes that it is for, of those that are known; None: all."""

    def __init__(self, policy: Policy, settings: TelemetrySettings, watch: Callable[[Condition], Watch]) -> None:
        self.policy = policy
        self._settings = settings
        self.watched: dict[str, tuple[Watched, ...]] = {
            name: tuple(Watched(rule, watch(rule.condition)) for rule in strategy.rules)
            for name, strategy in _strategies(policy)
        }
        self._metrics: dict[str, frozenset[MetricKey]] = {
            name: frozenset(rule.condition.metric for rule, _ in watched) for name, watched in self.watched.items()
        }
        self._metrics[SCHEDULEONMETRIC] = frozenset(score.metric for score in policy.scheduleonmetric or ())
        self.selected: set[str] | None = set() if policy.node_selector else None
        self.ranking: Ranking = NO_RANKING
        self.verdict = Verdict(policies=(policy.key,))
        self._labels: PolicyLabels | None = None
        self._marks: PolicyLabels | None = None
        self._violators: Mapping[str, str] = {}

    @property
    def metrics(self) -> frozenset[MetricKey]:
        """All metrics that it uses."""
        return frozenset().union(*self._metrics.values())

    def conditions(self) -> set[Condition]:
        """The conditions of its rules."""
        return {rule.condition for watched in self.watched.values() for rule, _ in watched}

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it is for a node."""
        return node_meets(self.policy.node_selector or (), name, labels)

    def is_for(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether its selector takes a pod."""
        requirements = self.policy.pod_selector
        return (
            requirements is not None
            and self.reaches(namespace)
            and all(meets(each, labels.get(each.key)) for each in requirements)
        )

    def reaches(self, namespace: str) -> bool:
        """Whether it is for pods of a namespace."""
        reached = self.policy.namespaces or (self.policy.namespace,)
        return namespace in reached or "*" in reached

    def remake(
        self, metric: MetricKey | None, tables: Mapping[MetricKey, Table], nodes: Mapping[str, object], now: float
    ) -> bool:
        """Make the verdict anew as far as a metric is about it (None: all of it); whether it may refuse other nodes."""
        if self._concerns(SCHEDULEONMETRIC, metric):
            scores = self.policy.scheduleonmetric or ()
            self.ranking = rank(
                scores, [tables.get(score.metric, EMPTY) for score in scores], self._frozen_selection(), now
            )
        if self._concerns(LABELING, metric):
            self._labels = None
        if self._concerns(DESCHEDULE, metric):
            self._marks = None
        refilters = self._concerns(DONTSCHEDULE, metric)
        refusing = self._refusing(nodes) if refilters else self.verdict
        ranking = self.ranking
        watches = [watch.next_at for _, watch in self.watched.get(DONTSCHEDULE, ())]
        self.verdict = Verdict(
            policies=(self.policy.key,),
            refused=refusing.refused,
            judged=refusing.judged,
            elsewhere=refusing.elsewhere,
            scores=ranking.scores,
            ranked=ranking.ranked,
            millionths=ranking.millionths,
            has_scores=bool(self.policy.scheduleonmetric),
            made_at=now,
            next_change_at=min([*watches, ranking.next_at]),
        )
        return refilters

    def labels(self, nodes: Mapping[str, object]) -> PolicyLabels | None:
        """The labels of its labeling rules; None: it has none."""
        strategy = self.policy.labeling
        if self._labels is None and strategy is not None:
            watched = as_of_now(self.watched[LABELING])
            measured: frozenset[str] = frozenset().union(*(watch.table.names for _, watch in watched))
            judged = measured if self.selected is None else frozenset(self.selected)
            known = judged if self.selected is None else frozenset(nodes)
            self._labels = label(self.policy.key, strategy, watched, judged, known)
        elif self._labels is None and self.policy.problem(LABELING):
            self._labels = PolicyLabels(policy=self.policy.key, kept_prefix=f"{LABEL_PREFIX}{self.policy.name}/")
        return self._labels

    def marks(self, nodes: Mapping[str, object]) -> PolicyLabels | None:
        """The marks of nodes that violate its deschedule rules; None: it has none."""
        strategy, key = self.policy.deschedule, self.policy.key
        if self._marks is None and strategy is not None:
            watched = as_of_now(self.watched[DESCHEDULE])
            outcome = self._judge(watched, all_of=strategy.all_of)
            judged = outcome.judged if self.selected is None else frozenset(nodes)
            self._marks = mark(key, msgspec.structs.replace(outcome, judged=judged))
            self._violators = {name: why(watched, name, all_of=strategy.all_of) for name in sorted(outcome.violating)}
        elif self._marks is None and self.policy.problem(DESCHEDULE):
            self._marks = PolicyLabels(policy=key, elsewhere_kept=frozenset((key.name,)))
        return self._marks

    def violators(self, nodes: Mapping[str, object]) -> Mapping[str, str]:
        """Node -> why it violates the deschedule rules."""
        self.marks(nodes)
        return self._violators

    def _concerns(self, strategy: str, metric: MetricKey | None) -> bool:
        return metric is None or metric in self._metrics.get(strategy, ())

    def _frozen_selection(self) -> frozenset[str] | None:
        return None if self.selected is None else frozenset(self.selected)

    def _judge(self, watched: tuple[Watched, ...], *, all_of: bool) -> Outcome:
        strategy = Strategy(rules=tuple(rule for rule, _ in watched), all_of=all_of)
        return judge(strategy, [watch for _, watch in watched], self._frozen_selection())

    def _refusing(self, nodes: Mapping[str, object]) -> Verdict:
        policy, key = self.policy, self.policy.key
        problem = policy.problem(DONTSCHEDULE)
        if problem:
            return unusable(key, f"{title(key)}cannot be used: {problem}", self._settings)
        if policy.dontschedule is None:
            return Verdict(policies=(key,))
        outcome = self._judge(self.watched[DONTSCHEDULE], all_of=policy.dontschedule.all_of)
        judged = outcome.judged if self.selected is None else frozenset(nodes)
        elsewhere = self._worded(outcome.elsewhere_why) if outcome.elsewhere else ""
        return Verdict(policies=(key,), refused=self._reasons(outcome), judged=judged, elsewhere=elsewhere)

    def _reasons(self, outcome: Outcome) -> dict[str, str]:
        strategy = self.policy.dontschedule
        texts = {**outcome.undecided, **outcome.violating}
        if strategy is not None and len(texts) <= self._settings.detailed_reasons:
            rules = self.watched[DONTSCHEDULE]
            return {name: self._worded(why(rules, name, all_of=strategy.all_of)) for name in texts}
        worded = {text: self._worded(text) for text in set(texts.values())}
        return {name: worded[text] for name, text in texts.items()}

    def _worded(self, text: str) -> str:
        return ORIGINAL if self._settings.original_messages else f"{title(self.policy.key)}{text}"


def unusable(key: PolicyKey, why_not: str, settings: TelemetrySettings) -> Verdict:
    """The verdict of a policy that does not exist or cannot be read."""
    if settings.missing_policy == "allow":
        return Verdict(policies=(key,))
    return Verdict(policies=(key,), elsewhere=ORIGINAL if settings.original_messages else why_not)


def title(key: PolicyKey) -> str:
    """What the reasons of a policy begin with."""
    return f"policy {key}, {DONTSCHEDULE}: "


def _strategies(policy: Policy) -> Iterator[tuple[str, Strategy]]:
    named = ((DONTSCHEDULE, policy.dontschedule), (DESCHEDULE, policy.deschedule), (LABELING, policy.labeling))
    return ((name, strategy) for name, strategy in named if strategy is not None)
