"""A Machine from a topology that hwloc wrote (`lstopo out.xml`), formats 1 (hwloc 1.x), 2 and 3.

What contradicts itself and can be put right leaves a Finding; what cannot is an `InputError` with the line. Takes over
no names of hosts, serial numbers or network addresses. Not in these files, so not in the Machine: isolated and
nohz_full CPUs, memory tiers, virtual functions.
"""

from __future__ import annotations

from bayplan.errors import InputError
from bayplan.idset import CpuSet
from bayplan.machine.check import check
from bayplan.machine.hwloc.cpus import (
    read_caches,
    read_clusters,
    read_cores,
    read_dies,
    read_kinds,
    read_packages,
)
from bayplan.machine.hwloc.devices import read_devices
from bayplan.machine.hwloc.elements import parse
from bayplan.machine.hwloc.memory import read_nodes
from bayplan.machine.hwloc.objects import Topology, allowed_note, offline_cpus, online_cpus, printable, read_infos
from bayplan.machine.model import Machine

__all__ = ["read"]


def read(text: str | bytes, *, name: str, source: str = "") -> Machine:
    """The machine that an hwloc XML text describes, checked. Raises `InputError`; `source` names the file in it."""
    try:
        return check(_read(Topology(parse(text)), name, source))
    except InputError as error:
        raise error.within(source=source) from error


def _read(topology: Topology, name: str, source: str) -> Machine:
    online = online_cpus(topology)
    offline = offline_cpus(topology, online)
    allowed_note(topology, online)
    packages = read_packages(topology, online)
    dies = read_dies(topology, online, packages)
    clusters = read_clusters(topology, online, packages)
    nodes, distances = read_nodes(topology, online)
    kinds, frequencies = read_kinds(topology, online)
    infos = {**read_infos(topology.element), **topology.machine.infos}
    return Machine(
        name=name,
        source=source,
        architecture=printable(infos.get("Architecture", "")),
        online=CpuSet.of_mask(online),
        offline=offline,
        packages=packages,
        dies=dies,
        clusters=clusters,
        cores=read_cores(topology, online, packages, dies, clusters),
        caches=read_caches(topology, online),
        nodes=nodes,
        distances=distances,
        core_kinds=kinds,
        frequencies=frequencies,
        devices=read_devices(topology, online, nodes),
        findings=tuple(topology.findings),
    )
