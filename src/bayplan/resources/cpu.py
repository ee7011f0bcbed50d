"""CPUs as a resource: a CPU is exclusive to one pod, or shared, never both."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bayplan.idset import CpuSet
from bayplan.machine import Machine
from bayplan.resources.decision import Grant
from bayplan.resources.effects import Effects
from bayplan.resources.plugin import ConflictError

PodHoldings = tuple[Grant, ...]


class CpuHoldings(msgspec.Struct, frozen=True):
    """Grants with exclusive CPUs by pod, and their union."""

    pods: Mapping[str, PodHoldings]
    union: int


class CpuResource:
    """Exclusive CPUs."""

    name = "cpu"

    def empty(self, machine: Machine) -> CpuHoldings:
        """See `ResourcePlugin.empty`."""
        return CpuHoldings({}, 0)

    def free(self, machine: Machine, holdings: CpuHoldings) -> dict[str, int]:
        """CPUs that nobody has exclusively, in millicores."""
        return {"cpu": (machine.online.mask & ~holdings.union).bit_count() * 1000}

    def take(self, machine: Machine, holdings: CpuHoldings, grant: Grant) -> CpuHoldings:
        """See `ResourcePlugin.take`. An init container that ends may leave its CPUs to later containers of its pod."""
        cpus = grant.exclusive.mask
        if not cpus:
            return holdings
        if cpus & ~machine.online.mask:
            self._refuse(grant, cpus & ~machine.online.mask, "not online")
        own = holdings.pods.get(grant.pod, ())
        others = holdings.union & ~_union(own)
        for held in own:
            if not held.ends:
                others |= held.exclusive.mask
        if cpus & others:
            self._refuse(grant, cpus & others, "exclusive to another container")
        return CpuHoldings({**holdings.pods, grant.pod: (*own, grant)}, holdings.union | cpus)

    def give_back(self, machine: Machine, holdings: CpuHoldings, grant: Grant) -> CpuHoldings:
        """See `ResourcePlugin.give_back`."""
        own = holdings.pods.get(grant.pod, ())
        rest = tuple(g for g in own if g.container != grant.container)
        if len(rest) == len(own):
            return holdings
        pods = dict(holdings.pods)
        if rest:
            pods[grant.pod] = rest
        else:
            del pods[grant.pod]
        return CpuHoldings(pods, holdings.union & ~(_union(own) & ~_union(rest)))

    def effects(self, machine: Machine, grant: Grant, effects: Effects) -> Effects:
        """The cpuset: exclusive and shared CPUs together."""
        return msgspec.structs.replace(effects, cpus=grant.exclusive | grant.shared)

    def _refuse(self, grant: Grant, cpus: int, problem: str) -> None:
        raise ConflictError(self.name, f"{grant.pod}/{grant.container}", f"CPUs {CpuSet.of_mask(cpus)} are {problem}")


def _union(grants: PodHoldings) -> int:
    union = 0
    for grant in grants:
        union |= grant.exclusive.mask
    return union
