"""Nodes of a fleet out of what a cluster tells of itself: documents of nodes, and the pods that run on them.

The hubs are those that `ZoneChecks` asks, with everything in them that holds something, so that `bayplan plan` on a
dump of a cluster and the scheduler side answer alike.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.errors import InputError
from bayplan.fleet.cluster_file import NodeSpec
from bayplan.fleet.node import FleetNode
from bayplan.fleet.pod_needs import pod_needs
from bayplan.fleet.published.checks import ZoneChecks
from bayplan.fleet.published.layout import Management
from bayplan.fleet.published.pod_objects import node_uid, pod_of
from bayplan.fleet.published.rebuilt import STAND_IN
from bayplan.idset import CpuSet
from bayplan.machine import Machine
from bayplan.machine.model import Core, MemoryNode
from bayplan.workload.notes import Note, Notes

MOST_CPUS = 4_096
_MANAGED = "kubelet"


def bare_machine(allocatable: dict[str, int]) -> Machine:
    """A machine for a node of which only sums are known: one NUMA node, whose zones refuse nothing."""
    cpus = CpuSet(range(max(1, min(MOST_CPUS, -(-allocatable.get("cpu", 0) // 1000)))))
    memory = MemoryNode(id=0, cpus=cpus, memory_bytes=allocatable.get("memory", 0))
    cores = tuple(Core(id=cpu, core_id=cpu, cpus=CpuSet([cpu]), package=0) for cpu in cpus)
    return Machine(name="not-told", online=cpus, cores=cores, packages=(), nodes=(memory,))


def bare_management() -> Management:
    """How such a node is managed: nothing is aligned."""
    return Management(policy=_MANAGED, mode="safe")


def fleet_node(
    zones: ZoneChecks, spec: NodeSpec, allocatable: Mapping[str, int] | None = None
) -> tuple[FleetNode, tuple[Note, ...]]:
    """The node with all that runs on it, and what was noticed. Raises `InputError` where its documents contradict.

    `allocatable` is for what the node itself (`spec`) does not say.
    """
    books, states = zones.books(spec.name), zones.states_of(spec.name)
    if books is None or not states:
        problem = books.problem if books is not None and books.problem else "nothing is known of its zones"
        raise InputError(f"node {spec.name}: {problem}", source=spec.source)
    state = states[0]
    policy = state.kind.policy
    offered = {name: sum(unit.healthy for unit in units) for name, units in policy.devices.items()}
    node = FleetNode(
        name=spec.name,
        hub=state.kind.hub(state.contents),
        labels=spec.labels,
        taints=spec.taints,
        unschedulable=spec.unschedulable,
        allocatable={**offered, **state.kind.allocatable, **(allocatable or {}), **spec.allocatable},
    )
    if STAND_IN in state.contents.pods:
        node.remove(STAND_IN)
    notes = Notes()
    counted = books.counted()
    for bound in books.bound:
        uid = node_uid(bound)
        if uid in state.contents.pods:
            continue
        node.add(uid, pod_needs(pod_of(bound)))
        if uid not in counted:
            notes.place = f"node {spec.name}"
            notes.add("pod-not-admitted", "a pod runs here that its policy, as far as it is told, would refuse")
    return node, notes.all()
