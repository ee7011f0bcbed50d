"""Checks put together: who is refused by which, how scores add up, what a preemption is good for.

Each check is asked about the nodes that the ones before it left, so that a node has one reason, the first. Scores are
the weighted mean of the checks that have some, rounded, so that they stay within 0 to 10 whatever takes part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bayplan.fleet.scheduling.checks import Check, Objections, Promise, Question
from bayplan.fleet.scheduling.events import Assumed, Event, Unassumed
from bayplan.protocols.extender.arguments import Victims
from bayplan.protocols.kubernetes import PodObject


class FilterDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Why nodes were refused, by name, and by which check: name of the check -> how many nodes."""

    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]
    refused_by: Mapping[str, int]


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """One node in an explanation: why it is refused (empty: it is not), its score, and the numbers of each check."""

    node: str
    refused_by: str
    reason: str
    score: int | None
    scores: Mapping[str, int]
    numbers: Mapping[str, Sequence[str]]


class Scheduling:
    """`checks` in the order in which they are asked, each with its weight among scores (zero: it does not score)."""

    def __init__(self, checks: Sequence[tuple[Check, int]]) -> None:
        self._checks = tuple(checks)

    def apply(self, event: Event, now: float) -> None:
        """Something happened. `Assumed` is a promise made again; whoever makes one first calls `promise`."""
        if isinstance(event, Assumed):
            self.promise(event.pod, event.node, now)
            return
        for check, _ in self._checks:
            check.apply(event, now)

    def wants(self, pod: PodObject) -> bool:
        """Whether what becomes of a pod matters to any check."""
        return any(check.wants(pod) for check, _ in self._checks)

    def filter(self, question: Question, now: float) -> FilterDecision:
        """Which of the nodes are refused, and why."""
        failed: dict[str, str] = {}
        unresolvable: dict[str, str] = {}
        refused_by: dict[str, int] = {}
        for check, _ in self._checks:
            if not check.concerns(question):
                continue
            found = check.objections(question, now)
            refused_by[check.name] = len(found.failed) + len(found.unresolvable)
            if refused_by[check.name]:
                failed.update(found.failed)
                unresolvable.update(found.unresolvable)
                question = _less(question, found)
        return FilterDecision(failed=failed, unresolvable=unresolvable, refused_by=refused_by)

    def prioritize(self, question: Question, now: float) -> Sequence[int]:
        """0 to 10 for each node, in the question's order; nothing where no check has a preference."""
        found = self._scores(question, now)
        if not found:
            return ()
        if len(found) == 1:
            return found[0][2]
        total = sum(weight for _, weight, _ in found)
        sums = [0] * len(question.names)
        for _, weight, scores in found:
            sums = [before + weight * score for before, score in zip(sums, scores, strict=True)]
        return [(2 * score + total) // (2 * total) for score in sums]

    def preempt(self, question: Question, victims: Mapping[str, Victims], now: float) -> dict[str, Victims]:
        """Those candidate nodes where the pod could be once their victims had gone."""
        checks = [check for check, _ in self._checks if check.concerns(question)]
        return {
            node: gone
            for node, gone in victims.items()
            if not any(check.without(question, node, gone.uids, now) for check in checks)
        }

    def promise(self, pod: PodObject, node: str, now: float) -> Promise:
        """Promise a pod its place on a node; all checks do, or none."""
        annotations: dict[str, str] = {}
        for number, (check, _) in enumerate(self._checks):
            found = check.promise(pod, node, now)
            if found.refused:
                for earlier, _ in self._checks[:number]:
                    earlier.apply(Unassumed(uid=pod.metadata.uid or ""), now)
                return found
            annotations.update(found.annotations)
        return Promise(annotations=annotations)

    def explain(self, question: Question, now: float) -> list[Explained]:
        """Everything there is to say about each of the nodes, in their order."""
        scores = self._scores(question, now)
        sums = self.prioritize(question, now)
        return [
            self._explained(question, i, now, {name: each[i] for name, _, each in scores}, sums[i] if sums else None)
            for i in range(len(question.names))
        ]

    def _explained(
        self, question: Question, position: int, now: float, scores: Mapping[str, int], score: int | None
    ) -> Explained:
        node = question.names[position]
        one = msgspec.structs.replace(question, names=(node,))
        checks = [check for check, _ in self._checks if check.concerns(one)]
        refused_by = reason = ""
        for check in checks:
            found = check.objections(one, now)
            reason = found.failed.get(node, "") or found.unresolvable.get(node, "")
            if reason:
                refused_by = check.name
                break
        return Explained(
            node=node,
            refused_by=refused_by,
            reason=reason,
            score=score,
            scores=scores,
            numbers={check.name: check.explain(one, node, now) for check in checks},
        )

    def _scores(self, question: Question, now: float) -> list[tuple[str, int, Sequence[int]]]:
        found = []
        for check, weight in self._checks:
            scores = check.scores(question, now) if weight and check.concerns(question) else None
            if scores is not None:
                found.append((check.name, weight, scores))
        return found


def _less(question: Question, refused: Objections) -> Question:
    left = [name for name in question.names if name not in refused.failed and name not in refused.unresolvable]
    return msgspec.structs.replace(question, names=left)
