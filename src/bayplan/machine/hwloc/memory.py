"""Memory nodes, what is told of reaching them, and the distances between them.

hwloc 2 gives a node without CPUs (HBM, GPU memory) the CPU set of the place where it hangs, so several nodes can name
the same CPUs; Linux counts every CPU to one node. The node of plain memory with the smallest set keeps them, the
others keep the nodes that they share them with as initiators.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bayplan.idset import CpuSet, NodeSet
from bayplan.machine.check import MAX_DISTANCE, MAX_NODES
from bayplan.machine.hwloc.elements import Element
from bayplan.machine.hwloc.objects import Thing, Topology, parse_bitmap
from bayplan.machine.model import HugepagePool, MemoryAccess, MemoryKind, MemoryNode, MemorySideCache

_MEANS_LATENCY = 4
_NOT_PLAIN: dict[str, MemoryKind] = {
    "HBM": "hbm",
    "MCDRAM": "hbm",
    "NVM": "pmem",
    "NVDIMM": "pmem",
    "PMEM": "pmem",
    "GPUMemory": "gpu",
    "SPM": "unknown",
}
_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "Bandwidth": ("read_bandwidth_mibps", "write_bandwidth_mibps"),
    "Latency": ("read_latency_ns", "write_latency_ns"),
    "ReadBandwidth": ("read_bandwidth_mibps",),
    "WriteBandwidth": ("write_bandwidth_mibps",),
    "ReadLatency": ("read_latency_ns",),
    "WriteLatency": ("write_latency_ns",),
}
Matrix = tuple[tuple[int, ...], ...]


def read_nodes(topology: Topology, online: int) -> tuple[tuple[MemoryNode, ...], Matrix]:
    """The memory nodes by id, and the distances between them (empty where they are not told)."""
    things = {thing.element.number("os_index", None, 0, 65_535): thing for thing in topology.all("NUMANode")}
    if len(things) != len(topology.all("NUMANode")):
        topology.element.bad("memory nodes with the same os_index", expected="one each")
    if len(things) > MAX_NODES:
        topology.element.bad("too many memory nodes", value=len(things), expected=f"at most {MAX_NODES}")
    if not things:
        memory = topology.machine.element.number("local_memory", 0)
        cpus = CpuSet.of_mask(online)
        return (MemoryNode(id=0, cpus=cpus, memory_bytes=memory, kind="dram", initiators=NodeSet([0])),), ()
    local = {number: (thing.cpus or 0) & online for number, thing in things.items()}
    owned = _owners(things, local)
    matrix = _read_distances(topology, things)
    attributes = _read_attributes(topology)
    nodes = []
    for number in sorted(things):
        access, reached_by = attributes.get(id(things[number]), (None, 0))
        node = _read_node(topology, things[number], CpuSet.of_mask(owned[number]))
        near = reached_by & online or local[number]
        initiators = _initiators(number, owned, near, matrix, sorted(things))
        nodes.append(msgspec.structs.replace(node, access=access, initiators=initiators))
    return tuple(nodes), matrix


def _kind(thing: Thing) -> MemoryKind | None:
    """The kind by hwloc's subtype; None for plain memory or nothing told."""
    subtype = thing.subtype
    return "cxl" if subtype.startswith("CXL") else _NOT_PLAIN.get(subtype)


def _owners(things: dict[int, Thing], local: dict[int, int]) -> dict[int, int]:
    """To which node each CPU counts, as masks by node id."""
    taken, owned = 0, {}
    order = sorted(things, key=lambda number: (_kind(things[number]) is not None, local[number].bit_count(), number))
    for number in order:
        owned[number] = 0 if local[number] & taken else local[number]
        taken |= owned[number]
    return owned


def _initiators(number: int, owned: dict[int, int], near: int, matrix: Matrix, order: list[int]) -> NodeSet:
    """Itself where it has CPUs; else the nodes whose CPUs are near, and of these the closest."""
    if owned[number]:
        return NodeSet([number])
    nodes = [node for node in order if owned[node] & near] or [node for node in order if owned[node] and matrix]
    if not matrix or not nodes:
        return NodeSet(nodes)
    place = {node: index for index, node in enumerate(order)}
    least = min(matrix[place[node]][place[number]] for node in nodes)
    return NodeSet(node for node in nodes if matrix[place[node]][place[number]] == least)


def _read_node(topology: Topology, thing: Thing, cpus: CpuSet) -> MemoryNode:
    element = thing.element
    number = element.number("os_index", None)
    memory = element.number("local_memory", 0)
    pools = _read_pools(element)
    if sum(pool.page_bytes * pool.count for pool in pools) > memory:
        topology.note(f"line {element.line}", f"node {number} has more huge pages than memory; left out")
        pools = ()
    return MemoryNode(
        id=number,
        cpus=cpus,
        memory_bytes=memory,
        kind=_kind(thing) or ("dram" if cpus or thing.subtype == "DRAM" else "unknown"),
        hugepages=pools,
        side_caches=tuple(_side_caches(thing)),
    )


def _read_pools(element: Element) -> tuple[HugepagePool, ...]:
    """Page types but the smallest, which is that of ordinary pages."""
    found = {page.number("size", None, 1): page.number("count", 0) for page in element.named("page_type")}
    return tuple(HugepagePool(page_bytes=size, count=found[size]) for size in sorted(found)[1:])


