"""A machine as the tree of its zones: what is inside what, one line a zone."""

from __future__ import annotations

from bayplan.machine import Machine
from bayplan.machine.zones import Zone, build_zones
from bayplan.report.plain import plain
from bayplan.report.words import node_title


def draw_tree(machine: Machine, *, unicode: bool = True) -> str:
    """Zones with their CPUs, and beside each the memory nodes and devices that are its own."""
    return "\n".join(_lines(machine, build_zones(machine), "", "", unicode)) + "\n"


def _lines(machine: Machine, zone: Zone, first: str, later: str, unicode: bool) -> list[str]:
    branch, last, bar = ("├─ ", "└─ ", "│  ") if unicode else ("|- ", "`- ", "|  ")
    lines = [f"{first}{plain(zone.label, unicode=unicode)}: CPUs {zone.cpus}"]
    inside = later + (bar if zone.children else "   ")
    titles = (node_title(machine.node_by_id[node]) for node in zone.own_nodes)
    lines += [f"{inside}memory: {title if unicode else title.replace('·', '-')}" for title in titles]
    for device in zone.own_devices:
        named = " ".join(filter(None, (device.kind, device.address, device.resource, device.name)))
        lines.append(f"{inside}device: {plain(named, unicode=unicode)}")
    for child in zone.children:
        end = child is zone.children[-1]
        lines += _lines(machine, child, later + (last if end else branch), later + ("   " if end else bar), unicode)
    return lines
