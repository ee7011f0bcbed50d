"""Memory hints where a node has less memory than is reserved on it.

The kubelet counts in unsigned 64-bit integers: such a node is left with almost 2^64 bytes, and sums over nodes wrap
around once more. What fits is then no longer closed upwards, so hints are found as the kubelet finds them, by walking
all masks. For `exact` only; Bayplan itself counts such a node as empty.

Facts: getDefaultMachineState and calculateHints in pkg/kubelet/cm/memorymanager/policy_static.go of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from bayplan.policies.kubelet.hints import Hints
from bayplan.policies.kubelet.memory_tables import WORD
from bayplan.policies.kubelet.state import KubeletPanicError, Memory

MAX_NODES = 16


class Amounts(NamedTuple):
    """What there is by type and position of the node, and what the pod may reuse by mask and type."""

    allocatable: Memory
    free: Memory
    reusable: Mapping[int, Mapping[str, int]]


def has_wrapped(allocatable: Memory) -> bool:
    """Whether some node's amount went below zero."""
    return any(amount >= WORD // 2 for amounts in allocatable.values() for amount in amounts)


def walked_hints(
    ids: Sequence[int], wanted: Mapping[str, int], amounts: Amounts, may_group: Callable[[int], bool]
) -> Hints:
    """All masks that can hold the request. `ids` are the nodes in the order of `amounts`."""
    if len(ids) > MAX_NODES:
        raise KubeletPanicError(f"more than {MAX_NODES} NUMA nodes to walk, one of them with less than is reserved")
    size = len(ids)
    hints = []
    for count in range(1, len(ids) + 1):
        for places in combinations(range(len(ids)), count):
            mask = sum(1 << ids[i] for i in places)
            if any(_total(amounts.allocatable[kind], places) < need for kind, need in wanted.items()):
                continue
            size = min(size, count)
            own = amounts.reusable.get(mask, {})
            enough = all(
                (_total(amounts.free[kind], places) + own.get(kind, 0)) % WORD >= need for kind, need in wanted.items()
            )
            if enough and may_group(mask):
                hints.append(mask)
    return Hints(None, hints, preferred_size=size)


def _total(amounts: Sequence[int], places: Sequence[int]) -> int:
    return sum(amounts[i] for i in places) % WORD
