"""The last decision about each of the pods that were asked about lately, for those who ask why."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import msgspec

from bayplan.fleet.scheduling import FilterDecision, Question

# So many nodes in all decisions that are kept: 40 decisions about 5,000 nodes, 2,000 about 100.
MOST_NODES = 200_000


class Told(msgspec.Struct, kw_only=True):
    """What was decided: when it was filtered and scored (seconds since the epoch), the reasons and the scores."""

    filtered_at: float = 0.0
    asked: int = 0
    failed: Mapping[str, str] = {}
    unresolvable: Mapping[str, str] = {}
    prioritized_at: float = 0.0
    scores: Mapping[str, int] = {}


class Decided(msgspec.Struct, kw_only=True):
    """The pod and the nodes as they were asked about, and what was told."""

    question: Question
    told: Told


class Recent:
    """Keeps the newest decisions; the oldest go when those kept are about too many nodes."""

    def __init__(self, most_nodes: int = MOST_NODES) -> None:
        self._most = most_nodes
        self._nodes = 0
        self._kept: OrderedDict[str, Decided] = OrderedDict()

    def filtered(self, question: Question, decision: FilterDecision, now: float) -> None:
        """A filter request was answered."""
        told = Told(
            filtered_at=now, asked=len(question.names), failed=decision.failed, unresolvable=decision.unresolvable
        )
        self._keep(question, told)

    def prioritized(self, question: Question, scores: Sequence[int], now: float) -> None:
        """A prioritize request was answered."""
        before = self._kept.get(question.pod.full_name)
        told = before.told if before is not None else Told()
        told.prioritized_at = now
        told.scores = dict(zip(question.names, scores, strict=False))
        if before is None:
            self._keep(question, told)

    def of(self, namespace: str, name: str) -> Decided | None:
        """The last decision about a pod."""
        return self._kept.get(f"{namespace}/{name}")

    def _keep(self, question: Question, told: Told) -> None:
        name = question.pod.full_name
        before = self._kept.pop(name, None)
        if before is not None:
            self._nodes -= len(before.question.names)
        # The pod's JSON is a view of the request's body, whose memory is used again.
        own = msgspec.structs.replace(question, pod_json=msgspec.Raw(bytes(question.pod_json)))
        self._kept[name] = Decided(question=own, told=told)
        self._nodes += len(question.names)
        while self._nodes > self._most and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._nodes -= len(oldest.question.names)
