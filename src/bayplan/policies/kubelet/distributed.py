"""The kubelet's distributing allocator (`distribute-cpus-across-numa`): an even share from each of some NUMA nodes.

Facts: takeByTopologyNUMADistributed in pkg/kubelet/cm/cpumanager/cpu_assignment.go of Kubernetes 1.36; the project's
account, chapter 5. Three ways in which that function is wrong are kept in `exact` and left out otherwise:

* the best combination is remembered as a Go slice whose array later combinations write on, so another one may be used;
* with leftovers that cannot be placed in whole groups it never ends (`NeverEndsError` is raised instead);
* it walks all combinations of nodes; where that is more than anyone would wait for, `NeverEndsError` is raised as well.

Outside `exact` a walk that would be too long is replaced by the nodes with most room, which have the best balance, and
leftovers come one group at a time from the node with most left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from bayplan.policies.kubelet.packed import AllocationError, Packing, not_enough, take_packed
from bayplan.policies.kubelet.topology import CpuTopology

MAX_COMBINATIONS = 1_000_000
WORTH_WALKING = 2_000


class NeverEndsError(Exception):
    """The kubelet would not come back from here; it holds the CPU manager's lock for ever."""


class GoSlice:
    """A Go slice of ints built by append: slices may share an array, and writing through one shows in the others."""

    __slots__ = ("array", "length")

    def __init__(self, array: list[int], length: int) -> None:
        self.array = array
        self.length = length

    def append(self, value: int) -> GoSlice:
        """Append as Go's runtime does: in place while there is capacity, else into an array of the next capacity."""
        capacity = len(self.array)
        full = self.length == capacity
        array = self.array + [0] * (max(1, 2 * capacity) - capacity) if full else self.array
        array[self.length] = value
        return GoSlice(array, self.length + 1)

    def __iter__(self) -> Iterator[int]:
        return iter(self.array[: self.length])

    def frozen(self) -> GoSlice:
        """A copy that nothing else writes on."""
        return GoSlice(self.array[: self.length], self.length)


def take_distributed(topology: CpuTopology, available: int, count: int, group: int, *, exact: bool = True) -> int:
    """`count` CPUs out of `available`, spread evenly in groups of `group` (1, or the CPUs of a core)."""
    if count % group:
        return take_packed(topology, available, count, exact=exact)
    work = Packing(topology, available, count, exact=exact)
    if count < 1:
        return 0
    if count > work.free.bit_count():
        raise not_enough(count, available)
    taken = _Distribution(work, topology, count, group, exact).run()
    return take_packed(topology, available, count, exact=exact) if taken is None else taken


