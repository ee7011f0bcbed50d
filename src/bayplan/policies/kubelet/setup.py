"""From a machine and a KubeletConfiguration to what the kubelet's managers work on."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.idset import NodeSet
from bayplan.machine import Machine
from bayplan.policies.kubelet.admission import Seen
from bayplan.policies.kubelet.allocatable import node_capacity
from bayplan.policies.kubelet.configuration import KubeletConfiguration
from bayplan.policies.kubelet.memory_tables import SeenNode
from bayplan.policies.kubelet.settings import Settings
from bayplan.policies.kubelet.topology import topology_of
from bayplan.quantity import HUGEPAGES
from bayplan.resources.devices import DeviceUnit


def seen_machine(machine: Machine) -> Seen:
    """What cadvisor would tell the kubelet of a machine."""
    nodes = tuple(
        SeenNode(
            id=node.id,
            memory_bytes=node.memory_bytes,
            hugepages={pool.page_bytes: pool.count for pool in node.hugepages},
        )
        for node in machine.nodes
    )
    return Seen(topology_of(machine), nodes, machine.distances)


def offered_devices(machine: Machine) -> dict[str, tuple[DeviceUnit, ...]]:
    """The devices that the usual device plugins would offer on this machine, by extended resource."""
    offered: dict[str, list[DeviceUnit]] = {}
    for device in machine.devices:
        if device.resource:
            nodes = None if device.node is None else NodeSet([device.node])
            offered.setdefault(device.resource, []).append(DeviceUnit(id=device.address, nodes=nodes))
    return {name: tuple(units) for name, units in sorted(offered.items())}


def settings_of(
    machine: Machine, configuration: KubeletConfiguration, devices: Mapping[str, tuple[DeviceUnit, ...]]
) -> Settings:
    """The managers' settings. What the node reserves by memory type is as Node Allocatable counts it."""
    capacity = node_capacity(machine, configuration)
    kinds = ["memory", *(name for name in capacity if name.startswith(HUGEPAGES))]
    reserved = {kind: configuration.reserved(kind) for kind in kinds}
    reserved["memory"] += configuration.eviction_hard.of(capacity["memory"])
    milli = configuration.reserved("cpu")
    given = configuration.reserved_system_cpus or "cpu" in {
        *configuration.kube_reserved,
        *configuration.system_reserved,
    }
    return Settings(
        cpu_policy=configuration.cpu_manager_policy,
        cpu_options=configuration.cpu_manager_policy_options,
        reserved_cpus=configuration.reserved_system_cpus,
        reserved_cpu_milli=milli if given else None,
        memory_policy=configuration.memory_manager_policy,
        reserved_memory=configuration.reserved_memory,
        node_reserved={kind: amount for kind, amount in reserved.items() if amount},
        topology_policy=configuration.topology_manager_policy,
        scope=configuration.topology_manager_scope,
        topology_options=configuration.topology_manager_policy_options,
        feature_gates=configuration.feature_gates,
        devices=dict(devices),
    )
