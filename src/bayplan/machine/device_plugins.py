"""Under which extended resource the usual device plugin offers a PCI device.

A table and nothing else; a device that is not in it has no resource, for a guess would promise what nobody serves.
Sources: the README of each plugin (NVIDIA/k8s-device-plugin, ROCm/k8s-device-plugin,
intel/intel-device-plugins-for-kubernetes, HabanaAI's device plugin, NEC's ve plugin).
"""

from __future__ import annotations

from bayplan.machine.pci_classes import AMD, INTEL, NVIDIA

# (vendor, first byte of the class code, driver or "" for any) -> resource. The first match counts.
_TABLE: tuple[tuple[int, int, str, str], ...] = (
    (NVIDIA, 0x03, "", "nvidia.com/gpu"),
    (AMD, 0x03, "", "amd.com/gpu"),
    (AMD, 0x12, "", "amd.com/gpu"),  # Instinct cards without display: "processing accelerator"
    (INTEL, 0x03, "xe", "gpu.intel.com/xe"),
    (INTEL, 0x03, "", "gpu.intel.com/i915"),
    (0x1DA3, 0x12, "", "habana.ai/gaudi"),
    (0x1BCF, 0x0B, "", "nec.com/ve"),
)


def plugin_resource(vendor: int, pci_class: int, driver: str) -> str:
    """The extended resource of a device by vendor, 24-bit class code and driver; empty: none known."""
    for its_vendor, base_class, its_driver, resource in _TABLE:
        if (its_vendor, base_class) == (vendor, pci_class >> 16) and its_driver in ("", driver):
            return resource
    return ""
