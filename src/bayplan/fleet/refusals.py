"""Why no node got a pod, node by node and summed up as kube-scheduler sums it up.

Facts: `FitError.Error` in pkg/scheduler/framework/types.go, Kubernetes 1.36: every reason with the number of nodes
that gave it, sorted as text. What hubs said, which a real scheduler would not know, stands among the rest as
`reason: message`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import msgspec

from bayplan.fleet.filters import TERMS_CONFLICT, Objection, quantity
from bayplan.resources.decision import Decision, Notice, Refusal

UNSCHEDULABLE = "Unschedulable"
_MAX_MESSAGES = 3
_MAX_REMEDIES = 4


class Answer(NamedTuple):
    """What so many nodes said, for one of them: the texts that are counted, the refusal, what it is counted under."""

    nodes: int
    texts: tuple[str, ...]
    refusal: Refusal
    kind: str


def filter_answer(nodes: int, objections: Sequence[Objection]) -> Answer:
    """Nodes that the scheduler's filters left out."""
    texts = tuple(objection.reason for objection in objections)
    numbers = next((objection for objection in objections if objection.resource), objections[0])
    refusal = Refusal(
        reason=UNSCHEDULABLE,
        message=", ".join(texts),
        rule=f"scheduler/{numbers.plugin}",
        resource=numbers.resource,
        asked=numbers.asked,
        free=numbers.free,
        remedies=tuple(objection.remedy for objection in objections),
    )
    return Answer(nodes, texts, refusal, ", ".join(texts))


def hub_answer(nodes: int, refusal: Refusal) -> Answer:
    """Nodes whose hub refused."""
    return Answer(nodes, (f"{refusal.reason}: {refusal.message}",), refusal, refusal.reason)


def counted(answers: Collection[Answer]) -> dict[str, int]:
    """Nodes by what they are counted under, most first. Every node counts once."""
    totals: dict[str, int] = {}
    for answer in answers:
        totals[answer.kind] = totals.get(answer.kind, 0) + answer.nodes
    return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))


def summary(nodes: int, answers: Sequence[Answer], most_free: Callable[[str], int | None]) -> Refusal:
    """One refusal for all nodes. Where all lack one resource and nothing else, it has the numbers of the best node."""
    if not answers:
        message = "no nodes available to schedule pods"
        return Refusal(reason=UNSCHEDULABLE, message=message, rule="fleet/no-node", remedies=("add a node",))
    # A node that only its hub refused is the nearest to taking the pod.
    ranked = sorted(answers, key=lambda answer: (answer.refusal.reason == UNSCHEDULABLE, -answer.nodes))
    remedies = dict.fromkeys(remedy for answer in ranked for remedy in answer.refusal.remedies)
    refusal = Refusal(
        reason=UNSCHEDULABLE,
        message=f"0/{nodes} nodes are available: {_reasons(answers)}.",
        rule="fleet/no-node",
        remedies=tuple(remedies)[:_MAX_REMEDIES],
    )
    resource, asked = answers[0].refusal.resource, answers[0].refusal.asked
    if not resource or {answer.texts for answer in answers} != {(f"Insufficient {resource}",)}:
        return refusal
    free = most_free(resource)
    if nodes > 1:
        more = f"add a node with {quantity(resource, asked or 0)} of {resource} free"
        remedy = f"ask for at most {quantity(resource, free)} of {resource}, or {more}" if free else more
        refusal = msgspec.structs.replace(refusal, remedies=(remedy,))
    return msgspec.structs.replace(refusal, resource=resource, asked=asked, free=free)


def would_bind(node: str, refusal: Refusal) -> Notice:
    """The scheduler's choice is a node whose kubelet refuses."""
    return Notice(
        name="kubelet-refuses-scheduled",
        message=f"kube-scheduler would bind this pod to {node}, where the kubelet refuses it "
        f"({refusal.reason}: {refusal.message}); the pod fails there, and is not tried elsewhere",
    )


def refused(pod: str, refusal: Refusal, asked: Decision | None, notices: tuple[Notice, ...]) -> Decision | None:
    """A decision that carries what a refusal cannot: the trace of the hub that was asked first, and notices."""
    if asked is None and not notices:
        return None
    trace, warnings = (asked.trace, asked.warnings) if asked is not None else ((), ())
    return Decision(pod=pod, refusal=refusal, trace=trace, warnings=(*warnings, *notices))


def _reasons(answers: Sequence[Answer]) -> str:
    if any(answer.texts == (TERMS_CONFLICT,) for answer in answers):
        return TERMS_CONFLICT
    messages: dict[str, set[str]] = {}
    for answer in answers:
        messages.setdefault(answer.kind, set()).add(answer.texts[0])
    totals: dict[str, int] = {}
    for answer in answers:
        many = len(messages[answer.kind]) > _MAX_MESSAGES
        for text in (answer.kind,) if many else answer.texts:
            totals[text] = totals.get(text, 0) + answer.nodes
    return ", ".join(sorted(f"{count} {text}" for text, count in totals.items()))
