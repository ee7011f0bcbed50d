"""What is answered: a Grant or a Refusal, with its Trace.

Values only. A policy makes them, the hub enters them in the ledger, reports draw them.
"""

from __future__ import annotations

import msgspec

from bayplan.idset import CpuSet, NodeSet


class MemoryBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of one type promised from a set of nodes together. `type`: `memory`, `hugepages-2Mi`, ..."""

    type: str
    nodes: NodeSet
    bytes: int


class DeviceGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Devices of one extended resource, by the id their device plugin gives them."""

    resource: str
    ids: tuple[str, ...]


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What one container holds.

    `exclusive` CPUs are nobody else's; `shared` are those it may run on with others (empty for a container that has
    only exclusive ones). `affinity` is the set of nodes it was aligned to (None: no affinity), `preferred` whether
    that was as narrow as the machine allows at all. `memory_nodes` is where its memory may come from.

    `pool` names the pool of shared CPUs it runs in; the ledger knows what is in the pool at any time, `shared` what
    was in it when the grant was made. `ends` marks an init container that ends before the application containers
    start: what it holds exclusively may pass to later containers of its pod.
    """

    pod: str
    container: str
    exclusive: CpuSet = CpuSet()
    shared: CpuSet = CpuSet()
    memory_nodes: NodeSet = NodeSet()
    memory: tuple[MemoryBlock, ...] = ()
    devices: tuple[DeviceGrant, ...] = ()
    affinity: NodeSet | None = None
    preferred: bool = False
    cpu_milli: int = 0
    pool: str = ""
    ends: bool = False


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why it could not be had.

    `reason` and `message` are those a kubelet or scheduler would report. `rule` is ours: which check said no
    (`topology-manager/restricted`). `resource`, `asked` and `free` are the numbers, in the unit in the resource's own
    terms (millicores, bytes, pieces). `remedies` each say one thing that would have to change, in words.
    """

    reason: str
    message: str
    rule: str
    container: str = ""
    resource: str = ""
    asked: int | None = None
    free: int | None = None
    remedies: tuple[str, ...] = ()


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a decision: what was to be settled, for whom, what was open, what was taken, by which rule."""

    subject: str
    question: str
    taken: str
    rule: str
    options: tuple[str, ...] = ()


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person must know of a decision that stands. `name` is stable: `kubelet-double-grant`."""

    name: str
    message: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's answer on one machine: grants for all of its containers, or one refusal.

    `grants` is in the order init containers, application containers; empty iff `refusal` is given.
    """

    pod: str
    grants: tuple[Grant, ...] = ()
    refusal: Refusal | None = None
    trace: tuple[Choice, ...] = ()
    warnings: tuple[Notice, ...] = ()

    @property
    def admitted(self) -> bool:
        """Whether the pod got what it asked."""
        return self.refusal is None
