"""The words of a description: a regular machine in thirty lines, as a person writes it.

A description says how many packages, cores and memory nodes there are and how Linux would number the CPUs;
`bayplan.machine.preset` expands it to a Machine. Every preset says where its figures come from: `sources` is required.

CPU numbers follow the two schemes of Linux: on x86 servers the first threads of all cores come first and their
siblings after them (`threads-last`); on POWER, and on hybrid desktops, threads of a core are neighbours
(`threads-adjacent`).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from bayplan.idset import NodeSet
from bayplan.machine import document
from bayplan.machine.model import DeviceKind, MemoryAccess, MemoryKind

KIND = "MachineDescription"


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a description; unknown fields are refused. Sizes are Kubernetes quantities (`48Ki`)."""


class Source(_Part, frozen=True, kw_only=True):
    """Where figures come from: the title of a public document, and which figures it gives, or `assumed`."""

    title: str
    gives: str


class Cores(_Part, frozen=True, kw_only=True):
    """Equal cores of one package, in the order of their numbers. `l2_cores` of them share one L2."""

    count: int
    threads: int = 1
    kind: str = ""
    capacity: int = 0
    l1d: str | int = 0
    l1i: str | int = 0
    l2: str | int = 0
    l2_cores: int = 1
    min_khz: int = 0
    base_khz: int = 0
    max_khz: int = 0


class LastLevel(_Part, frozen=True, kw_only=True):
    """The L3 caches of a package: one for each `cores` cores, or one for all of them (0)."""

    bytes: str | int
    cores: int = 0
    ways: int = 0


class Packages(_Part, frozen=True, kw_only=True):
    """Equal packages. `ids` where they are not 0, 1, 2...; each has `dies` equal dies and `nodes` equal NUMA nodes."""

    count: int = 1
    ids: tuple[int, ...] = ()
    model: str = ""
    dies: int = 1
    nodes: int = 1
    cores: tuple[Cores, ...]
    l3: LastLevel | None = None


class CpuMemory(_Part, frozen=True, kw_only=True):
    """The memory nodes that have CPUs, in the order of their CPUs. `ids` where they are not 0, 1, 2..."""

    bytes: str | int
    ids: tuple[int, ...] = ()
    kind: MemoryKind = "dram"
    access: MemoryAccess | None = None


class BareMemory(_Part, frozen=True, kw_only=True):
    """Memory nodes without CPUs: their ids (list format), the node whose CPUs reach them best, memory of each."""

    ids: NodeSet
    near: int
    bytes: str | int = 0
    kind: MemoryKind
    access: MemoryAccess | None = None


class Pairs(_Part, frozen=True, kw_only=True):
    """A distance between every node of `a` and every other of `b`, both ways."""

    a: NodeSet
    b: NodeSet
    distance: int


class Distances(_Part, frozen=True, kw_only=True):
    """Distances by rule, later ones win: `machine` everywhere, `pairs` in order, `package` inside one, `local`."""

    local: int = 10
    machine: int = 20
    pairs: tuple[Pairs, ...] = ()
    package: int | None = None


class Devices(_Part, frozen=True, kw_only=True):
    """Equal PCI devices: one address each, with one node each. `linked`: each is linked directly with all others."""

    kind: DeviceKind
    name: str
    addresses: tuple[str, ...]
    nodes: tuple[int, ...]
    vendor: int = 0
    device: int = 0
    pci_class: int = 0
    resource: str = ""
    linked: bool = False


class Description(_Part, frozen=True, kw_only=True):
    """A regular machine. `summary` is one line for a list of presets."""

    summary: str
    sources: tuple[Source, ...]
    architecture: str
    packages: Packages
    memory: CpuMemory
    numbering: Literal["threads-last", "threads-adjacent"] = "threads-last"
    bare_memory: tuple[BareMemory, ...] = ()
    distances: Distances | None = None
    devices: tuple[Devices, ...] = ()


def read(values: dict[str, Any], *, source: str = "") -> Description:
    """The description in a parsed document (`bayplan.machine.document.parse`). Raises `InputError`."""
    _, fields = document.take_header(values, (KIND,), source=source)
    return document.convert(fields, Description, source=source)
