"""What a PCI device is, by its class code and vendor; for every reader alike.

Never calls the display of a board management controller or of a virtual machine a GPU, nor the processor's own units
accelerators. Facts: PCI Code and ID Assignment Specification.
"""

from __future__ import annotations

from bayplan.machine.model import DeviceKind

NVIDIA, AMD, INTEL = 0x10DE, 0x1002, 0x8086
_GPU_VENDORS = frozenset((NVIDIA, AMD, INTEL))
_DISPLAY = 0x03
_COPROCESSOR = 0x0B40
_KINDS: dict[int, DeviceKind] = {0x01: "storage", 0x02: "network", 0x12: "accelerator"}


def device_kind(pci_class: int, vendor: int) -> DeviceKind | None:
    """The kind by the 24-bit class code; None for what is not worth placing."""
    base = pci_class >> 16
    if base == _DISPLAY:
        return "gpu" if vendor in _GPU_VENDORS else "other"
    if pci_class >> 8 == _COPROCESSOR:
        return "accelerator"
    return _KINDS.get(base)
