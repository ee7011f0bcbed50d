"""PCI devices worth placing: accelerators, network and storage, with where they sit.

Never names a device by an address of its network or a serial number, and keeps bridges and the processor's own
devices out. Facts: Documentation/ABI/testing/sysfs-bus-pci; PCI Code and ID Assignment Specification (class codes).
"""

from __future__ import annotations

import re

from bayplan.idset import CpuSet
from bayplan.machine.device_plugins import plugin_resource
from bayplan.machine.model import Device, MemoryNode
from bayplan.machine.pci_classes import INTEL, NVIDIA, device_kind
from bayplan.machine.sysfs.facts import MAX_NODES, Facts
from bayplan.machine.sysfs.memory_kinds import NVIDIA_GPUS

PCI = "sys/bus/pci/devices"
MAX_DEVICES = 65_536
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_GPU_MODEL = re.compile(r"^Model:[ \t]+([^\n]{1,80})$", re.MULTILINE)


def read_devices(facts: Facts, online: CpuSet, nodes: tuple[MemoryNode, ...]) -> tuple[Device, ...]:
    """Devices by address."""
    known = {node.id for node in nodes}
    driven = frozenset(facts.tree.list(NVIDIA_GPUS))
    devices = []
    for address in facts.tree.list(PCI)[:MAX_DEVICES]:
        if not _ADDRESS.fullmatch(address):
            continue
        pci_class = facts.hexadecimal(f"{PCI}/{address}/class")
        if pci_class is None or (pci_class & 0xFFFFFF) >> 16 not in (0x01, 0x02, 0x03, 0x0B, 0x12):
            continue
        # Some captures leave the vendor out, but only its own devices are among the driver's.
        vendor = NVIDIA if address in driven else (facts.hexadecimal(f"{PCI}/{address}/vendor") or 0) & 0xFFFF
        device = _read_device(facts, address, (pci_class & 0xFFFFFF, vendor), online, known)
        if device is not None:
            devices.append(device)
    return tuple(devices)


def _read_device(facts: Facts, address: str, told: tuple[int, int], online: CpuSet, known: set[int]) -> Device | None:
    folder = f"{PCI}/{address}"
    pci_class, vendor = told
    kind = device_kind(pci_class, vendor)
    if kind is None:
        return None
    device = (facts.hexadecimal(f"{folder}/device") or 0) & 0xFFFF
    physical = _link_name(facts.tree.link(f"{folder}/physfn"))
    cpus = facts.cpus(f"{folder}/local_cpus", f"{folder}/local_cpulist") or CpuSet()
    return Device(
        address=address,
        kind=kind,
        node=_node(facts, folder, known),
        cpus=cpus & online,
        pci_class=pci_class,
        vendor=vendor,
        device=device,
        name=_name(facts, address) if vendor == NVIDIA else "",
        resource="" if physical else plugin_resource(vendor, pci_class, _driver(facts, folder, vendor)),
        virtual_function_of=physical,
    )


def _node(facts: Facts, folder: str, known: set[int]) -> int | None:
    node = facts.number(f"{folder}/numa_node", least=-1, most=MAX_NODES - 1)
    if node is None or node == -1:
        return None
    if node not in known:
        facts.note(f"{folder}/numa_node", f"node {node} does not exist; the device is taken to be on none")
        return None
    return node


def _driver(facts: Facts, folder: str, vendor: int) -> str:
    # Only Intel's GPUs have two drivers, and with them two names for one resource.
    return _link_name(facts.tree.link(f"{folder}/driver")) if vendor == INTEL else ""


def _link_name(target: str | None) -> str:
    name = (target or "").rstrip("/").rpartition("/")[2]
    return name if name.isprintable() and len(name) <= 64 else ""


def _name(facts: Facts, address: str) -> str:
    found = _GPU_MODEL.search(facts.text(f"{NVIDIA_GPUS}/{address}/information") or "")
    return found.group(1).strip() if found and found.group(1).isprintable() else ""
