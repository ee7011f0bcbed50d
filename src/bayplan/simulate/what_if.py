"""What if the fleet were another: `add 20 x dgx-h100`, `remove 10 x G2`, `drain NODE`. A pure change of its nodes.

What a kind of node is named by is for `node_kinds`. The pods that come stay the same.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence

from bayplan.errors import InputError
from bayplan.fleet.cards.model import CardNode
from bayplan.simulate.node_kinds import shape_of, shapes_named, with_numbers
from bayplan.simulate.node_tables import MAX_NODES

_FORM = "'add 20 x KIND', 'remove 10 x KIND' or 'drain NODE'"
_CHANGE = re.compile(r"\s*(add|remove)\s+(\d{1,6})\s*[x×*]\s*(\S.*?)\s*", re.ASCII | re.DOTALL)
_DRAIN = re.compile(r"\s*drain\s+(\S+)\s*", re.DOTALL)


def changed(nodes: Sequence[CardNode], changes: Sequence[str]) -> tuple[CardNode, ...]:
    """The fleet after all changes, one after the other. New nodes come last; of equal ones the last by name go.

    Raises `InputError` for what cannot be understood or done, and where no node would be left.
    """
    now = tuple(nodes)
    for change in changes:
        try:
            now = _after(now, change)
        except InputError as error:
            raise error.within(source=f"--what-if {change!r}") from error
        if not now:
            raise InputError("no nodes left", source=f"--what-if {change!r}", expected="a fleet with a node at least")
    return now


def _after(nodes: tuple[CardNode, ...], change: str) -> tuple[CardNode, ...]:
    drain = _DRAIN.fullmatch(change)
    if drain is not None:
        return _drained(nodes, drain[1])
    found = _CHANGE.fullmatch(change)
    if found is None:
        raise InputError("no such change", expected=_FORM)
    what, number, kind = found[1], int(found[2]), found[3]
    if not 0 < number <= MAX_NODES:
        raise InputError("not a number of nodes", value=number, expected=f"1 to {MAX_NODES}")
    return _added(nodes, number, kind) if what == "add" else _removed(nodes, number, kind)


def _added(nodes: tuple[CardNode, ...], number: int, kind: str) -> tuple[CardNode, ...]:
    shape = shapes_named(kind, nodes)[0]
    there = sum(shape_of(node) == shape for node in nodes)
    return with_numbers(nodes, {shape: there + number})


def _removed(nodes: tuple[CardNode, ...], number: int, kind: str) -> tuple[CardNode, ...]:
    shapes = set(shapes_named(kind, nodes))
    there = sorted((node for node in nodes if shape_of(node) in shapes), key=lambda node: node.name)
    if len(there) < number:
        raise InputError("not so many nodes of the kind", value=number, expected=f"at most {len(there)}")
    left = Counter(shape_of(node) for node in there[: len(there) - number])
    return with_numbers(nodes, {shape: left[shape] for shape in {shape_of(node) for node in there}})


def _drained(nodes: tuple[CardNode, ...], name: str) -> tuple[CardNode, ...]:
    names = [node.name for node in nodes]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3)
        raise InputError("no such node", value=name, expected=" or ".join(near) or "the name of a node")
    return tuple(node for node in nodes if node.name != name)
