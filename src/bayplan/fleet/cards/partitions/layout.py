"""How a card can be cut: its slices, and for each profile how many it takes and at which positions it may begin.

An instance of a profile takes `memory` neighbouring memory slices from its position on, and `compute` compute slices
from anywhere; some take the card's media engines too, of which there are few. On a `uniform` card all instances are of
one profile: the card as a whole is in one mode. Facts: NVIDIA's MIG user guide (supported profiles, placements as
`nvidia-smi mig -lgipp` lists them); AMD's guide to partition modes of the Instinct MI300 series.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import msgspec

MOST_SLICES = 16
"""Occupancy is a mask of memory slices, and tables are made over all that can occur."""
MOST_PROFILES = 32


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of instance. `resource` is what pods ask for where each profile has a name of its own."""

    name: str
    compute: int
    memory: int
    starts: tuple[int, ...]
    media: int = 0
    resource: str = ""

    @property
    def size(self) -> tuple[int, int]:
        """Memory slices, then compute slices: the larger profile has the larger size."""
        return self.memory, self.compute

    def mask(self, start: int) -> int:
        """The memory slices that an instance at this position takes."""
        return ((1 << self.memory) - 1) << start


class Layout(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A model of card. `resource` is what pods ask for where all instances of a node are of one profile."""

    name: str
    compute: int
    memory: int
    profiles: tuple[Profile, ...]
    media: int = 0
    uniform: bool = False
    resource: str = ""
    title: str = ""

    @cached_property
    def by_name(self) -> dict[str, int]:
        """The position in `profiles` of each name."""
        return {profile.name: i for i, profile in enumerate(self.profiles)}

    @cached_property
    def by_size(self) -> tuple[int, ...]:
        """The positions of all profiles, largest first."""
        order = sorted(enumerate(self.profiles), key=lambda each: (each[1].size, -each[1].media), reverse=True)
        return tuple(i for i, _ in order)


class Occupancy(msgspec.Struct, frozen=True, order=True):
    """What is taken of one card: a mask of memory slices, how many compute slices and media engines.

    `mode` is the position of the profile that a uniform card is in, -1 for one that is empty and for other cards.
    """

    mask: int = 0
    compute: int = 0
    media: int = 0
    mode: int = -1


EMPTY = Occupancy()


def starts(layout: Layout, taken: Occupancy, profile: int) -> Iterator[int]:
    """The positions at which an instance of the profile could begin now, lowest first."""
    wanted = layout.profiles[profile]
    if taken.mode not in (-1, profile):
        return
    if taken.compute + wanted.compute > layout.compute or taken.media + wanted.media > layout.media:
        return
    for start in wanted.starts:
        if not wanted.mask(start) & taken.mask:
            yield start


def fits(layout: Layout, taken: Occupancy, profile: int) -> bool:
    """Whether an instance of the profile could be made now."""
    return next(starts(layout, taken, profile), None) is not None


def taken_with(layout: Layout, taken: Occupancy, profile: int, start: int) -> Occupancy:
    """The occupancy with one instance more. It must fit there: see `starts`."""
    wanted = layout.profiles[profile]
    return Occupancy(
        taken.mask | wanted.mask(start),
        taken.compute + wanted.compute,
        taken.media + wanted.media,
        profile if layout.uniform else -1,
    )


def largest_fit(layout: Layout, taken: Occupancy) -> int | None:
    """The largest profile of which an instance could be made now; of equal ones the one without media engines."""
    return next((i for i in layout.by_size if fits(layout, taken, i)), None)
