"""Kinds of nodes as a person names them: `G2` (a model of the fleet), `dgx-h100` (a preset), `8xA100,96cpu,1Ti`."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bayplan.errors import InputError
from bayplan.files.presets import load_preset, preset_names
from bayplan.files.tables import PRESET
from bayplan.fleet.cards.machine_nodes import machine_node
from bayplan.fleet.cards.model import CardNode
from bayplan.quantity import format_bytes, format_cpu, parse_count, parse_cpu_milli
from bayplan.simulate.node_tables import MAX_NODES

_CARDS = re.compile(r"(\d{1,4})x(.*)", re.DOTALL | re.ASCII)
_CPU = "cpu"
_FORM = "a model of the fleet, a preset (`bayplan machine presets`), or like 8xA100,96cpu,1Ti"


class Shape(NamedTuple):
    """All of a node but its name."""

    cards: int
    model: str
    cpu_milli: int
    memory_bytes: int

    def __str__(self) -> str:
        """`8xA100,96cpu,1Ti`; without cards `96cpu,1Ti`."""
        rest = f"{format_cpu(self.cpu_milli)}{_CPU},{format_bytes(self.memory_bytes)}"
        return f"{self.cards}x{self.model},{rest}" if self.cards else rest

    def node(self, name: str) -> CardNode:
        """A node of this shape."""
        return CardNode(
            name=name,
            cards=self.cards,
            model=self.model,
            cpu_milli=self.cpu_milli,
            memory_bytes=self.memory_bytes,
        )


def shape_of(node: CardNode) -> Shape:
    """A node's shape."""
    return Shape(node.cards, node.model, node.cpu_milli, node.memory_bytes)


def shapes_named(text: str, nodes: Sequence[CardNode]) -> tuple[Shape, ...]:
    """The shapes that a name stands for, the most frequent first: of a model of the fleet all that it has, else one.

    Raises `InputError`, with the names that are near.
    """
    of_model = Counter(shape_of(node) for node in nodes if node.cards and node.model == text)
    if of_model:
        return tuple(sorted(of_model, key=lambda shape: (-of_model[shape], *(-size for size in _sizes(shape)))))
    name = text.removeprefix(PRESET)
    if name in preset_names():
        return (shape_of(machine_node(load_preset(name))),)
    if "," in text:
        return (_parsed(text),)
    known = sorted({node.model for node in nodes if node.cards and node.model} | set(preset_names()))
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    raise InputError("no such kind of node", value=text, expected=" or ".join(near) or _FORM)


def with_numbers(nodes: Sequence[CardNode], wanted: Mapping[Shape, int]) -> tuple[CardNode, ...]:
    """The fleet with so many nodes of each shape; those of shapes that are not named all stay.

    Nodes keep their order. Where there are too many the last by name go, where there are too few new ones come behind
    all others. Raises `InputError` for more nodes than can be.
    """
    members: dict[Shape, list[CardNode]] = {}
    for node in nodes:
        members.setdefault(shape_of(node), []).append(node)
    gone: set[str] = set()
    new: list[CardNode] = []
    names = {node.name for node in nodes}
    if sum(wanted.values()) > MAX_NODES:
        raise InputError("too many nodes", value=sum(wanted.values()), expected=f"at most {MAX_NODES}")
    for shape, number in wanted.items():
        there = members.get(shape, [])
        if number < len(there):
            gone.update(node.name for node in sorted(there, key=lambda node: node.name)[number:])
        new += [shape.node(name) for name in _new_names(shape, number - len(there), names)]
    return (*(node for node in nodes if node.name not in gone), *new)


def _new_names(shape: Shape, count: int, taken: set[str]) -> list[str]:
    names: list[str] = []
    number = 0
    while len(names) < count:
        name = f"new-{shape}-{number}"
        number += 1
        if name not in taken:
            taken.add(name)
            names.append(name)
    return names


def _sizes(shape: Shape) -> tuple[int, int, int]:
    return (shape.cards, shape.cpu_milli, shape.memory_bytes)


def _parsed(text: str) -> Shape:
    head, *rest = text.rsplit(",", 2) if text.count(",") > 1 else ("", *text.split(","))
    cards = _CARDS.fullmatch(head.strip())
    cpu, memory = (part.strip() for part in rest)
    if (head and cards is None) or not cpu.endswith(_CPU):
        raise InputError("no such kind of node", value=text, expected=_FORM)
    try:
        shape = Shape(
            int(cards[1]) if cards else 0,
            cards[2].strip() if cards else "",
            parse_cpu_milli(cpu.removesuffix(_CPU)),
            parse_count(memory),
        )
        shape.node("")  # what no node can have is refused there
    except InputError as error:
        raise error.within(source=text) from error
    return shape
