"""What a node offers to pods: its capacity without what is reserved.

Facts: pkg/kubelet/nodestatus/setters.go (`MachineInfo`: allocatable memory is without the huge pages),
pkg/kubelet/cm/node_container_manager_linux.go (`GetNodeAllocatableReservation`); Kubernetes
1.36. Devices and local storage are not the machine's to tell and are left out.
"""

from __future__ import annotations

from bayplan.machine import Machine
from bayplan.policies.kubelet.configuration import KubeletConfiguration
from bayplan.quantity import hugepages_resource


def node_capacity(machine: Machine, configuration: KubeletConfiguration) -> dict[str, int]:
    """By resource: `cpu` in millicores, `memory` (huge pages included) and `hugepages-...` in bytes, `pods`."""
    cpus = len(machine.online)
    pods = configuration.max_pods
    if configuration.pods_per_core:
        pods = min(cpus * configuration.pods_per_core, pods)
    return {"cpu": 1000 * cpus, "memory": machine.memory_bytes, **_hugepages(machine), "pods": pods}


def node_allocatable(machine: Machine, configuration: KubeletConfiguration) -> dict[str, int]:
    """By resource, as `node_capacity`, what pods may request in all. Never below zero."""
    allocatable = {}
    capacity = node_capacity(machine, configuration)
    for resource, amount in capacity.items():
        kept = configuration.reserved(resource)
        if resource == "memory":
            kept += configuration.eviction_hard.of(amount)
        allocatable[resource] = max(0, amount - kept)
    allocatable["memory"] = max(0, allocatable["memory"] - sum(_hugepages(machine).values()))
    return allocatable


def _hugepages(machine: Machine) -> dict[str, int]:
    """Bytes by page size, of all nodes together. A size of which there are no pages is there with zero."""
    total: dict[str, int] = {}
    for node in machine.nodes:
        for pool in node.hugepages:
            name = hugepages_resource(pool.page_bytes)
            total[name] = total.get(name, 0) + pool.page_bytes * pool.count
    return dict(sorted(total.items()))
