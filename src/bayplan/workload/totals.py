"""What a pod asks of a node in all, as the scheduler and the kubelet count it.

The peak over its containers' phases (`Pod.peak`), overhead added; resources of the pod as a whole take the place of
the sum for cpu, memory and huge pages. Facts: k8s.io/component-helpers/resource PodRequests; KEP-753, KEP-2837.
"""

from __future__ import annotations

from bayplan.quantity import hugepages_resource
from bayplan.workload.model import Pod


def pod_totals(pod: Pod) -> dict[str, int]:
    """By resource: `cpu` in millicores, `memory`, `ephemeral-storage` and `hugepages-...` in bytes, devices in pieces.

    Resources of which nothing is asked are left out, but for cpu and memory, which are always there.
    """
    everyone = pod.all_containers
    totals = {
        "cpu": pod.peak([c.cpu_milli for c in everyone]),
        "memory": pod.peak([c.memory_bytes for c in everyone]),
    }
    storage = pod.peak([c.ephemeral_bytes for c in everyone])
    if storage:
        totals["ephemeral-storage"] = storage
    for page in sorted({page for c in everyone for page in c.hugepages}):
        totals[hugepages_resource(page)] = pod.peak([c.hugepages.get(page, 0) for c in everyone])
    for name in sorted({name for c in everyone for name in c.devices}):
        totals[name] = pod.peak([c.devices.get(name, 0) for c in everyone])
    whole = pod.resources
    if whole is not None:
        if whole.cpu_milli is not None:
            totals["cpu"] = whole.cpu_milli
        if whole.memory_bytes is not None:
            totals["memory"] = whole.memory_bytes
        totals.update({hugepages_resource(page): size for page, size in whole.hugepages.items()})
    totals["cpu"] += pod.overhead_cpu_milli
    totals["memory"] += pod.overhead_memory_bytes
    return totals
