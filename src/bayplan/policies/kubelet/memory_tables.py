"""What memory there is to hand out on each NUMA node: all that cadvisor tells of, without what is reserved.

The kubelet counts in unsigned 64-bit integers. A node with less than is reserved on it is left with almost 2^64 bytes;
`exact` keeps that, otherwise such a node has nothing.

Facts: getDefaultMachineState in pkg/kubelet/cm/memorymanager/policy_static.go of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bayplan.policies.kubelet.state import Memory
from bayplan.quantity import hugepages_resource

WORD = 2**64


class SeenNode(msgspec.Struct, frozen=True, kw_only=True):
    """A NUMA node as cadvisor tells of it: all of its memory, and pages by page size in bytes."""

    id: int
    memory_bytes: int
    hugepages: dict[int, int] = {}


def allocatable_memory(nodes: Sequence[SeenNode], reserved: Mapping[int, Mapping[str, int]], *, exact: bool) -> Memory:
    """Bytes by type and position of the node; -1 where a node has no such type."""

    def left(amount: int) -> int:
        return amount % WORD if exact else max(0, amount)

    pages = {hugepages_resource(page): page for page in sorted({page for node in nodes for page in node.hugepages})}
    table: dict[str, list[int]] = {"memory": [], **{kind: [] for kind in pages}}
    for node in nodes:
        huge = sum(page * count for page, count in node.hugepages.items())
        own = reserved.get(node.id, {})
        table["memory"].append(left(node.memory_bytes - own.get("memory", 0) - huge))
        for kind, page in pages.items():
            there = page in node.hugepages
            table[kind].append(left(page * node.hugepages[page] - own.get(kind, 0)) if there else -1)
    return {kind: tuple(column) for kind, column in table.items()}
