"""The contract of a policy: it looks, and proposes; the hub decides whether the proposal stands.

A policy holds no state. What it has to remember between calls (groups, hints, pools) is its `memo`, a value in the
ledger that it gets with every call and gives back new. A pod's name, uid, owner and source must not decide whether it
is admitted: the fleet asks once for pods that are alike. In-tree policies are found as anyone else's, through the entry
point group `bayplan.policies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from bayplan.idset import CpuSet
from bayplan.machine import Machine
from bayplan.resources.decision import Decision, Grant, Notice, Refusal
from bayplan.resources.devices import DeviceUnit
from bayplan.workload.model import Pod

ENTRY_POINTS = "bayplan.policies"

Memo = Any
"""A policy's own value; never changed in place once given out."""


class NodeSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What is told to a policy of the node it is for.

    `configuration` is in the policy's own form (for the kubelet policy a `KubeletConfiguration`; None: defaults).
    `devices` are those that device plugins offer, by extended resource. `allocatable` is what pods may request in
    all, by resource; empty: not limited. `exact`: answer as the system that the policy stands for, faults included.
    """

    configuration: Any = None
    devices: Mapping[str, tuple[DeviceUnit, ...]] = {}
    allocatable: Mapping[str, int] = {}
    exact: bool = False


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
    """How to choose on one machine. A class of policies is called with (Machine, NodeSetup).

    `reserved` CPUs are kept from containers; `devices` are what is offered, by extended resource; `exact` as in
    `NodeSetup`. For people: `settings` say how the node is managed, `notices` what has to be known of it beforehand.
    """

    name: str
    reserved: CpuSet
    devices: Mapping[str, tuple[DeviceUnit, ...]]
    exact: bool
    settings: Mapping[str, str]
    notices: tuple[Notice, ...]

    def __init__(self, machine: Machine, setup: NodeSetup) -> None: ...

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

    def remedies(self, view: View, pod: Pod, refusal: Refusal) -> tuple[str, ...]:
        """What would have to change for a refused pod to be admitted, each in words. May take its time."""

    def restore(self, pods: Mapping[str, Pod], grants: Mapping[str, tuple[Grant, ...]]) -> Proposal:
        """Pools and memo of a node on which these pods hold these grants. Raises `BayplanError` if that cannot be."""
