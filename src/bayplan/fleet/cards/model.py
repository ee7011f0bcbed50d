"""What the card policies decide on: a node with its cards, what a pod asks of cards, and where it goes.

A card is 1000 milli. A pod asks for a part of one card (less than 1000 milli of it) or for whole cards of one node.
Facts: the event model of the FGD paper (USENIX ATC'23, "Beware of Fragmentation").
"""

from __future__ import annotations

import msgspec

from bayplan.errors import InputError

WHOLE = 1000
"""A whole card, in milli."""
MOST_CARDS = 256
"""More cards than this in one node are taken for a mistake: arrays are as wide as the widest node."""
LARGEST = 2**53
"""Amounts of CPU and memory above this are refused, so that sums over nodes stay exact."""


class CardNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node: `cards` equal cards of one `model` (empty: not known), and the CPU and memory it offers to pods."""

    name: str
    cpu_milli: int
    memory_bytes: int
    cards: int = 0
    model: str = ""

    def __post_init__(self) -> None:
        """Raises `InputError` for what no node can have."""
        _within("cpu_milli", self.cpu_milli, LARGEST)
        _within("memory_bytes", self.memory_bytes, LARGEST)
        _within("cards", self.cards, MOST_CARDS)


class CardRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod asks: CPU, memory, and `cards` cards of `milli` each.

    `cards` 0: no card at all, and `milli` is 0. `milli` below 1000 only with one card. `models`: those that will do,
    sorted; none named: any. To name one twice adds nothing, but makes another kind of pod. Two requests that are equal
    are answered alike by a fleet in one state.
    """

    cpu_milli: int
    memory_bytes: int
    cards: int = 0
    milli: int = 0
    models: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises `InputError` for what makes no sense."""
        _within("cpu_milli", self.cpu_milli, LARGEST)
        _within("memory_bytes", self.memory_bytes, LARGEST)
        _within("cards", self.cards, MOST_CARDS)
        if self.cards == 0 and self.milli:
            raise InputError("a part of no card", place="milli", value=self.milli, expected="0 where cards is 0")
        if self.cards and not 1 <= self.milli <= WHOLE:
            raise InputError("not a part of a card", place="milli", value=self.milli, expected="1 to 1000")
        if self.cards > 1 and self.milli != WHOLE:
            raise InputError("parts of several cards", place="milli", value=self.milli, expected="1000")
        if tuple(sorted(self.models)) != self.models:
            raise InputError("not sorted", place="models", value=self.models)

    @property
    def total_milli(self) -> int:
        """What it takes of all cards together."""
        return self.cards * self.milli

    @property
    def is_shared(self) -> bool:
        """Whether it takes a part of one card."""
        return 0 < self.milli < WHOLE


class Spot(msgspec.Struct, frozen=True):
    """Where a pod goes: the position of the node in the fleet, and which of its cards, lowest first."""

    node: int
    cards: tuple[int, ...] = ()


def _within(field: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        raise InputError("out of range", place=field, value=value, expected=f"0 to {most}")