def _side_caches(thing: Thing) -> Iterable[MemorySideCache]:
    caches = []
    above = thing.parent
    while above is not None and above.type == "MemCache":
        element = above.element
        caches.append(
            MemorySideCache(
                level=element.number("depth", 1, 1, 16),
                bytes=element.number("cache_size", 0),
                line_bytes=element.number("cache_linesize", 0),
            )
        )
        above = above.parent
    return sorted(caches, key=lambda cache: cache.level)


def _read_attributes(topology: Topology) -> dict[int, tuple[MemoryAccess, int]]:
    """By `id` of a node's object: the best figures, and the CPUs that have them (bandwidth before latency)."""
    best: dict[int, dict[str, tuple[int, int]]] = {}
    for attribute in topology.element.named("memattr"):
        fields = _ATTRIBUTES.get(attribute.attributes.get("name", ""), ())
        for value in attribute.named("memattr_value") if fields else ():
            target = topology.by_gp.get(value.attributes.get("target_obj_gp_index", ""))
            if target is None or target.type != "NUMANode":
                continue
            figure, cpus = value.number("value", None), _initiator_cpus(topology, value)
            known = best.setdefault(id(target), {})
            for field in fields:
                known[field] = _better(field, known.get(field), (figure, cpus))
    return {
        target: (MemoryAccess(**{field: figure for field, (figure, _) in known.items()}), _best_cpus(known))
        for target, known in best.items()
    }


def _better(field: str, old: tuple[int, int] | None, new: tuple[int, int]) -> tuple[int, int]:
    if old is None:
        return new
    if old[0] == new[0]:
        return old[0], old[1] | new[1]
    wins = new[0] > old[0] if "bandwidth" in field else new[0] < old[0]
    return new if wins else old


def _best_cpus(known: dict[str, tuple[int, int]]) -> int:
    for field in ("read_bandwidth_mibps", "write_bandwidth_mibps", "read_latency_ns", "write_latency_ns"):
        if field in known:
            return known[field][1]
    return 0


def _initiator_cpus(topology: Topology, value: Element) -> int:
    text = value.attributes.get("initiator_cpuset")
    if text is None:
        other = topology.by_gp.get(value.attributes.get("initiator_obj_gp_index", ""))
        return (other.cpus or 0) if other is not None else 0
    mask = parse_bitmap(text)
    if mask is None:
        value.bad("initiator_cpuset is not a set", value=text, expected="like 0x0000ffff")
    return mask


def _read_distances(topology: Topology, things: dict[int, Thing]) -> Matrix:
    """The matrix of latencies between all memory nodes, in the order of their ids."""
    found = _matrix_of_2(topology) if topology.version > 1 else _matrix_of_1(topology, things)
    if found is None:
        return ()
    numbers, values = found
    if sorted(numbers) != sorted(things):
        topology.note("distances", f"told between nodes {NodeSet(numbers)}, which are not all or not there; left out")
        return ()
    place = {number: index for index, number in enumerate(numbers)}
    size = len(numbers)
    return tuple(tuple(values[place[a] * size + place[b]] for b in sorted(things)) for a in sorted(things))


def _matrix_of_2(topology: Topology) -> tuple[list[int], list[int]] | None:
    """`distances2`: node ids and values, row by row."""
    for element in topology.element.named("distances2"):
        latency = element.number("kind", 0) & _MEANS_LATENCY
        if element.attributes.get("type") != "NUMANode" or not latency:
            continue
        texts = [word for part in element.named("indexes") for word in part.text.split()]
        if element.attributes.get("indexing") == "gp":
            found = [topology.by_gp.get(text) for text in texts]
            indexes = [thing.element.number("os_index", -1) if thing is not None else -1 for thing in found]
        else:
            indexes = read_numbers(element, texts, 65_535)
        if -1 in indexes:
            element.bad("distances of objects that are not there", value=texts, expected="memory nodes")
        return indexes, read_square(element, len(indexes), MAX_DISTANCE)
    return None


def read_numbers(element: Element, words: list[str], largest: int) -> list[int]:
    """Words as whole numbers 0..largest."""
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) <= 20 and int(word) <= largest):
            element.bad("not a whole number", value=word, expected=f"0..{largest}")
    return [int(word) for word in words]


def read_square(element: Element, size: int, largest: int) -> list[int]:
    """The values of a `distances2` or `distances2hetero` between `size` objects, row by row."""
    words = [word for part in element.named("u64values") for word in part.text.split()]
    if len(words) != size * size:
        element.bad("not a square of values", value=len(words), expected=f"{size * size} values")
    return read_numbers(element, words, largest)


def _matrix_of_1(topology: Topology, things: dict[int, Thing]) -> tuple[list[int], list[int]] | None:
    """`distances` of format 1: relative figures, between the objects at a depth below the one that holds them."""
    for element in topology.machine.element.named("distances"):
        order = [number for thing in topology.all("NUMANode") for number, one in things.items() if one is thing]
        depths = {_depth(things[number]) for number in order}
        if element.number("nbobjs", 0) != len(order) or depths != {element.number("relative_depth", 0)}:
            topology.note(f"line {element.line}", "distances that are not between memory nodes; left out")
            continue
        base = _real(element, element.attributes.get("latency_base", "1"))
        values = [round(base * _real(part, part.attributes.get("value", ""))) for part in element.named("latency")]
        if len(values) != len(order) ** 2:
            element.bad("not a square of latencies", value=len(values), expected=str(len(order) ** 2))
        return order, values
    return None


def _depth(thing: Thing) -> int:
    depth = 0
    while thing.parent is not None:
        depth, thing = depth + 1, thing.parent
    return depth


def _real(element: Element, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100_000:
        element.bad("latency is wrong", value=text, expected="a number 0..100000")
    return value
