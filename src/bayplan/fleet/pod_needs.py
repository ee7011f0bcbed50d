"""What a pod counts for on a node: one number a resource, and what it counts for in scores.

Facts: pkg/scheduler/util/pod_resources.go of Kubernetes 1.36 (where nodes are scored by how full they are, a container
that asks for no cpu counts as 100m, without memory as 200 MiB, unless the pod as a whole says what it needs).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bayplan.workload.model import Pod, PodResources, Request
from bayplan.workload.totals import pod_totals

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
    whole = pod.resources or PodResources()
    return PodNeeds(
        amounts={name: amount for name, amount in pod_totals(pod).items() if amount},
        scored_cpu_milli=pod.overhead_cpu_milli
        + _scored(pod, whole.cpu_milli, lambda c: c.cpu_milli or SCORED_CPU_MILLI),
        scored_memory_bytes=pod.overhead_memory_bytes
        + _scored(pod, whole.memory_bytes, lambda c: c.memory_bytes or SCORED_MEMORY_BYTES),
    )


def _scored(pod: Pod, whole: int | None, amount: Callable[[Request], int]) -> int:
    return pod.peak([amount(container) for container in pod.all_containers]) if whole is None else whole
