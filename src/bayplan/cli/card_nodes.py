"""Nodes with cards from a cluster file or Node objects, as `simulate` and `repack` take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from bayplan.errors import InputError

if TYPE_CHECKING:
    from bayplan.fleet.cards.dialects import CardDialect
    from bayplan.fleet.cards.model import CardNode
    from bayplan.fleet.cluster_file import NodeSpec
    from bayplan.fleet.node import FleetNode


def open_offering(path: str, tell: Callable[[str], None]) -> list[FleetNode | NodeSpec]:
    """The nodes of a file, for what they say to offer; what was noticed is told. Raises `InputError`."""
    from bayplan.cli.assemble import Assembly

    assembly = Assembly("kubelet", None)
    offering = assembly.offering(path)
    for note in assembly.notes:
        tell(str(note))
    return offering


def card_nodes(offering: Iterable[FleetNode | NodeSpec], path: str, dialect: CardDialect) -> tuple[CardNode, ...]:
    """The same as nodes with cards. Raises `InputError` naming the file."""
    from bayplan.fleet.cards.dialects import card_node

    try:
        return tuple(card_node(node, dialect) for node in offering)
    except InputError as error:
        raise error.within(source=path) from error
