"""Who holds what on a machine: the only mutable thing in the core, changed only by the hub.

A change is prepared beside the ledger and put in with one assignment, so that it happens whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bayplan.errors import BayplanError
from bayplan.idset import CpuSet
from bayplan.machine import Machine
from bayplan.policies.policy import Memo, View
from bayplan.resources.decision import Grant
from bayplan.resources.plugin import ConflictError, Holdings, ResourcePlugin
from bayplan.workload.model import Pod


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One pod with what its containers hold, in the order init containers, application containers."""

    pod: Pod
    grants: tuple[Grant, ...]


class LedgerError(BayplanError):
    """The ledger contradicts itself; the text says where."""


class Contents(msgspec.Struct, frozen=True):
    """All that a ledger holds at one time. Never changed in place."""

    pods: Mapping[str, Pod]
    grants: Mapping[str, tuple[Grant, ...]]
    pools: Mapping[str, CpuSet]
    holdings: Mapping[str, Holdings]
    memo: Memo

    def pool_problem(self, machine: Machine) -> str:
        """What is wrong with the pools, or an empty text: CPUs not online or exclusive, a grant in no such pool."""
        exclusive = 0
        for grants in self.grants.values():
            for grant in grants:
                exclusive |= grant.exclusive.mask
                if grant.pool and grant.pool not in self.pools:
                    return f"pool {grant.pool}: {grant.pod}/{grant.container} runs in it, but there is none"
        for name, cpus in self.pools.items():
            if cpus.mask & exclusive:
                return f"pool {name}: CPUs {cpus & CpuSet.of_mask(exclusive)} are exclusive to a container"
            if not cpus <= machine.online:
                return f"pool {name}: CPUs {cpus - machine.online} are not online"
        return ""


class Ledger:
    """The pods of a machine, their grants, the shared pools, and the sum of it all by kind of resource."""

    def __init__(self) -> None:
        self.contents = Contents({}, {}, {}, {}, None)

    @property
    def pods(self) -> Mapping[str, Pod]:
        """Pods by uid."""
        return self.contents.pods

    @property
    def pools(self) -> Mapping[str, CpuSet]:
        """Shared CPUs by the name of the pool."""
        return self.contents.pools

    @property
    def view(self) -> View:
        """What a policy may see."""
        c = self.contents
        return View(pods=c.pods, grants=c.grants, pools=c.pools, memo=c.memo)

    def grants(self, uid: str) -> tuple[Grant, ...]:
        """What the containers of a pod hold now, their shared CPUs brought up to date."""
        pools = self.contents.pools
        return tuple(
            msgspec.structs.replace(grant, shared=pools[grant.pool]) if grant.pool else grant
            for grant in self.contents.grants.get(uid, ())
        )

    def entries(self) -> tuple[Entry, ...]:
        """Everything, to be kept somewhere and given to `Hub.restore`."""
        return tuple(Entry(pod=pod, grants=self.grants(uid)) for uid, pod in self.contents.pods.items())

    def check(self, machine: Machine, plugins: Sequence[ResourcePlugin]) -> None:
        """Raise `LedgerError` unless the holdings are the sum of the grants and pools and exclusive CPUs are apart."""
        for plugin in plugins:
            holdings = plugin.empty(machine)
            for grants in self.contents.grants.values():
                for grant in grants:
                    holdings = _taken(machine, plugin, holdings, grant)
            if holdings != self.contents.holdings[plugin.name]:
                raise LedgerError(f"{plugin.name}: the ledger differs from the sum of its grants")
        problem = self.contents.pool_problem(machine)
        if problem:
            raise LedgerError(problem)


def _taken(machine: Machine, plugin: ResourcePlugin, holdings: Holdings, grant: Grant) -> Holdings:
    try:
        return plugin.take(machine, holdings, grant)
    except ConflictError as conflict:
        raise LedgerError(f"{plugin.name}: {conflict}") from conflict
