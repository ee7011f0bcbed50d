"""The contract of a policy: it looks, and proposes; the hub decides whether the proposal stands.

A policy holds no state. What it has to remember between calls (groups, hints, pools) is its `memo`, a value in the
ledger that it gets with every call and gives back new. In-tree policies are found as anyone else's, through the entry
point group `bayplan.policies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from bayplan.idset import CpuSet
from bayplan.resources.decision import Decision, Grant
from bayplan.workload.model import Pod

ENTRY_POINTS = "bayplan.policies"

Memo = Any
"""A policy's own value; never changed in place once given out."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy may see of a ledger: the pods with their grants, the pools of shared CPUs, its own memo."""

    pods: Mapping[str, Pod]
    grants: Mapping[str, tuple[Grant, ...]]
    pools: Mapping[str, CpuSet]
    memo: Memo


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy would have happen.

    `grants` replaces all grants of the named pods (an empty tuple: the pod holds nothing any more). `pools` are all
    pools as they would be. `tolerated` tells the hub that the policy knows that it promises something twice, because
    it answers as a system that does (the kubelet in its exact mode).
    """

    decision: Decision | None = None
    grants: Mapping[str, tuple[Grant, ...]] = {}
    pools: Mapping[str, CpuSet]
    memo: Memo
    tolerated: bool = False


class Policy(Protocol):
    """How to choose on one machine."""

    name: str

    def begin(self) -> Proposal:
        """The pools and memo of a node without pods."""

    def admit(self, view: View, pod: Pod) -> Proposal:
        """All containers of a pod, or a refusal."""

    def resize(self, view: View, pod: Pod) -> Proposal:
        """The pod that is there, asking for something else, or a refusal that changes nothing."""

    def started(self, view: View, pod: Pod, container: str) -> Proposal:
        """A container is about to start: init containers before it have ended."""

    def release(self, view: View, uid: str) -> Proposal:
        """A pod is gone."""

    def restore(self, pods: Mapping[str, Pod], grants: Mapping[str, tuple[Grant, ...]]) -> Proposal:
        """Pools and memo of a node on which these pods hold these grants. Raises `BayplanError` if that cannot be."""
