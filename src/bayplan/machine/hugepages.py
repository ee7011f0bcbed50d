"""A machine as it would be with other huge pages: for plans of nodes that are not set up yet.

A wish is written as on the kernel's command line, size first: `1Gi=16` (spread evenly over the nodes that have CPUs and
memory, lower nodes first, as `hugepages=` does at boot) or `1Gi=8@1` (on one node, as `hugepages=1:8`).
Facts: Documentation/admin-guide/kernel-parameters.txt, hugepages= and hugepagesz=.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from bayplan.errors import InputError
from bayplan.machine.model import HugepagePool, Machine, MemoryNode
from bayplan.quantity import format_bytes, format_size, parse_count

MAX_COUNT = 2**40
_WISH = re.compile(r"([^=@]+)=(\d{1,13})(?:@(\d{1,5}))?", re.ASCII)


def with_hugepages(machine: Machine, wishes: Iterable[str]) -> Machine:
    """The machine with these pools in place of those of the same size and node. Raises `InputError`."""
    pools: dict[tuple[int, int], int] = {}
    for wish in wishes:
        page, count, node = _read(machine, wish)
        homes = [node] if node is not None else [n.id for n in machine.nodes if n.cpus and n.memory_bytes]
        if not homes:
            raise InputError(
                "no memory node with CPUs to spread huge pages over", value=wish, expected="SIZE=COUNT@NODE"
            )
        for place, home in enumerate(homes):
            pools[(home, page)] = count // len(homes) + (place < count % len(homes))
    return msgspec.structs.replace(machine, nodes=tuple(_with_pools(node, pools) for node in machine.nodes))


def _read(machine: Machine, wish: str) -> tuple[int, int, int | None]:
    found = _WISH.fullmatch(wish)
    if found is None:
        raise InputError("not a wish for huge pages", value=wish, expected="like 1Gi=16 or 2Mi=512@0")
    page, count = parse_count(found.group(1)), int(found.group(2))
    node = None if found.group(3) is None else int(found.group(3))
    if page < 4096 or page & (page - 1):
        raise InputError("not the size of a page", value=found.group(1), expected="a power of two, like 2Mi or 1Gi")
    if node is not None and node not in machine.node_by_id:
        raise InputError("no such memory node", value=wish, expected=f"one of {machine.all_nodes}")
    return page, min(count, MAX_COUNT), node


def _with_pools(node: MemoryNode, pools: dict[tuple[int, int], int]) -> MemoryNode:
    table = {pool.page_bytes: pool.count for pool in node.hugepages}
    table.update({page: count for (home, page), count in pools.items() if home == node.id})
    total = sum(page * count for page, count in table.items())
    if total > node.memory_bytes:
        raise InputError(
            "more huge pages than memory",
            place=f"memory node {node.id}",
            value=", ".join(f"{format_bytes(page)}={count}" for page, count in sorted(table.items())),
            expected=f"at most {format_size(node.memory_bytes)}",
        )
    kept = tuple(HugepagePool(page_bytes=page, count=count) for page, count in sorted(table.items()))
    return msgspec.structs.replace(node, hugepages=kept)
