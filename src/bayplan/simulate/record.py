"""What a replay leaves: by arrival, where the pod went and how the fleet stood after it."""

from __future__ import annotations

from typing import NamedTuple

from bayplan.fleet.cards.state import Floats, Ints

ADMITTED, NO_MODEL, NO_CARDS, NO_CPU, NO_MEMORY, DECLINED = range(6)
REASONS = ("", "model", "cards", "cpu", "memory", "declined")
"""Why a pod was refused, by number. The first that holds: no node has a card of a model that will do; none of those has
so much free on its cards; none of those the CPU; none of those the memory; there was room, but the policy declined."""


class Standing(NamedTuple):
    """The fleet after each step (rows): milli of cards and CPU given out, fragmentation (milli; all of it, and by cause
    in the order of `fragmentation.CAUSES`), watts of CPUs and cards, nodes with at least one pod."""

    alloc_milli: Ints
    alloc_cpu_milli: Ints
    frag_milli: Floats
    frag_by_cause: Floats
    cpu_w: Floats
    gpu_w: Floats
    used_nodes: Ints

    def at(self, rows: Ints) -> Standing:
        """Of these steps only."""
        return Standing(
            alloc_milli=self.alloc_milli[rows],
            alloc_cpu_milli=self.alloc_cpu_milli[rows],
            frag_milli=self.frag_milli[rows],
            frag_by_cause=self.frag_by_cause[rows],
            cpu_w=self.cpu_w[rows],
            gpu_w=self.gpu_w[rows],
            used_nodes=self.used_nodes[rows],
        )


class Changes(NamedTuple):
    """The fleet over time: row i holds from `time_s[i]` to `time_s[i + 1]`, the last until `end_s`."""

    time_s: Floats
    standing: Standing
    end_s: float


class Record(NamedTuple):
    """By arrival (N). `node`: position in the trace's nodes, -1 where the pod was refused; `cards`: its cards as a
    position in `card_sets`; `reason`: as in `REASONS`. `arrived_milli`: what all pods ask of cards that have come and
    not ended, placed or not. `standing`: after the arrival. `changes`: None where the trace has no times.
    """

    node: Ints
    cards: Ints
    card_sets: tuple[tuple[int, ...], ...]
    reason: Ints
    arrived_milli: Ints
    standing: Standing
    capacity_milli: int
    changes: Changes | None = None

    @property
    def idle_milli(self) -> Ints:
        """What is free of all cards."""
        return self.capacity_milli - self.standing.alloc_milli
