"""What stands against changing the size of a running pod, whatever else is on the node.

Facts: ValidatePodResize in pkg/apis/core/validation (what the API server refuses), isResizeFeasible and canResizePod in
pkg/kubelet/allocation/allocation_manager.go of Kubernetes 1.36 (KEP-1287): a node's whole allocatable is the limit, and
nothing that a static manager pinned can change size.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bayplan.policies.kubelet.admission import Kubelet
from bayplan.resources.decision import Refusal
from bayplan.workload.model import Pod, Request
from bayplan.workload.totals import pod_totals


def infeasible(kubelet: Kubelet, allocatable: Mapping[str, int], old: Pod, new: Pod) -> Refusal | None:
    """The refusal of a change that can never be made here; None if it is a question of free room only."""
    problem = _invalid(old, new)
    if problem:
        return Refusal(reason="Invalid", message=problem, rule="api-server/pod-resize")
    problem = _pinned(kubelet, new)
    if problem:
        return Refusal(reason="Infeasible", message=problem, rule="kubelet/in-place-resize")
    totals = pod_totals(new)
    for name in ("cpu", "memory"):
        asked, capacity = totals[name], allocatable.get(name, totals[name])
        if asked > capacity:
            return Refusal(
                reason="Infeasible",
                message=f"Node didn't have enough capacity: {name}, requested: {asked}, capacity: {capacity}",
                rule="kubelet/resources",
                resource=name,
                asked=asked,
                free=capacity,
            )
    return None


def _invalid(old: Pod, new: Pod) -> str:
    if old.qos != new.qos:
        return "Pod QOS Class may not change as a result of resizing"
    if [_fixed(c) for c in old.all_containers] != [_fixed(c) for c in new.all_containers]:
        return "only cpu and memory resources of the containers that are there are mutable"
    return ""


def _fixed(container: Request) -> Request:
    """What a resize has to leave as it is."""
    return msgspec.structs.replace(
        container, cpu_milli=0, cpu_limit_milli=None, memory_bytes=0, memory_limit_bytes=None
    )


def _pinned(kubelet: Kubelet, pod: Pod) -> str:
    if pod.qos != "Guaranteed":
        return ""
    for manager, what in ((kubelet.cpu_manager, "CPU"), (kubelet.memory_manager, "Memory")):
        if manager.active:
            policy = "static" if what == "CPU" else "Static"
            return f'Resize is infeasible for Guaranteed Pods alongside {what} Manager policy "{policy}"'
    return ""
