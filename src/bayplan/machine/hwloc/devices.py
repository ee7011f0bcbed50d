"""PCI devices of a topology that are worth placing, with where they hang and how they are linked.

Takes no serial numbers, UUIDs or addresses of networks along, though the file has them. hwloc tells no driver and no
virtual functions. Facts: PCI Code and ID Assignment Specification (class codes); hwloc's `NVLinkBandwidth`,
`XGMIBandwidth` and `XeLinkBandwidth` distances.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from bayplan.idset import CpuSet
from bayplan.machine.device_plugins import plugin_resource
from bayplan.machine.hwloc.elements import Element
from bayplan.machine.hwloc.memory import read_square
from bayplan.machine.hwloc.objects import Thing, Topology, printable
from bayplan.machine.model import Device, MemoryNode
from bayplan.machine.pci_classes import device_kind

MAX_DEVICES = 16_384
MAX_LINKED = 1_024
_ADDRESS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]", re.ASCII)
_TYPE = re.compile(r"([0-9a-fA-F]{4}) \[([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\].*", re.ASCII)
_LINKS = ("NVLinkBandwidth", "XGMIBandwidth", "XeLinkBandwidth")


def read_devices(topology: Topology, online: int, nodes: tuple[MemoryNode, ...]) -> tuple[Device, ...]:
    """Accelerators, network, storage and the switches that link them, by address."""
    links = _read_links(topology)
    devices: dict[str, Device] = {}
    things = topology.all("PCIDev")
    if len(things) > MAX_DEVICES:
        topology.element.bad("too many PCI devices", value=len(things), expected=f"at most {MAX_DEVICES}")
    for thing in things:
        device = _read_device(thing, online, nodes, links)
        if device is None:
            continue
        if device.address in devices:
            topology.note(f"line {thing.element.line}", f"a second device at {device.address}; left out")
            continue
        devices[device.address] = device
    return tuple(
        msgspec.structs.replace(device, links=tuple(other for other in device.links if other in devices))
        for _, device in sorted(devices.items())
    )


def _read_device(thing: Thing, online: int, nodes: tuple[MemoryNode, ...], links: dict[str, set[str]]) -> Device | None:
    element = thing.element
    found = _TYPE.fullmatch(element.attributes.get("pci_type", ""))
    if found is None:
        element.bad("pci_type is wrong", value=element.attributes.get("pci_type"), expected="like 0302 [10de:2330]")
    pci_class, vendor, device = (int(part, 16) for part in found.groups())
    address = _address(thing)
    # What is linked with GPUs and is nothing else is the switch between them.
    kind = device_kind(pci_class << 8, vendor) or ("bridge" if address in links else None)
    if kind is None:
        return None
    cpus = CpuSet.of_mask(_place(thing) & online)
    return Device(
        address=address,
        kind=kind,
        node=_node(cpus, nodes),
        cpus=cpus,
        pci_class=pci_class << 8,
        vendor=vendor,
        device=device,
        name=_name(thing),
        resource=plugin_resource(vendor, pci_class << 8, ""),
        links=tuple(sorted(links.get(address, ()))),
    )


def _address(thing: Thing) -> str:
    text = thing.element.attributes.get("pci_busid", "")
    if not _ADDRESS.fullmatch(text):
        thing.element.bad("pci_busid is wrong", value=text, expected="domain:bus:device.function")
    return text.lower()


def _place(thing: Thing) -> int:
    """The CPUs of the closest object above that has any."""
    above = thing.parent
    while above is not None:
        if above.cpus:
            return above.cpus
        above = above.parent
    return 0


def _node(cpus: CpuSet, nodes: tuple[MemoryNode, ...]) -> int | None:
    """The memory node whose CPUs are all of the local ones; None where there are several, or none."""
    near = [node for node in nodes if node.cpus.mask & cpus.mask]
    return near[0].id if len(near) == 1 and cpus <= near[0].cpus else None


def _name(thing: Thing) -> str:
    """The product, as the GPU's library or else the PCI database names it."""
    for below in thing.below():
        if below.type == "OSDev" and below.infos.get("GPUModel"):
            return printable(below.infos["GPUModel"])
    return printable(thing.infos.get("PCIDevice", ""))


def _read_links(topology: Topology) -> dict[str, set[str]]:
    """Which addresses are linked with which, from matrices of bandwidths between devices."""
    links: dict[str, set[str]] = {}
    for element in topology.element.children:
        if element.tag in ("distances2", "distances2hetero") and element.attributes.get("name") in _LINKS:
            for one, other in _linked(topology, element):
                links.setdefault(one, set()).add(other)
    return links


def _linked(topology: Topology, element: Element) -> Iterator[tuple[str, str]]:
    words = [word.rpartition(":")[2] for part in element.named("indexes") for word in part.text.split()]
    size = len(words)
    if size > MAX_LINKED:
        element.bad("too many linked devices", value=size, expected=f"at most {MAX_LINKED}")
    values = read_square(element, size, 2**63 - 1)
    things = [topology.by_gp.get(word) for word in words]
    addresses = [_device_address(thing) if thing is not None else "" for thing in things]
    for position, value in enumerate(values):
        one, other = addresses[position // size], addresses[position % size]
        if value and one and other and one != other:
            yield one, other


def _device_address(thing: Thing) -> str:
    """The address of the PCI device that an object is or hangs below."""
    above: Thing | None = thing
    while above is not None and above.type != "PCIDev":
        above = above.parent
    return _address(above) if above is not None else ""
