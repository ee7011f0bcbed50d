"""The cards of a fleet that are cut into parts, with the instances on them; where a pod's instances would go.

A pod's instances are all on one node, on one card or several. The node and positions are chosen that lose least (see
`worth`), of several the first. Where the instances of a pod could only be placed another way than by taking the least
loss for one after the other, that way is found. `place` changes nothing; `take` and `give_back` do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.cards.model import MOST_CARDS
from bayplan.fleet.cards.partitions.layout import (
    EMPTY,
    Layout,
    Occupancy,
    fits,
    largest_fit,
    starts,
    taken_with,
)
from bayplan.fleet.cards.partitions.worth import NOTHING_LOST, Loss, Worth
from bayplan.resources.decision import Refusal


class Instance(msgspec.Struct, frozen=True, order=True):
    """One instance on a node: the card, the position on it, and the name of the profile."""

    card: int
    start: int
    profile: str


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """A node with equal cards. `only`: its cards are cut into this profile alone, which is asked for as a whole card
    would be (NVIDIA's `single` strategy); empty: each profile has its own resource (`mixed`)."""

    name: str
    layout: Layout
    cards: int
    only: str = ""

    def __post_init__(self) -> None:
        """Raises `InputError` for cards that cannot be, or a profile that the layout lacks."""
        if not 1 <= self.cards <= MOST_CARDS:
            raise InputError("out of range", place="cards", value=self.cards, expected=f"1 to {MOST_CARDS}")
        if self.only and self.only not in self.layout.by_name:
            known = " or ".join(self.layout.by_name)
            raise InputError("no such profile", place="only", value=self.only, expected=known)

    @property
    def offered(self) -> dict[str, int]:
        """The position of the profile by the resource that asks for it."""
        if self.only:
            return {self.layout.resource: self.layout.by_name[self.only]}
        return {profile.resource: i for i, profile in enumerate(self.layout.profiles) if profile.resource}


class Placement(NamedTuple):
    """Where the instances of a pod go: the position of the node in the fleet, and the instances, by card."""

    node: int
    instances: tuple[Instance, ...]


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """What is left: slices, which need not be of use together, and the largest profile that fits (empty: none)."""

    memory: int
    compute: int
    largest: str


class PartitionFleet:
    """All nodes. `mix` tells how often each profile is asked for, by layout; a layout without one has none."""

    def __init__(self, sites: Sequence[Site], mix: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self.sites = tuple(sites)
        if len({site.name for site in sites}) < len(self.sites):
            raise InputError("two nodes of one name", place="nodes")
        layouts = {site.layout.name: site.layout for site in sites}
        for name in mix or {}:
            if name not in layouts:
                raise InputError("a mix for cards that are not there", value=name, expected=" or ".join(layouts))
        self._worth = {name: Worth(layout, (mix or {}).get(name)) for name, layout in layouts.items()}
        self._offered = [site.offered for site in self.sites]
        self._taken: list[tuple[Occupancy, ...]] = [(EMPTY,) * site.cards for site in self.sites]
        self._instances: list[tuple[Instance, ...]] = [()] * len(self.sites)
        self._known: dict[tuple[str, tuple[Occupancy, ...], tuple[int, ...]], _Way | None] = {}

    def instances(self, node: int) -> tuple[Instance, ...]:
        """What is on a node."""
        return self._instances[node]

    def place(self, amounts: Mapping[str, int]) -> Placement | Refusal:
        """Where a pod that asks so many of each resource goes. Resources that no card of the fleet is are not for us.

        Raises `InputError` where nothing is asked of any card here.
        """
        resources = {name for offered in self._offered for name in offered}
        wanted = {name: count for name, count in amounts.items() if name in resources and count > 0}
        if not wanted:
            expected = " or ".join(sorted(resources))
            raise InputError("asks for no partition of these cards", value=", ".join(amounts) or ..., expected=expected)
        best: tuple[Loss, int, tuple[Instance, ...]] | None = None
        for node, offered in enumerate(self._offered):
            way = self._way(node, wanted) if wanted.keys() <= offered.keys() else None
            if way is not None and (best is None or (way.loss, node) < best[:2]):
                best = (way.loss, node, tuple(sorted(way.instances)))
        return self._refusal(wanted) if best is None else Placement(best[1], best[2])

    def take(self, placement: Placement) -> None:
        """Make the instances. One that does not fit there raises `ValueError` and changes nothing."""
        layout = self.sites[placement.node].layout
        taken = list(self._taken[placement.node])
        for each in placement.instances:
            profile = layout.by_name[each.profile]
            if each.start not in starts(layout, taken[each.card], profile):
                raise ValueError(f"{each} does not fit on {self.sites[placement.node].name}")
            taken[each.card] = taken_with(layout, taken[each.card], profile, each.start)
        self._taken[placement.node] = tuple(taken)
        self._instances[placement.node] = tuple(sorted((*self._instances[placement.node], *placement.instances)))

    def give_back(self, placement: Placement) -> None:
        """Remove the instances. One that is not there raises `ValueError` and changes nothing."""
        rest = list(self._instances[placement.node])
        for each in placement.instances:
            if each not in rest:
                raise ValueError(f"{each} is not on {self.sites[placement.node].name}")
            rest.remove(each)
        layout = self.sites[placement.node].layout
        taken = [EMPTY] * self.sites[placement.node].cards
        for each in rest:
            taken[each.card] = taken_with(layout, taken[each.card], layout.by_name[each.profile], each.start)
        self._taken[placement.node] = tuple(taken)
        self._instances[placement.node] = tuple(rest)

    def room(self, node: int, card: int | None = None) -> Room:
        """What is left of a node, or of one of its cards."""
        layout = self.sites[node].layout
        taken = self._taken[node] if card is None else (self._taken[node][card],)
        found = [largest for each in taken if (largest := largest_fit(layout, each)) is not None]
        largest = max(found, key=lambda i: layout.profiles[i].size, default=None)
        return Room(
            memory=sum(layout.memory - each.mask.bit_count() for each in taken),
            compute=sum(layout.compute - each.compute for each in taken),
            largest="" if largest is None else layout.profiles[largest].name,
        )

    def _way(self, node: int, wanted: Mapping[str, int]) -> _Way | None:
        site, offered = self.sites[node], self._offered[node]
        layout = site.layout
        if sum(layout.profiles[offered[name]].memory * n for name, n in wanted.items()) > site.cards * layout.memory:
            return None
        asked = [offered[name] for name, count in wanted.items() for _ in range(count)]
        profiles = tuple(sorted(asked, key=layout.by_size.index))
        key = (layout.name, self._taken[node], profiles)
        if key not in self._known:
            self._known[key] = _Search(self._worth[layout.name], profiles).way(self._taken[node])
        return self._known[key]

    def _refusal(self, wanted: Mapping[str, int]) -> Refusal:
        name = max(wanted, key=lambda each: (wanted[each], each))
        most = 0
        for node, offered in enumerate(self._offered):
            if name in offered:
                worth = self._worth[self.sites[node].layout.name]
                most = max(most, sum(worth.most(taken, offered[name]) for taken in self._taken[node]))
        text = " and ".join(f"{count} x {resource}" for resource, count in sorted(wanted.items()))
        return Refusal(
            reason="InsufficientPartitions",
            message=f"no node has room for {text} together",
            rule="cards/partitions",
            resource=name,
            asked=wanted[name],
            free=most,
        )


class _Way(NamedTuple):
    loss: Loss
    instances: tuple[Instance, ...]


class _Search:
    """Places the profiles of one pod on the cards of one node, largest first, at the least loss."""

    def __init__(self, worth: Worth, profiles: tuple[int, ...]) -> None:
        self._worth = worth
        self._profiles = profiles
        self._hopeless: set[tuple[int, tuple[Occupancy, ...]]] = set()

    def way(self, taken: tuple[Occupancy, ...], done: int = 0) -> _Way | None:
        """The rest of the profiles from `done` on; None: there is no way."""
        if done == len(self._profiles):
            return _Way(NOTHING_LOST, ())
        key = (done, tuple(sorted(taken)))
        if key in self._hopeless:
            return None
        layout, profile = self._worth.layout, self._profiles[done]
        for loss, card, start in self._options(taken, profile):
            after = (*taken[:card], taken_with(layout, taken[card], profile, start), *taken[card + 1 :])
            rest = self.way(after, done + 1)
            if rest is not None:
                total = _sum(loss, rest.loss)
                return _Way(total, (Instance(card, start, layout.profiles[profile].name), *rest.instances))
        self._hopeless.add(key)
        return None

    def _options(self, taken: tuple[Occupancy, ...], profile: int) -> list[tuple[Loss, int, int]]:
        layout = self._worth.layout
        seen: set[Occupancy] = set()
        options = []
        for card, each in enumerate(taken):
            if each not in seen and fits(layout, each, profile):
                options += [(self._worth.loss(each, profile, at), card, at) for at in starts(layout, each, profile)]
            seen.add(each)  # equal cards: the first of them stands for all
        return sorted(options)


def _sum(one: Loss, other: Loss) -> Loss:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]
