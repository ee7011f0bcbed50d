"""What one kind of check says of a pod and nodes: telemetry, cards, zones each are one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from bayplan.fleet.scheduling.events import Event
from bayplan.protocols.kubernetes import PodObject


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that wants a node of `names`, and its JSON for those who read more of it."""

    pod: PodObject
    pod_json: msgspec.Raw
    names: Sequence[str]


class Objections(msgspec.Struct, frozen=True, kw_only=True):
    """Why nodes are refused, by name. `unresolvable`: not even if every pod there went."""

    failed: Mapping[str, str] = {}
    unresolvable: Mapping[str, str] = {}


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod is promised on a node: `annotations` to bind it with; or why it is not (`refused`)."""

    annotations: Mapping[str, str] = {}
    refused: str = ""


class Check(Protocol):
    """One kind of check. What does not concern a pod objects to nothing and scores nothing."""

    name: str

    def apply(self, event: Event, now: float) -> None:
        """Something happened. What does not matter here is passed over."""
        ...

    def wants(self, pod: PodObject) -> bool:
        """Whether what becomes of this pod matters here."""
        ...

    def concerns(self, question: Question) -> bool:
        """Whether it has a say about this pod at all."""
        ...

    def objections(self, question: Question, now: float) -> Objections:
        """Which of the nodes are refused, and why."""
        ...

    def scores(self, question: Question, now: float) -> Sequence[int] | None:
        """0 to 10 for each of the nodes, in their order; None: likes all the same."""
        ...

    def without(self, question: Question, node: str, uids: Sequence[str], now: float) -> str:
        """Why the pod could not be there even if those pods had gone; empty: it could."""
        ...

    def promise(self, pod: PodObject, node: str, now: float) -> Promise:
        """Count the pod on that node from now on, if it still may go there; until it is seen bound, or too long after.

        `Unassumed` takes it back.
        """
        ...

    def explain(self, question: Question, node: str, now: float) -> Sequence[str]:
        """The numbers behind what it says of one node, in lines."""
        ...
