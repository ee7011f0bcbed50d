"""A machine read from Linux's `/sys` and a little of `/proc`, live or captured.

`read` is pure: it sees a `Tree` and nothing else, so that a live machine, a capture and a test are read alike. It
raises `InputError` only where there is no machine in the tree at all; what is inconsistent becomes a `Finding`, and
what is sound is used.
"""

from __future__ import annotations

from bayplan.errors import InputError
from bayplan.machine.model import Machine
from bayplan.machine.sysfs.caches import read_caches
from bayplan.machine.sysfs.cpus import read_states, read_topology
from bayplan.machine.sysfs.facts import Facts
from bayplan.machine.sysfs.frequencies import read_frequencies
from bayplan.machine.sysfs.identity import read_architecture, read_model, read_product_name, told_lines
from bayplan.machine.sysfs.kinds import read_core_kinds
from bayplan.machine.sysfs.memory_kinds import gpu_memory
from bayplan.machine.sysfs.nodes import read_nodes
from bayplan.machine.sysfs.pci import read_devices
from bayplan.machine.tree import Tree

__all__ = ["read", "told_lines"]


def read(tree: Tree, *, name: str = "", source: str = "") -> Machine:
    """The machine in `tree`.

    `name` is what to call it (empty: the product name that DMI tells, else `machine`); `source` where the tree came
    from. Raises `InputError` with that source if the tree holds no CPUs.
    """
    facts = Facts(_Told(tree))
    try:
        states = read_states(facts)
    except InputError as error:
        raise error.within(source=source) from error
    facts.online = states.online
    topology = read_topology(facts, states.online, read_model(facts))
    nodes, distances = read_nodes(facts, states.online, states.offline)
    devices = read_devices(facts, states.online, nodes)
    nodes = gpu_memory(nodes, {d.node for d in devices if d.kind == "gpu" and d.node is not None})
    return Machine(
        name=name or read_product_name(facts) or "machine",
        source=source,
        architecture=read_architecture(facts),
        online=states.online,
        offline=states.offline,
        isolated=states.isolated,
        nohz_full=states.nohz_full,
        cores=topology.cores,
        packages=topology.packages,
        dies=topology.dies,
        clusters=topology.clusters,
        caches=read_caches(facts, states.online, topology.cores),
        nodes=nodes,
        distances=distances,
        core_kinds=read_core_kinds(facts, states.online, topology.cores),
        frequencies=read_frequencies(facts, topology.cores),
        devices=devices,
        findings=facts.findings,
    )


class _Told:
    """A tree of which readers see only what they may use (see `told_lines`), each file read once."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._kept: dict[str, str | None] = {}

    def read(self, path: str) -> str | None:
        if path not in self._kept:
            content = self._tree.read(path)
            self._kept[path] = None if content is None else told_lines(path, content)
        return self._kept[path]

    def list(self, path: str) -> tuple[str, ...]:
        return self._tree.list(path)

    def link(self, path: str) -> str | None:
        return self._tree.link(path)
