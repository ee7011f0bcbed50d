"""What a memory node is made of, told by what the machine says and never by its number or size.

In this order: a GPU driver that names the node as its own (`proc/driver/nvidia/gpus/*/numa_status`); a DAX device
whose memory the `kmem` driver gave to the node, by the bus that it sits on (an NVDIMM region: persistent memory, a CXL
region: CXL); CPUs of the node, online or not: DRAM; a GPU that sits on a node without CPUs: GPU memory; firmware
figures (HMAT) that give a node without CPUs at least twice the bandwidth of the DRAM beside the same CPUs:
high-bandwidth memory. All else is "unknown".

Facts: Documentation/ABI/testing/sysfs-bus-dax, drivers/dax/kmem.c, drivers/acpi/numa/hmat.c.
"""

from __future__ import annotations

import re

import msgspec

from bayplan.machine.model import MemoryKind, MemoryNode
from bayplan.machine.sysfs.facts import MAX_NODES, Facts

DAX = "sys/bus/dax/devices"
KMEM = "sys/bus/dax/drivers/kmem"
NVIDIA_GPUS = "proc/driver/nvidia/gpus"
_DAX_NAME = re.compile(r"dax\d{1,5}\.\d{1,5}", re.ASCII)
_NUMA_STATUS_NODE = re.compile(r"^Node:\s+(\d{1,6})$", re.ASCII | re.MULTILINE)
_NVDIMM = re.compile(r"/ndbus\d+/", re.ASCII)
_CXL = re.compile(r"/root\d+/decoder\d+\.\d+/", re.ASCII)
_HBM_ADVANTAGE = 2


def name_kinds(facts: Facts, nodes: list[MemoryNode], homes: frozenset[int]) -> tuple[MemoryNode, ...]:
    """The nodes with their kinds. `homes` are nodes of offline CPUs, which count as nodes with CPUs here."""
    told = _dax_kinds(facts) | _gpu_nodes(facts)
    named = []
    for node in nodes:
        kind = told.get(node.id, "dram" if node.cpus or node.id in homes else "unknown")
        if node.cpus and kind != "dram":
            # A driver added memory to a node that has its own: the mixture is best called by what is always there.
            facts.note(f"node {node.id}", f"has CPUs and also {kind} memory; taken as dram")
            kind = "dram"
        named.append(msgspec.structs.replace(node, kind=kind))
    dram = {node.id: node for node in named if node.kind == "dram"}
    return tuple(_perhaps_hbm(node, dram) for node in named)


def gpu_memory(nodes: tuple[MemoryNode, ...], device_nodes: set[int]) -> tuple[MemoryNode, ...]:
    """The nodes, with those without CPUs on which a GPU sits (`device_nodes`) made GPU memory."""
    return tuple(
        msgspec.structs.replace(node, kind="gpu")
        if node.id in device_nodes and not node.cpus and node.kind in ("unknown", "hbm")
        else node
        for node in nodes
    )


def _dax_kinds(facts: Facts) -> dict[int, MemoryKind]:
    """Kind by node, of memory that `kmem` gave to nodes."""
    kinds: dict[int, MemoryKind] = {}
    for name in facts.tree.list(KMEM):
        target = facts.tree.link(f"{DAX}/{name}") if _DAX_NAME.fullmatch(name) else None
        folder = None if target is None else _followed(DAX, target)
        node = None if folder is None else facts.number(f"{folder}/target_node", least=-1, most=MAX_NODES - 1)
        if folder is None or node is None or node < 0:
            continue
        kind: MemoryKind = "pmem" if _NVDIMM.search(folder) else "cxl" if _CXL.search(folder) else "unknown"
        if kinds.setdefault(node, kind) != kind:
            facts.note(folder, f"node {node} has {kinds[node]} and {kind} memory; taken as unknown")
            kinds[node] = "unknown"
    return kinds


def _followed(folder: str, target: str) -> str | None:
    """Where a relative link in `folder` leads; None if that is outside of the tree or not relative."""
    if target.startswith("/") or len(target) > 4096:
        return None
    parts = folder.split("/")
    for part in target.rstrip("/").split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _gpu_nodes(facts: Facts) -> dict[int, MemoryKind]:
    """Nodes that the NVIDIA driver names as the memory of a GPU."""
    kinds: dict[int, MemoryKind] = {}
    for gpu in facts.tree.list(NVIDIA_GPUS):
        found = _NUMA_STATUS_NODE.search(facts.text(f"{NVIDIA_GPUS}/{gpu}/numa_status") or "")
        if found:
            kinds[int(found.group(1))] = "gpu"
    return kinds


def _perhaps_hbm(node: MemoryNode, dram: dict[int, MemoryNode]) -> MemoryNode:
    if node.kind != "unknown" or node.access is None or node.access.read_bandwidth_mibps is None:
        return node
    beside = [
        near.access.read_bandwidth_mibps
        for near in (dram.get(initiator) for initiator in node.initiators)
        if near is not None and near.memory_bytes and near.access is not None and near.access.read_bandwidth_mibps
    ]
    if beside and node.access.read_bandwidth_mibps >= _HBM_ADVANTAGE * max(beside):
        return msgspec.structs.replace(node, kind="hbm")
    return node
