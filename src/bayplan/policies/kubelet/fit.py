"""The kubelet's last look at admission: do the requests of all pods fit in what the node offers?

It comes after the managers (their refusals are reported first) and looks at amounts only. Facts: generalFilter in
pkg/kubelet/lifecycle/predicate.go of Kubernetes 1.36; extended resources that the node does not have are ignored there.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.policies.kubelet.state import AdmissionError
from bayplan.quantity import HUGEPAGES
from bayplan.workload.model import Pod
from bayplan.workload.totals import pod_totals

_FIRST = ("cpu", "memory", "ephemeral-storage")


def check_fit(allocatable: Mapping[str, int], used: Mapping[str, int], pod: Pod) -> dict[str, int]:
    """What is used with this pod among the others. Raises `AdmissionError` naming the first resource that is short."""
    totals = pod_totals(pod)
    if "pods" in allocatable:
        _check("pods", 1, used.get("pods", 0), allocatable["pods"])
    for name in [*_FIRST, *(name for name in totals if name not in _FIRST)]:
        asked = totals.get(name, 0)
        there = allocatable.get(name, 0 if allocatable and name.startswith(HUGEPAGES) else None)
        if asked and there is not None:
            _check(name, asked, used.get(name, 0), there)
    return add_totals(used, totals, 1)


def add_totals(used: Mapping[str, int], totals: Mapping[str, int], sign: int) -> dict[str, int]:
    """What is used after a pod with these totals came (1) or went (-1)."""
    new = dict(used)
    for name, amount in {**totals, "pods": 1}.items():
        new[name] = new.get(name, 0) + sign * amount
    return {name: amount for name, amount in new.items() if amount}


def _check(name: str, asked: int, used: int, capacity: int) -> None:
    if asked > capacity - used:
        message = f"Node didn't have enough resource: {name}, requested: {asked}, used: {used}, capacity: {capacity}"
        raise AdmissionError(f"OutOf{name}", message, resource=name, asked=asked, free=max(0, capacity - used))
