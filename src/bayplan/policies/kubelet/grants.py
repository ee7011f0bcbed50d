"""Between what the kubelet's managers remember and grants: one way for answers, the other for a restart."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.idset import CpuSet, NodeSet
from bayplan.policies.kubelet.admission import Kubelet
from bayplan.policies.kubelet.state import NO_HINT, Block, Hint, State
from bayplan.resources.decision import DeviceGrant, Grant, MemoryBlock
from bayplan.workload.model import Pod, Request

POOL = "shared"


def grants_of(state: State, pod: Pod, all_nodes: NodeSet) -> tuple[Grant, ...]:
    """What the managers hold for each container of a pod, in the order init containers, application containers."""
    shared = CpuSet.of_mask(state.shared)
    return tuple(_grant(state, pod, container, shared, all_nodes) for container in pod.all_containers)


def _grant(state: State, pod: Pod, container: Request, shared: CpuSet, all_nodes: NodeSet) -> Grant:
    uid, name = pod.uid, container.name
    cpus = state.assigned.get(uid, {}).get(name)
    hint = state.hint_of(uid, name)
    blocks = state.blocks.get(uid, {}).get(name, ())
    nodes = NodeSet()
    for block in blocks:
        nodes |= NodeSet.of_mask(block.nodes)
    given = state.given.get(uid, {}).get(name, {})
    return Grant(
        pod=uid,
        container=name,
        exclusive=CpuSet() if cpus is None else CpuSet.of_mask(cpus),
        shared=shared if cpus is None else CpuSet(),
        pool=POOL if cpus is None else "",
        memory_nodes=nodes or all_nodes,
        memory=tuple(MemoryBlock(type=b.type, nodes=NodeSet.of_mask(b.nodes), bytes=b.size) for b in blocks),
        devices=tuple(DeviceGrant(resource=resource, ids=ids) for resource, ids in sorted(given.items())),
        affinity=None if hint.nodes is None else NodeSet.of_mask(hint.nodes),
        preferred=hint.preferred,
        cpu_milli=container.cpu_milli,
        ends=container.ends,
    )


def hints_of(grants: Mapping[str, tuple[Grant, ...]]) -> dict[str, dict[str, Hint]]:
    """The Topology manager's answers for containers that hold these grants."""
    table: dict[str, dict[str, Hint]] = {}
    for uid, own in grants.items():
        hints = {g.container: Hint(None if g.affinity is None else g.affinity.mask, g.preferred) for g in own}
        known = {container: hint for container, hint in hints.items() if hint != NO_HINT}
        if known:
            table[uid] = known
    return table


def state_of(kubelet: Kubelet, pods: Mapping[str, Pod], grants: Mapping[str, tuple[Grant, ...]]) -> State:
    """What the kubelet's checkpoints would hold if these pods held these grants."""
    state = kubelet.start()
    for uid, pod in pods.items():
        state.pods[uid] = pod
        for grant in grants.get(uid, ()):
            if grant.exclusive:
                state.assigned[uid] = {**state.assigned.get(uid, {}), grant.container: grant.exclusive.mask}
                state.shared &= ~grant.exclusive.mask
            blocks = tuple(Block(b.nodes.mask, b.type, b.bytes) for b in grant.memory)
            if blocks:
                kubelet.memory_manager.reinstate(state, uid, grant.container, blocks)
            given = {d.resource: d.ids for d in grant.devices}
            if given:
                state.given[uid] = {**state.given.get(uid, {}), grant.container: given}
                for resource, ids in given.items():
                    state.in_use[resource] = state.in_use.get(resource, frozenset()) | frozenset(ids)
    return state
