"""What the nodes of a fleet draw, in watts, from what of their cards and CPU is taken.

A card draws its full power as soon as any part of it is taken, and its idle power before; CPU cores are taken to be
filled socket by socket, a socket in use draws its full power. Facts: Lettich et al., CCGrid 2025 (arXiv 2412.17484),
and the data sheets that it names. A static model: nodes are never switched off, and load does not count.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from bayplan.errors import InputError
from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import WHOLE
from bayplan.fleet.cards.state import CardFleet, Floats, Ints

MOST_WATTS = 1e6


def _check(idle_w: float, full_w: float) -> None:
    if not 0 <= idle_w <= full_w <= MOST_WATTS:
        raise InputError("no power", value=(idle_w, full_w), expected="watts idle, and no fewer in use")


class CardPower(msgspec.Struct, frozen=True):
    """What one card draws when nothing, and when anything, of it is taken."""

    idle_w: float
    full_w: float

    def __post_init__(self) -> None:
        """Raises `InputError` for what is no power."""
        _check(self.idle_w, self.full_w)


class SocketPower(msgspec.Struct, frozen=True):
    """What one CPU socket of so many cores draws when none, and when any, of its cores is in use."""

    idle_w: float
    full_w: float
    cores: int
    cpu_milli_per_core: int = 2000

    def __post_init__(self) -> None:
        """Raises `InputError` for what is no power or no socket."""
        _check(self.idle_w, self.full_w)
        if self.cores < 1 or self.cpu_milli_per_core < 1:
            raise InputError("a socket without cores", place="cores", value=(self.cores, self.cpu_milli_per_core))


class PowerTable(msgspec.Struct, frozen=True, kw_only=True):
    """The watts of cards by model, of cards of any `other` model, and of the CPU sockets, alike in all nodes."""

    cards: Mapping[str, CardPower]
    other: CardPower
    socket: SocketPower


OPENB = PowerTable(
    cards={
        "T4": CardPower(10, 70),
        "P100": CardPower(25, 250),
        "V100M16": CardPower(30, 300),
        "V100M32": CardPower(30, 300),
        "A10": CardPower(30, 150),
        "G2": CardPower(30, 150),
        "G3": CardPower(50, 400),
    },
    other=CardPower(30, 150),
    socket=SocketPower(15, 120, cores=16),
)
"""The table of the paper: G2 is taken to be an A10, G3 an A100, every CPU a Xeon E5-2682 v4 with two threads a core.
That any other model draws what an A10 does is a choice made here."""


class PowerModel:
    """What the nodes of a fleet draw by a table; `unknown` are the models in the fleet that stand in it as `other`.

    `card_w` (N): what a card of each node draws more when any part of it is taken than when none is.
    """

    def __init__(self, fleet: CardFleet, table: PowerTable = OPENB) -> None:
        self._fleet = fleet
        self._socket = table.socket
        self._per_core = table.socket.cpu_milli_per_core
        with_cards = {node.model for node in fleet.nodes if node.cards}
        self.unknown = tuple(model for model in fleet.models if model in with_cards and model not in table.cards)
        power = [table.cards.get(model, table.other) for model in fleet.models]
        self._idle_w: Floats = np.array([card.idle_w for card in power], np.float64)[fleet.model]
        self.card_w: Floats = np.array([card.full_w - card.idle_w for card in power], np.float64)[fleet.model]
        self._cores = -(-fleet.cpu_capacity // self._per_core)
        self._sockets = -(-self._cores // table.socket.cores)

    def watts(self, nodes: Ints) -> tuple[Floats, Floats]:
        """What the CPUs and what the cards of these nodes draw as they are now (n, n)."""
        fleet = self._fleet
        in_use = fleet.cards[nodes] - fleet.idle[nodes]
        return (
            self._cpu_w(nodes, fleet.cpu_free[nodes]),
            fleet.cards[nodes] * self._idle_w[nodes] + in_use * self.card_w[nodes],
        )

    def more_watts(self, kind: PodKind, nodes: Ints) -> Floats:
        """What these nodes would draw more with such a pod: by card that it takes a part of (n, G), else (n, 1).

        Means nothing for nodes and cards without room for it.
        """
        fleet = self._fleet
        cpu = self.more_cpu_watts(kind.cpu_milli, nodes)
        if kind.is_shared:
            more: Floats = cpu[:, None] + np.where(fleet.left[nodes] == WHOLE, self.card_w[nodes, None], 0.0)
            return more
        return (cpu + kind.cards * self.card_w[nodes])[:, None]

    def more_cpu_watts(self, cpu_milli: int, nodes: Ints) -> Floats:
        """What the CPUs of these nodes would draw more if so much more of them were taken (n)."""
        cpu_free = self._fleet.cpu_free[nodes]
        return self._cpu_w(nodes, cpu_free - cpu_milli) - self._cpu_w(nodes, cpu_free)

    def _cpu_w(self, nodes: Ints, cpu_free: Ints) -> Floats:
        cores_in_use = self._cores[nodes] - cpu_free // self._per_core
        active = -(-cores_in_use // self._socket.cores)
        idle = self._sockets[nodes] - active
        watts: Floats = self._socket.full_w * active + self._socket.idle_w * idle
        return watts
