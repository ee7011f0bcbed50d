"""The objects of an hwloc topology, with the differences between formats 1, 2 and 3 taken out.

Format 1 (hwloc 1.x) calls packages `Socket` and has one type `Cache` with a depth and a kind; memory nodes stand in the
tree as parents. Formats 2 and 3 have `L1Cache`..., and memory nodes and memory-side caches hang beside CPUs. For a
Machine only CPU sets matter, so both read alike. Sets are hwloc bitmaps: 32-bit words in hexadecimal, the highest
first, an empty word for zero, and `0xf...f` in front where all higher bits are set.
Facts: hwloc's XML export (hwloc.dtd, hwloc2.dtd) and its manual, "Importing and exporting topologies".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from bayplan.errors import InputError
from bayplan.idset import CpuSet
from bayplan.machine.check import MAX_CPUS
from bayplan.machine.hwloc.elements import Element
from bayplan.machine.model import CacheKind, Finding

_INFINITE = "0xf...f"
_WORD = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,8})", re.ASCII)
_LONG = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,16384})", re.ASCII)
_CACHE = re.compile(r"L(\d)([id]?)Cache", re.ASCII)
_OTHER_NAMES = {"Socket": "Package", "System": "Machine", "Proc": "PU", "Node": "NUMANode"}
_CACHE_KINDS: dict[int, CacheKind] = {0: "unified", 1: "data", 2: "instruction"}
_GROUP_LINUX_CLUSTER = 222
_NO_INDEX = 2**32 - 1


class Thing:
    """An `object` element: `type` by hwloc 2's names (caches of the CPU are all `Cache`), parent and children."""

    def __init__(self, element: Element, parent: Thing | None) -> None:
        self.element = element
        self.parent = parent
        self.children: list[Thing] = []
        name = element.attributes.get("type", "")
        self.type = "Cache" if _CACHE.fullmatch(name) else _OTHER_NAMES.get(name, name)
        if parent is not None:
            parent.children.append(self)

    @cached_property
    def cpus(self) -> int | None:
        """Its CPU set as a mask, negative where it has no end; None where it has none (devices)."""
        text = self.element.attributes.get("cpuset")
        return None if text is None else self.bitmap("cpuset")

    @cached_property
    def infos(self) -> dict[str, str]:
        """Its `info` pairs."""
        return read_infos(self.element)

    @property
    def subtype(self) -> str:
        """Its subtype; older formats have it among the infos."""
        return self.element.attributes.get("subtype") or self.infos.get("Type", "")

    def bitmap(self, name: str) -> int:
        """An attribute that is a set; empty where it is missing."""
        text = self.element.attributes.get(name, "")
        mask = parse_bitmap(text)
        if mask is None:
            self.element.bad(f"{name} is not a set", value=text, expected="like 0x00000001,0xffffffff")
        return mask

    def os_index(self) -> int:
        """The kernel's number, or -1 where none is told (hwloc 1 writes that as 2**32 - 1)."""
        number = self.element.number("os_index", -1, -1, _NO_INDEX)
        return -1 if number == _NO_INDEX else number

    def below(self) -> Iterator[Thing]:
        """Itself and everything below, in the order of the file."""
        stack = [self]
        while stack:
            thing = stack.pop()
            yield thing
            stack.extend(reversed(thing.children))

    def cache_level(self) -> tuple[int, CacheKind]:
        """Level and kind of a CPU cache."""
        found = _CACHE.fullmatch(self.element.attributes.get("type", ""))
        level = self.element.number("depth", int(found[1]) if found else None, 1, 16)
        kind = self.element.number("cache_type", 2 if found and found[2] == "i" else 0, -1, 2)
        return level, _CACHE_KINDS.get(kind, "unified")

    def is_cluster(self) -> bool:
        """Whether it stands for a cluster of cores as Linux tells them."""
        kind = self.element.attributes.get("kind")
        grouped = self.type == "Group" and (self.subtype == "Cluster" or kind == str(_GROUP_LINUX_CLUSTER))
        return grouped or self.type == "Cluster"


