"""Memory and huge pages as resources: what is promised from a group of nodes must be there together.

Several blocks can lie on overlapping groups of nodes. They fit if the bytes of each block can be laid on its nodes with
no node overfull. Groups that are equal or apart, which is nearly always, are settled by their sums; others by moving
bytes from node to node until everything has a place (augmenting paths; Ford and Fulkerson's method).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import msgspec

from bayplan.idset import NodeSet, bits
from bayplan.machine import Machine
from bayplan.quantity import format_size, hugepages_resource
from bayplan.resources.decision import Grant, MemoryBlock
from bayplan.resources.effects import Effects
from bayplan.resources.plugin import ConflictError

Promised = Mapping[tuple[str, int], int]
"""(type, mask of nodes) -> bytes promised from these nodes together, none of them zero."""


class MemoryHoldings(msgspec.Struct, frozen=True):
    """Blocks by (pod, container), and their sums."""

    blocks: Mapping[tuple[str, str], tuple[MemoryBlock, ...]]
    promised: Promised


class MemoryResource:
    """Memory by node and type."""

    name = "memory"

    def empty(self, machine: Machine) -> MemoryHoldings:
        """See `ResourcePlugin.empty`."""
        return MemoryHoldings({}, {})

    def free(self, machine: Machine, holdings: MemoryHoldings) -> dict[str, int]:
        """Bytes by type that are not promised, over all nodes."""
        amounts = {kind: sum(by_node.values()) for kind, by_node in _capacity(machine).items()}
        for (kind, _), size in holdings.promised.items():
            amounts[kind] -= size
        return amounts

    def take(self, machine: Machine, holdings: MemoryHoldings, grant: Grant) -> MemoryHoldings:
        """See `ResourcePlugin.take`."""
        blocks = tuple(block for block in grant.memory if block.bytes)
        if not blocks:
            return holdings
        promised = dict(holdings.promised)
        for block in blocks:
            if block.bytes < 0:
                raise ConflictError(block.type, f"{grant.pod}/{grant.container}", f"{block.bytes} bytes promised")
            key = (block.type, block.nodes.mask)
            promised[key] = promised.get(key, 0) + block.bytes
        for block in blocks:
            self._check(machine, promised, grant, block)
        taker = (grant.pod, grant.container)
        held = holdings.blocks.get(taker, ())
        return MemoryHoldings({**holdings.blocks, taker: (*held, *blocks)}, promised)

    def give_back(self, machine: Machine, holdings: MemoryHoldings, grant: Grant) -> MemoryHoldings:
        """See `ResourcePlugin.give_back`."""
        held = holdings.blocks.get((grant.pod, grant.container))
        if held is None:
            return holdings
        promised = dict(holdings.promised)
        for block in held:
            key = (block.type, block.nodes.mask)
            promised[key] -= block.bytes
            if not promised[key]:
                del promised[key]
        blocks = dict(holdings.blocks)
        del blocks[grant.pod, grant.container]
        return MemoryHoldings(blocks, promised)

    def effects(self, machine: Machine, grant: Grant, effects: Effects) -> Effects:
        """The memory nodes of the cpuset, and limits for the huge pages that were granted."""
        pages = {
            page: sum(b.bytes for b in grant.memory if b.type == hugepages_resource(page))
            for page in _page_sizes(machine)
        }
        return msgspec.structs.replace(
            effects,
            memory_nodes=grant.memory_nodes or None,
            hugepages={page: size for page, size in pages.items() if size} or None,
        )

    def _check(self, machine: Machine, promised: Promised, grant: Grant, block: MemoryBlock) -> None:
        capacity = _capacity(machine).get(block.type, {})
        demands = _touching(promised, block)
        union = 0
        for mask in demands:
            union |= mask
        asked = sum(demands.values())
        there = sum(size for node, size in capacity.items() if union >> node & 1)
        nodes = union
        if asked <= there and len(demands) > 1 and not _can_be_laid(demands, capacity):
            nodes = block.nodes.mask
            asked = sum(size for mask, size in demands.items() if not mask & ~nodes)
            there = sum(size for node, size in capacity.items() if nodes >> node & 1)
        elif asked <= there:
            return
        problem = (
            f"{format_size(asked)} promised from nodes {NodeSet.of_mask(nodes)}, which have {format_size(there)}"
            if asked > there
            else f"what is promised from nodes {NodeSet.of_mask(union)} cannot be laid on them"
        )
        raise ConflictError(block.type, f"{grant.pod}/{grant.container}", problem)


def _touching(promised: Promised, block: MemoryBlock) -> dict[int, int]:
    """Mask of nodes -> bytes, for the block's group and all that are connected with it."""
    rest = {mask: size for (kind, mask), size in promised.items() if kind == block.type}
    union = block.nodes.mask
    found = {union: rest.pop(union)}
    grown = True
    while grown:
        near = [mask for mask in rest if mask & union]
        grown = bool(near)
        for mask in near:
            found[mask] = rest.pop(mask)
            union |= mask
    return found


def _can_be_laid(demands: Mapping[int, int], capacity: Mapping[int, int]) -> bool:
    """Whether every group's bytes find room on its nodes."""
    free = dict(capacity)
    laid: dict[tuple[int, int], int] = {}
    for mask, size in sorted(demands.items(), key=lambda item: item[0].bit_count()):
        left = size
        while left > 0:
            path = _way_to_room(mask, demands, free, laid)
            if path is None:
                return False
            moved = min([left, free[path[-1][1]], *(laid[old] for old in _left(path))])
            free[path[-1][1]] -= moved
            for old in _left(path):
                laid[old] -= moved
            for new in path:
                laid[new] = laid.get(new, 0) + moved
            left -= moved
    return True


def _left(path: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """On a way (group, node), (group, node), ...: each later group leaves the node before for its new one."""
    return [(group, before[1]) for before, (group, _) in pairwise(path)]


def _way_to_room(
    mask: int, demands: Mapping[int, int], free: Mapping[int, int], laid: Mapping[tuple[int, int], int]
) -> list[tuple[int, int]] | None:
    """The shortest row of (group, node) that makes room for one group: breadth first, each node once."""
    ways = [[(mask, node)] for node in bits(mask) if node in free]
    seen = {way[0][1] for way in ways}
    for way in ways:  # grows while it is walked
        node = way[-1][1]
        if free[node] > 0:
            return way
        for group in demands:
            on = bits(group) if laid.get((group, node), 0) > 0 else ()
            fresh = [other for other in on if other in free and other not in seen]
            seen.update(fresh)
            ways.extend([*way, (group, other)] for other in fresh)
    return None


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
            table.setdefault(hugepages_resource(pool.page_bytes), {})[node.id] = size
        table["memory"][node.id] = max(0, node.memory_bytes - huge)
    return table
