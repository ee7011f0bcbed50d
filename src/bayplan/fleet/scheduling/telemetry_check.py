"""Telemetry policies as one of the checks."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.errors import InputError
from bayplan.fleet.scheduling.checks import Objections, Promise, Question
from bayplan.fleet.scheduling.events import (
    Event,
    Measured,
    NodeChanged,
    NodeGone,
    NotMeasured,
    ObjectChanged,
    ObjectGone,
)
from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.reading import is_policy, read_policy
from bayplan.fleet.telemetry.verdict import Flip
from bayplan.protocols.kubernetes import PodObject

POLICY_KINDS = ("TASPolicy.telemetry.intel.com", "TelemetryPolicy.bayplan.dev")


class TelemetryCheck:
    """Looks verdicts up. `flips` gathers what changed for pods; whoever wakes pods takes it out of there."""

    name = "telemetry"

    def __init__(self, engine: TelemetryEngine) -> None:
        self.engine = engine
        self.flips: list[Flip] = []

    def apply(self, event: Event, now: float) -> None:
        """Policies, nodes' labels and what was measured matter."""
        engine = self.engine
        match event:
            case Measured():
                self.flips += engine.update(event.metric, event.samples, now)
            case NotMeasured():
                self.flips += engine.failed(event.metric, event.why, now)
            case ObjectChanged() if is_policy(event.object):
                try:
                    policy = read_policy(event.object, engine.settings)
                except InputError:  # without a name; nothing that an API server would have stored
                    return
                self.flips += engine.set_policy(policy, now)
            case ObjectGone() if event.kind in POLICY_KINDS:
                self.flips += engine.remove_policy(event.namespace, event.name, now)
            case NodeChanged():
                engine.set_node(event.node.name, event.node.labels)
            case NodeGone():
                engine.remove_node(event.name)
            case _:
                pass

    def wants(self, pod: PodObject) -> bool:
        """Pods that run do not change what a policy says."""
        return False

    def concerns(self, question: Question) -> bool:
        """Pods that a policy is for, or that name one."""
        pod = question.pod
        return bool(self.engine.policies_for(pod.metadata.namespace or "default", pod.labels))

    def objections(self, question: Question, now: float) -> Objections:
        """The nodes that a rule forbids, and those that it cannot tell of."""
        pod = question.pod
        verdict = self.engine.verdict_for(pod.metadata.namespace or "default", pod.labels, now)
        refused = verdict.refused
        failed = {name: refused[name] for name in question.names if name in refused}
        if verdict.elsewhere:
            judged = verdict.judged
            failed.update((name, verdict.elsewhere) for name in question.names if name not in judged)
        return Objections(failed=failed)

    def scores(self, question: Question, now: float) -> Sequence[int] | None:
        """The policy's order of nodes, if it has one."""
        pod = question.pod
        verdict = self.engine.verdict_for(pod.metadata.namespace or "default", pod.labels, now)
        if not verdict.has_scores:
            return None
        scores, lowest = verdict.scores, verdict.lowest
        return [scores.get(name, lowest) for name in question.names]

    def without(self, question: Question, node: str, uids: Sequence[str], now: float) -> str:
        """A value does not change by pods going, until it is measured again."""
        found = self.objections(_about(question, node), now).failed
        return found.get(node, "")

    def promise(self, pod: PodObject, node: str, now: float) -> Promise:
        """Nothing here is used up."""
        return Promise()

    def explain(self, question: Question, node: str, now: float) -> Sequence[str]:
        """Every rule with its value and its age, and what the node's score is made of."""
        pod, lines = question.pod, []
        for key in self.engine.policies_for(pod.metadata.namespace or "default", pod.labels):
            found = self.engine.explain(key.namespace, key.name, node, now)
            lines += [f"policy {key}, {rule.strategy}: {rule.text} is {rule.state}" for rule in found.rules]
            if found.score is not None:
                place = f", place {found.place}" if found.place is not None else ", no value"
                lines.append(f"policy {key}: score {found.score}{place}")
            if found.refused:
                lines.append(f"refused: {found.refused}")
        return lines


def _about(question: Question, node: str) -> Question:
    return Question(pod=question.pod, pod_json=question.pod_json, names=(node,))
