"""What a pod counts for on a node: one number a resource, at the time when it needs the most.

Facts: k8s.io/component-helpers/resource (`PodRequests`: sidecars beside init containers, KEP-753; the pod's own
resources take the place of its containers' sum, KEP-2837; overhead on top), pkg/scheduler/util/pod_resources.go (in
scores, a container that asks for no cpu counts as 100m, without memory as 200 MiB). Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bayplan.quantity import format_bytes
from bayplan.workload.model import Pod, Request

SCORED_CPU_MILLI = 100
SCORED_MEMORY_BYTES = 200 * 1024 * 1024


class PodNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's whole request.

    `amounts` is by Kubernetes resource (millicores, bytes, pieces), without zeroes and without `pods`.
    `scored_cpu_milli` and `scored_memory_bytes` are what it counts for where nodes are scored by how full they are.
    """

    amounts: dict[str, int]
    scored_cpu_milli: int
    scored_memory_bytes: int


def pod_needs(pod: Pod) -> PodNeeds:
    """Sum a pod up."""
    amounts = {
        "cpu": _whole_pod(pod, "cpu_milli", lambda c: c.cpu_milli) + pod.overhead_cpu_milli,
        "memory": _whole_pod(pod, "memory_bytes", lambda c: c.memory_bytes) + pod.overhead_memory_bytes,
        "ephemeral-storage": _peak(pod, lambda c: c.ephemeral_bytes),
        **_hugepages(pod),
    }
    for resource in sorted({name for c in pod.all_containers for name in c.devices}):
        amounts[resource] = _peak(pod, lambda c, name=resource: c.devices.get(name, 0))  # type: ignore[misc]
    cpu = _whole_pod(pod, "cpu_milli", lambda c: c.cpu_milli or SCORED_CPU_MILLI)
    memory = _whole_pod(pod, "memory_bytes", lambda c: c.memory_bytes or SCORED_MEMORY_BYTES)
    return PodNeeds(
        amounts={name: amount for name, amount in amounts.items() if amount},
        scored_cpu_milli=cpu + pod.overhead_cpu_milli,
        scored_memory_bytes=memory + pod.overhead_memory_bytes,
    )


def _peak(pod: Pod, amount: Callable[[Request], int]) -> int:
    return pod.peak([amount(container) for container in pod.all_containers])


def _whole_pod(pod: Pod, field: str, amount: Callable[[Request], int]) -> int:
    """The pod's own request where it has one, else what its containers need together."""
    own: int | None = None if pod.resources is None else getattr(pod.resources, field)
    return _peak(pod, amount) if own is None else own


def _hugepages(pod: Pod) -> dict[str, int]:
    own = {} if pod.resources is None else pod.resources.hugepages
    pages = {page for c in pod.all_containers for page in c.hugepages}
    amounts = {page: _peak(pod, lambda c, page=page: c.hugepages.get(page, 0)) for page in pages}  # type: ignore[misc]
    return {f"hugepages-{format_bytes(page)}": size for page, size in sorted({**amounts, **own}.items())}
