"""Nodes from a table, and the order in which ties are broken.

Two forms, told by their columns: openb's (`sn,cpu_milli,memory_mib,gpu,model`) and Bayplan's own
(`name,cpu_milli,memory_mib,cards,model`, of which `cards` and `model` may be left out). The order: `rank,sn` or
`rank,name`, each node once. Facts: the openb trace of Alibaba's cluster data (GPU v2023).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bayplan.errors import InputError
from bayplan.fleet.cards.model import CardNode
from bayplan.simulate.rows import Table, in_row, positions, read_table, whole

MIB = 1 << 20
MAX_NODES = 200_000
LONGEST_NAME = 253
OPENB = "sn"
OWN = "name"


def read_nodes(lines: Iterable[str]) -> tuple[CardNode, ...]:
    """The nodes of a table, in its order. Raises `InputError` with row and column."""
    table = read_table(lines)
    nodes: dict[str, CardNode] = {}
    for number, node in _nodes(table):
        if node.name in nodes:
            raise InputError("two nodes of one name", place=f"row {number}", value=node.name)
        if len(nodes) >= MAX_NODES:
            raise InputError("too many nodes", expected=f"at most {MAX_NODES}")
        nodes[node.name] = node
    if not nodes:
        raise InputError("no nodes", expected="a row for each node")
    return tuple(nodes.values())


def read_node_order(lines: Iterable[str], nodes: Sequence[CardNode]) -> tuple[CardNode, ...]:
    """The nodes by their rank in a table. Raises `InputError` for a node that is not there, or has no rank or two."""
    table = read_table(lines)
    name = OPENB if OPENB in table.columns else OWN
    at_rank, at_name = positions(table.columns, ("rank", name), (), strict=True)
    by_name = {node.name: node for node in nodes}
    ranked: dict[int, CardNode] = {}
    for number, row in table.rows:
        try:
            rank = whole(row[at_rank], "rank")
            node = by_name.pop(row[at_name], None)
            if node is None:
                raise InputError(
                    "no such node, or given twice",
                    place=f"column {name}",
                    value=row[at_name],
                    expected="each node once",
                )
            if rank in ranked:
                raise InputError("two nodes of one rank", place="column rank", value=rank)
        except InputError as error:
            raise in_row(error, number) from error
        ranked[rank] = node
    if by_name:
        raise InputError(f"no rank for {len(by_name)} nodes", value=next(iter(by_name)), expected="each node once")
    return tuple(ranked[rank] for rank in sorted(ranked))


def checked_name(text: str, column: str) -> str:
    """A name of a node, a pod or a model. Raises `InputError` for one that is empty, too long or not printable."""
    if not text or len(text) > LONGEST_NAME or not text.isprintable():
        raise InputError("not a name", place=f"column {column}", value=text, expected="printable text")
    return text


def _nodes(table: Table) -> Iterator[tuple[int, CardNode]]:
    openb = OPENB in table.columns
    cards = "gpu" if openb else "cards"
    required = (OPENB if openb else OWN, "cpu_milli", "memory_mib")
    at = positions(table.columns, required, (cards, "model"), strict=not openb)
    for number, row in table.rows:
        name, cpu, memory, count, model = (row[i] if i >= 0 else "" for i in at)
        try:
            node = CardNode(
                name=checked_name(name, required[0]),
                cpu_milli=whole(cpu, "cpu_milli"),
                memory_bytes=whole(memory, "memory_mib") * MIB,
                cards=whole(count, cards, 0),
                model=checked_name(model, "model") if model else "",
            )
        except InputError as error:
            raise in_row(error, number) from error
        yield number, node
