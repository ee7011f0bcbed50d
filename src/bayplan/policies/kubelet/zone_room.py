"""What a kubelet still has on each NUMA node, and what of a pod must be found on one: the numbers behind a refusal."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.policies.kubelet.admission import Kubelet
from bayplan.policies.kubelet.cpus import whole_cpus
from bayplan.policies.kubelet.state import State
from bayplan.workload.model import Pod, Request

Room = dict[str, dict[int, int]]
"""Resource -> NUMA node -> whole CPUs, bytes or pieces. Only what some manager aligns."""


def free_by_node(kubelet: Kubelet, state: State) -> Room:
    """What nobody has been promised, of what is for pods."""
    room: Room = {}
    cpus, memory = kubelet.cpu_manager, kubelet.memory_manager
    if cpus.active:
        free = state.shared & ~cpus.reserved
        room["cpu"] = {node: (free & mask).bit_count() for node, mask in cpus.topology.node_cpus.items()}
    if memory.active:
        for kind, amounts in state.free.items():
            room[kind] = {node: max(0, amount) for node, amount in zip(memory.ids, amounts, strict=True)}
    for name, units in kubelet.device_manager.devices.items():
        taken = state.in_use.get(name, frozenset())
        by_node: dict[int, int] = {}
        for unit in units.values():
            for node in unit.nodes or ():
                by_node[node] = by_node.get(node, 0) + (unit.healthy and unit.id not in taken)
        if by_node:
            room[name] = by_node
    return room


def aligned_needs(kubelet: Kubelet, pod: Pod, containers: Sequence[Request]) -> dict[str, int]:
    """What these containers of a pod ask at their peak, in the units of `free_by_node`, without zeroes."""

    def peak(amounts: list[int]) -> int:
        return amounts[0] if len(containers) == 1 else pod.peak(amounts)

    needs = {}
    if kubelet.cpu_manager.active:
        needs["cpu"] = peak([whole_cpus(pod, c) for c in containers])
    if kubelet.memory_manager.active and pod.qos == "Guaranteed" and pod.resources is None:
        for kind in sorted({kind for c in containers for kind in c.memory_types}):
            needs[kind] = peak([c.memory_types.get(kind, 0) for c in containers])
    for name in sorted({name for c in containers for name in c.devices}):
        units = kubelet.device_manager.devices.get(name, {})
        if any(unit.nodes for unit in units.values()):
            needs[name] = peak([c.devices.get(name, 0) for c in containers])
    return {name: amount for name, amount in needs.items() if amount}
