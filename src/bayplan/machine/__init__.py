"""What the hardware of a node is: the model, its zones, and pure readers over trees of files."""

from bayplan.machine.model import (
    Cache,
    Cluster,
    Core,
    CoreKind,
    Device,
    Die,
    Finding,
    FrequencyRange,
    HugepagePool,
    Machine,
    MemoryAccess,
    MemoryNode,
    MemorySideCache,
    Package,
)

__all__ = [
    "Cache",
    "Cluster",
    "Core",
    "CoreKind",
    "Device",
    "Die",
    "Finding",
    "FrequencyRange",
    "HugepagePool",
    "Machine",
    "MemoryAccess",
    "MemoryNode",
    "MemorySideCache",
    "Package",
]
