"""The answer of a whole plan: which pod went to which node, what it holds there, and what was refused.

Values only; `report` draws them and the command line prints them as JSON (the published schema is made from these
types).
"""

from __future__ import annotations

import msgspec

from bayplan.idset import CpuSet
from bayplan.machine import Machine
from bayplan.resources.decision import Decision, Notice, Refusal
from bayplan.workload.model import Pod


class PlannedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it stands after the plan.

    `reserved` CPUs are the system's; `shared` is the pool in which containers without exclusive CPUs run.
    `allocatable` is by resource: millicores, bytes or pieces; `used` what the pods placed here request.
    `settings` says, for people, how its resources are managed (`topologyManagerPolicy` -> `restricted`).
    """

    name: str
    machine: Machine
    policy: str
    reserved: CpuSet = CpuSet()
    shared: CpuSet = CpuSet()
    allocatable: dict[str, int] = {}
    used: dict[str, int] = {}
    settings: dict[str, str] = {}
    warnings: tuple[Notice, ...] = ()


class NodeRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why one node did not get the pod."""

    node: str
    refusal: Refusal


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """One pod's answer.

    Placed: `node` and `decision` (with its grants) are given. Refused: `node` is None, `refusal` sums it up (with one
    node it is that node's own), and `decision`, if given, has the trace of the hub that would have been chosen first.
    `elsewhere` has every node's reason, shortened to the first of each kind in a large cluster; `refused_nodes` counts
    them all by reason.
    """

    pod: Pod
    node: str | None = None
    decision: Decision | None = None
    refusal: Refusal | None = None
    elsewhere: tuple[NodeRefusal, ...] = ()
    refused_nodes: dict[str, int] = {}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen to these pods on these nodes, in the order in which the pods were given."""

    nodes: tuple[PlannedNode, ...]
    placements: tuple[Placement, ...]
    warnings: tuple[Notice, ...] = ()

    @property
    def refused(self) -> tuple[Placement, ...]:
        """Placements without a node."""
        return tuple(p for p in self.placements if p.node is None)
