"""Amounts and facts as people read them; the wording that text, SVG and HTML have in common.

Inputs carry the units of the model (bytes, millicores, kHz); what comes out is for eyes only and is never read back.
Foreign names are not made safe here: callers pass them through `plain`.
"""

from __future__ import annotations

from bayplan.fleet.plan import PlannedNode
from bayplan.machine import Cache, Device, Machine, MemoryNode
from bayplan.quantity import HUGEPAGES, format_bytes, format_size, is_in_bytes
from bayplan.resources.decision import Grant, Refusal


def cpus(milli: int) -> str:
    """Millicores as CPUs: `2.5`, `0.1`, `64`."""
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 pod`, `2 pods`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def spaced(text: str) -> str:
    """A list of ids with room to break: `0-3,8` as `0-3, 8`."""
    return text.replace(", ", ",").replace(",", ", ")


def amount(resource: str, count: int) -> str:
    """A number of some resource in the resource's own terms: `2 CPUs`, `4 GiB`, `3`."""
    if resource == "cpu":
        return f"{cpus(count)} CPUs" if count != 1000 else "1 CPU"
    if is_in_bytes(resource):
        return format_size(count)
    return f"{count:,}"


def used_of(node: PlannedNode, resource: str) -> str:
    """`6 of 64 CPUs`: what the pods on a node request of a resource that it offers."""
    used = amount(resource, node.used.get(resource, 0)).removesuffix(" CPUs")
    return f"{used} of {amount(resource, node.allocatable[resource])}"


def node_title(node: MemoryNode) -> str:
    """`node 0 · 64 GiB dram`."""
    kind = "" if node.kind == "unknown" else f" {node.kind}"
    return " · ".join(
        [f"node {node.id}", f"{format_size(node.memory_bytes)}{kind}" if node.memory_bytes else "no memory"]
    )


def node_facts(node: MemoryNode) -> str:
    """Huge pages, tier, bandwidth and memory-side caches of a node; empty where there is nothing to say."""
    facts = [f"{pool.count:,} huge pages of {format_bytes(pool.page_bytes)}" for pool in node.hugepages if pool.count]
    if node.tier is not None:
        facts.append(f"tier {node.tier}")
    if node.access and node.access.read_bandwidth_mibps:
        facts.append(f"{node.access.read_bandwidth_mibps / 1024:.0f} GiB/s")
    if node.access and node.access.read_latency_ns:
        facts.append(f"{node.access.read_latency_ns} ns")
    facts += [f"{format_size(cache.bytes)} memory-side cache" for cache in node.side_caches]
    return ", ".join(facts)


def cache_title(cache: Cache) -> str:
    """`L3 32 MiB`."""
    return f"L{cache.level} {format_size(cache.bytes)}" if cache.bytes else f"L{cache.level}"


def machine_counts(machine: Machine) -> str:
    """`2 packages · 4 NUMA nodes · 32 cores · 64 CPUs · 256 GiB`."""
    parts = [
        plural(len(machine.packages), "package"),
        plural(len(machine.nodes), "NUMA node"),
        plural(len(machine.cores), "core"),
        plural(len(machine.online), "CPU"),
        format_size(machine.memory_bytes),
    ]
    return " · ".join(parts)


def device_text(device: Device) -> str:
    """`gpu 0000:17:00.0 nvidia.com/gpu H100`."""
    virtual = f"(virtual function of {device.virtual_function_of})" if device.virtual_function_of else ""
    return " ".join(part for part in (device.kind, device.address, device.resource, device.name, virtual) if part)


def hugepages_of(grant: Grant) -> str:
    """`1 GiB of 2Mi on node 0`, one for each block of huge pages."""
    blocks = [b for b in grant.memory if b.type.startswith(HUGEPAGES)]
    return ", ".join(f"{format_size(b.bytes)} of {b.type.removeprefix(HUGEPAGES)} on {b.nodes}" for b in blocks)


def devices_of(grant: Grant) -> str:
    """`nvidia.com/gpu: 0, 1`."""
    return "; ".join(f"{device.resource}: {', '.join(device.ids)}" for device in grant.devices)


def refusal_numbers(refusal: Refusal) -> str:
    """`cpu: asked 8 CPUs, free 6 CPUs`; empty where the refusal names no numbers."""
    if refusal.asked is None and refusal.free is None:
        return ""
    parts = [
        f"{word} {amount(refusal.resource, count)}"
        for word, count in (("asked", refusal.asked), ("free", refusal.free))
        if count is not None
    ]
    return f"{refusal.resource or 'resource'}: {', '.join(parts)}"
