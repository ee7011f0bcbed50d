"""What must be written for a grant to be true, with no word of the transport.

NRI, CDI, cgroups and sysfs each render the same Effects. A field that is None is not ours to write.
"""

from __future__ import annotations

import msgspec

from bayplan.idset import CpuSet, NodeSet
from bayplan.resources.decision import DeviceGrant


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    """For one container: `cpus` and `memory_nodes` become its cpuset, `hugepages` its limits by page bytes."""

    pod: str
    container: str
    cpus: CpuSet | None = None
    memory_nodes: NodeSet | None = None
    hugepages: dict[int, int] | None = None
    devices: tuple[DeviceGrant, ...] = ()