class _Distribution:
    def __init__(self, work: Packing, topology: CpuTopology, count: int, group: int, exact: bool) -> None:
        self._work = work
        self._topology = topology
        self._count = count
        self._group = group
        self._exact = exact
        self._steps = 0
        # A node stands there twice where sockets cross nodes; the kubelet combines it with itself, too.
        nodes = work.nodes_in_order()
        self._nodes = nodes if exact else list(dict.fromkeys(nodes))
        self._free = {n: (work.free & topology.node_cpus[n]).bit_count() for n in self._nodes}

    def run(self) -> int | None:
        g, t = self._group, self._topology
        groups = -(-t.all.bit_count() // g)
        per_node = -(-groups // t.node_count)
        needed = -(-self._count // g)
        for k in range(-(-needed // per_node), min(needed, len(self._free)) + 1):
            chosen = self._best_of(k)
            if chosen is not None:
                return self._allocate(*chosen)
        return None

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > MAX_COMBINATIONS:
            raise NeverEndsError(f"more than {MAX_COMBINATIONS} combinations of NUMA nodes and of leftovers to walk")

    def _share(self, k: int) -> int:
        """CPUs from each of k nodes before leftovers, in whole groups."""
        return self._count // k // self._group * self._group

    def _best_of(self, k: int) -> tuple[GoSlice, GoSlice | None, int] | None:
        steps = math.comb(len(self._nodes), k) * (2**k if self._count - self._share(k) * k else 1)
        if steps > WORTH_WALKING and not self._exact:
            return self._roomiest(k)
        best = math.inf
        kept: tuple[GoSlice, GoSlice | None] | None = None
        for nodes in combinations(self._nodes, k):
            if best == 0:
                break
            found = self._judge(nodes, k)
            if found is not None and found[0] < best:
                best = found[0]
                kept = (nodes, found[1]) if self._exact else (nodes.frozen(), found[1] and found[1].frozen())
        return None if kept is None else (*kept, self._share(k))

    def _roomiest(self, k: int) -> tuple[GoSlice, GoSlice | None, int] | None:
        order = sorted(self._nodes, key=lambda n: -self._free[n])[:k]
        nodes = [n for n in self._nodes if n in order]
        share, g = self._share(k), self._group
        after = {n: self._free[n] - share for n in nodes}
        if any(room < 0 for room in after.values()):
            return None
        givers: list[int] = []
        for _ in range((self._count - share * k) // g):
            giver = max(nodes, key=lambda n: after[n])
            after[giver] -= g
            givers.append(giver)
        if any(room < 0 for room in after.values()):
            return None
        return GoSlice(nodes, k), GoSlice(givers, len(givers)), share

    def _judge(self, nodes: GoSlice, k: int) -> tuple[float, GoSlice | None] | None:
        """The balance that a combination leaves and the nodes that give the leftovers, or None if it cannot serve."""
        self._count_step()
        free, g, d = self._free, self._group, self._share(k)
        members = list(nodes)
        if sum(free[n] for n in set(members)) < self._count or g * sum(free[n] // g for n in members) < self._count:
            return None
        if any(free[n] < d for n in members):
            return None
        after = dict(free)
        for n in members:
            after[n] -= d
        left = self._count - d * k
        if left == 0:
            return deviation(list(after.values())), None
        return self._leftovers([n for n in members if after[n] >= g], after, left)

    def _leftovers(self, givers: list[int], after: dict[int, int], left: int) -> tuple[float, GoSlice | None] | None:
        best, kept = math.inf, None
        found = False
        for size in range(len(givers), 0, -1):
            for subset in combinations(givers, size):
                self._count_step()
                if sum(after[n] for n in subset) < left:
                    continue
                rest = self._hand_out(list(subset), dict(after), left)
                if rest is None:
                    continue
                balance = deviation(list(rest.values()))
                if balance < best:
                    best, kept, found = balance, subset if self._exact else subset.frozen(), True
        return (best, kept) if found else None

    def _hand_out(self, subset: list[int], after: dict[int, int], left: int) -> dict[int, int] | None:
        g = self._group
        while left > 0:
            before = left
            for n in subset:
                if left > 0 and after[n] >= g:
                    after[n] -= g
                    left -= g
            if left == before:
                if self._exact:
                    raise NeverEndsError("leftover CPUs that no NUMA node of a combination can give in whole cores")
                return None
        return after

    def _allocate(self, nodes: GoSlice, leftovers: GoSlice | None, share: int) -> int:
        work, t, g = self._work, self._topology, self._group
        for n in nodes:
            self._claim_in(n, share)
        left = self._count - share * nodes.length
        while left > 0:
            before = left
            for n in leftovers or ():
                if left > 0 and (work.free & t.node_cpus[n]).bit_count() >= g:
                    self._claim_in(n, g)
                    left -= g
            if left == before:
                if self._exact:
                    raise NeverEndsError("leftover CPUs that no NUMA node of the chosen ones can give in whole cores")
                break
        if work.need > 0:
            raise AllocationError(f"accounting error, not enough CPUs allocated, remaining: {work.need}")
        if work.need < 0:
            raise AllocationError(f"accounting error, too many CPUs allocated, remaining: {work.need}")
        return work.result

    def _claim_in(self, node: int, count: int) -> None:
        work = self._work
        inside = work.free & self._topology.node_cpus[node]
        try:
            cpus = take_packed(self._topology, inside, count, exact=self._exact)
        except AllocationError:
            cpus = 0  # the kubelet ignores the error here; the count at the end shows it
        work.claim(cpus)


def combinations(items: Sequence[int], size: int) -> Iterator[GoSlice]:
    """All combinations in lexicographic order of position, on shared arrays as Go's appends share them."""

    def walk(start: int, prefix: GoSlice) -> Iterator[GoSlice]:
        if prefix.length == size:
            yield prefix
            return
        for i in range(start, len(items) - (size - prefix.length) + 1):
            yield from walk(i + 1, prefix.append(items[i]))

    if size <= len(items):
        yield from walk(0, GoSlice([], 0))


def deviation(values: Sequence[int]) -> float:
    """Standard deviation as the kubelet rounds it: mean and result to three digits, halves away from zero."""
    mean = _rounded(sum(values) / len(values))
    return _rounded(math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)))


def _rounded(value: float) -> float:
    return math.floor(value * 1000 + 0.5) / 1000