class Topology:
    """All objects of a file, what stands beside them, and the findings made so far."""

    def __init__(self, root: Element) -> None:
        if root.tag not in ("topology", "root"):
            root.bad("not an hwloc topology", value=root.tag, expected="<topology>")
        self.element = root
        self.version = _major(root)
        tops = list(root.named("object"))
        if len(tops) != 1:
            root.bad("not one machine", value=len(tops), expected="one <object>")
        self.machine = _build(tops[0])
        if self.machine.type != "Machine":
            tops[0].bad("not a machine", value=self.machine.type, expected="type Machine")
        self.findings: list[Finding] = []
        self.things: dict[str, list[Thing]] = {}
        for thing in self.machine.below():
            self.things.setdefault(thing.type, []).append(thing)
        self.by_gp = {
            thing.element.attributes["gp_index"]: thing
            for thing in self.machine.below()
            if "gp_index" in thing.element.attributes
        }

    def all(self, kind: str) -> list[Thing]:
        """Objects of a type, in the order of the file."""
        return self.things.get(kind, [])

    def note(self, place: str, problem: str) -> None:
        """Leave a finding."""
        self.findings.append(Finding(place=place, problem=problem))


def parse_bitmap(text: str) -> int | None:
    """An hwloc bitmap as a mask, negative where it has no end; None if it is none."""
    words = text.strip().split(",")
    infinite = words[0] == _INFINITE
    words = words[1:] if infinite else words
    if len(words) > MAX_CPUS // 32:
        return None
    if len(words) == 1 and not infinite and (single := _LONG.fullmatch(words[0])):
        return int(single[1], 16)
    digits = []
    for word in words:
        found = _WORD.fullmatch(word) if word else None
        if word and found is None:
            return None
        digits.append(found[1].zfill(8) if found else "0" * 8)
    mask = int("".join(digits), 16) if digits else 0
    return mask | -1 << 32 * len(digits) if infinite else mask


def read_infos(element: Element) -> dict[str, str]:
    """The `info` children of an element, by name."""
    return {info.attributes.get("name", ""): info.attributes.get("value", "").strip() for info in element.named("info")}


def printable(text: str) -> str:
    """Text from the file made fit to show: no control characters, not too long."""
    return "".join(c for c in text if c.isprintable())[:256].strip()


def _major(root: Element) -> int:
    text = root.attributes.get("version", "1.0")
    major = text.partition(".")[0]
    if major not in ("1", "2", "3"):
        root.bad("unknown version", value=text, expected="1, 2 or 3")
    return int(major)


def _build(top: Element) -> Thing:
    """The tree of objects; no recursion, for depth is the file's to choose."""
    machine = Thing(top, None)
    stack = [machine]
    while stack:
        thing = stack.pop()
        stack.extend(Thing(element, thing) for element in thing.element.named("object"))
    return machine


def online_cpus(topology: Topology) -> int:
    """The CPUs that are on: the PUs, without those that format 1 lists though they are off."""
    mask = 0
    for thing in topology.all("PU"):
        bit = 1 << thing.element.number("os_index", None, 0, MAX_CPUS - 1)
        if mask & bit:
            thing.element.bad("CPU listed twice", value=bit.bit_length() - 1)
        if thing.cpus is not None and not thing.cpus & bit:
            topology.note(
                f"line {thing.element.line}", f"the set of CPU {bit.bit_length() - 1} is not itself; left aside"
            )
        mask |= bit
    if "online_cpuset" in topology.machine.element.attributes:
        mask &= topology.machine.bitmap("online_cpuset")
    if not mask:
        raise InputError("no CPU is online", place="topology", expected="objects of type PU")
    return mask


def allowed_note(topology: Topology, online: int) -> None:
    """Leave a finding where the process that wrote the file was not allowed to use all CPUs."""
    attributes = topology.machine.element.attributes
    if "allowed_cpuset" in attributes:
        barred = online & ~topology.machine.bitmap("allowed_cpuset")
        if barred:
            topology.note("allowed_cpuset", f"CPUs {CpuSet.of_mask(barred)} were barred to the process that wrote this")


def offline_cpus(topology: Topology, online: int) -> CpuSet:
    """CPUs that are known and have no PU: off, or (the file cannot tell) hidden by a cpuset."""
    complete = topology.machine.bitmap("complete_cpuset")
    if complete < 0 or not complete & ~online:
        return CpuSet()
    missing = CpuSet.of_mask(complete & ~online)
    topology.note("complete_cpuset", f"CPUs {missing} are known but not there; taken as offline")
    return missing
