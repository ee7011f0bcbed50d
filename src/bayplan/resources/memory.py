"""Memory and huge pages as resources: what is promised from a group of nodes must be there together.

Several blocks can lie on overlapping groups of nodes. They fit if, for every union of groups that touch each other,
what is promised from inside the union is no more than the union has (Hall's condition, on the unions that matter).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bayplan.idset import NodeSet
from bayplan.machine import Machine
from bayplan.quantity import format_bytes, format_size
from bayplan.resources.decision import Grant, MemoryBlock
from bayplan.resources.effects import Effects
from bayplan.resources.plugin import ConflictError

MemoryHoldings = Mapping[tuple[str, int], int]
"""(type, mask of nodes) -> bytes promised from these nodes together."""


class MemoryResource:
    """Memory by node and type."""

    name = "memory"

    def empty(self, machine: Machine) -> MemoryHoldings:
        """See `ResourcePlugin.empty`."""
        return {}

    def free(self, machine: Machine, holdings: MemoryHoldings) -> dict[str, int]:
        """Bytes by type that are not promised, over all nodes."""
        amounts = {kind: sum(by_node.values()) for kind, by_node in _capacity(machine).items()}
        for (kind, _), size in holdings.items():
            amounts[kind] -= size
        return amounts

    def take(self, machine: Machine, holdings: MemoryHoldings, grant: Grant) -> MemoryHoldings:
        """See `ResourcePlugin.take`."""
        if not grant.memory:
            return holdings
        new = dict(holdings)
        for block in grant.memory:
            key = (block.type, block.nodes.mask)
            new[key] = new.get(key, 0) + block.bytes
        for block in grant.memory:
            self._check(machine, new, grant, block)
        return new

    def give_back(self, machine: Machine, holdings: MemoryHoldings, grant: Grant) -> MemoryHoldings:
        """See `ResourcePlugin.give_back`."""
        if not grant.memory:
            return holdings
        new = dict(holdings)
        for block in grant.memory:
            key = (block.type, block.nodes.mask)
            left = new.get(key, 0) - block.bytes
            if left > 0:
                new[key] = left
            else:
                new.pop(key, None)
        return new

    def effects(self, machine: Machine, grant: Grant, effects: Effects) -> Effects:
        """The memory nodes of the cpuset, and limits for the huge pages that were granted."""
        pages = {
            page: sum(b.bytes for b in grant.memory if b.type == f"hugepages-{format_bytes(page)}")
            for page in _page_sizes(machine)
        }
        return msgspec.structs.replace(
            effects,
            memory_nodes=grant.memory_nodes or None,
            hugepages={page: size for page, size in pages.items() if size} or None,
        )

    def _check(self, machine: Machine, holdings: MemoryHoldings, grant: Grant, block: MemoryBlock) -> None:
        capacity = _capacity(machine).get(block.type, {})
        own = block.nodes.mask
        union = own
        for _ in holdings:
            grown = union
            for kind, mask in holdings:
                if kind == block.type and mask & grown:
                    grown |= mask
            if grown == union:
                break
            union = grown
        for mask in (own, union):
            promised = sum(size for (kind, m), size in holdings.items() if kind == block.type and not m & ~mask)
            there = sum(size for node, size in capacity.items() if mask >> node & 1)
            if promised > there:
                nodes = NodeSet.of_mask(mask)
                problem = f"{format_size(promised)} promised from nodes {nodes}, which have {format_size(there)}"
                raise ConflictError(block.type, f"{grant.pod}/{grant.container}", problem)


def _page_sizes(machine: Machine) -> list[int]:
    return sorted({pool.page_bytes for node in machine.nodes for pool in node.hugepages})


def _capacity(machine: Machine) -> dict[str, dict[int, int]]:
    """Type -> node -> bytes. Memory that huge pages take is not there for anything else."""
    table: dict[str, dict[int, int]] = {"memory": {}}
    for node in machine.nodes:
        huge = 0
        for pool in node.hugepages:
            size = pool.page_bytes * pool.count
            huge += size
            table.setdefault(f"hugepages-{format_bytes(pool.page_bytes)}", {})[node.id] = size
        table["memory"][node.id] = max(0, node.memory_bytes - huge)
    return table
