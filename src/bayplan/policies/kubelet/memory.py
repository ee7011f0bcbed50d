"""The Memory manager, policies None and Static: hints, blocks promised from groups of nodes, release.

Facts: pkg/kubelet/cm/memorymanager/policy_static.go of Kubernetes 1.36; the project's account, chapter 7. A node is
either used alone or together with the others of one group (its cells), never both; the one exception that the kubelet
lets through (a single-node block on a node of a group) is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayplan.idset import bits
from bayplan.policies.kubelet.hints import Hints, Listed, NoPreference, Sum, Up
from bayplan.policies.kubelet.memory_tables import WORD, SeenNode, allocatable_memory
from bayplan.policies.kubelet.merge import best_preferred
from bayplan.policies.kubelet.settings import Settings, StartError, check_reserved_memory
from bayplan.policies.kubelet.state import (
    NIL_POINTER,
    AdmissionError,
    Block,
    Hint,
    KubeletPanicError,
    Memory,
    State,
    unexpected,
)
from bayplan.policies.kubelet.wrapped import Amounts, has_wrapped, walked_hints
from bayplan.workload.model import Pod, Request


class MemoryManager:
    """One kubelet's memory manager. Immutable; what changes is in `State`. `active` False: policy None."""

    def __init__(self, nodes: Sequence[SeenNode], settings: Settings, *, exact: bool) -> None:
        self._exact = exact
        self.active = settings.memory_policy == "Static"
        if settings.memory_policy == "BestEffort":
            raise StartError("memory", 'policy "BestEffort" is not available for platform "linux"')
        if settings.memory_policy not in ("None", "Static"):
            raise StartError("memory", f'unknown policy: "{settings.memory_policy}"')
        self.ids = tuple(node.id for node in nodes)
        self._position = {node: i for i, node in enumerate(self.ids)}
        self._width = max(self.ids, default=0) + 1
        self._all = sum(1 << node for node in self.ids)
        self.allocatable: Memory = {}
        if self.active:
            reserved = check_reserved_memory(settings, frozenset(self.ids))
            self.allocatable = allocatable_memory(nodes, reserved, exact=exact)
        self._wrapped = has_wrapped(self.allocatable)
        self._weights = {kind: self._by_id(amounts) for kind, amounts in self.allocatable.items()}

    def start(self, state: State) -> None:
        """Fill an empty state, or check one that a kubelet finds at its start (`StartError`, `KubeletPanicError`)."""
        if not self.active:
            return
        if not state.cells:
            self._fill(state)
            return
        fresh = State()
        fresh.blocks = state.blocks
        self._settle(fresh)
        if self._summary(state) != self._summary(fresh):
            raise StartError(
                "memory-start", "[memorymanager] the expected machine state is different from the real one"
            )
        # The kubelet adds up every node's types over its group; a node of the group without such a type ends it.
        for amounts in self.allocatable.values() if self._exact else ():
            for group in state.cells:
                there = {amounts[self._position[n]] >= 0 for n in bits(group)}
                if len(there) > 1:
                    raise KubeletPanicError(NIL_POINTER)

    def hints(self, state: State, pod: Pod, container: Request) -> Sequence[Hints | NoPreference]:
        """Hints for one container, one list a type (all alike)."""
        if not self._takes_part(pod):
            return [NoPreference(True)]
        blocks = state.blocks.get(pod.uid, {}).get(container.name)
        if blocks is not None:
            return _regenerated(blocks, container.memory_types)
        return self._lists(state, pod, container.memory_types)

    def pod_hints(self, state: State, pod: Pod) -> Sequence[Hints | NoPreference]:
        """Hints for all containers of a pod together."""
        if not self._takes_part(pod):
            return [NoPreference(True)]
        wanted = pod_memory(pod)
        held = state.blocks.get(pod.uid, {})
        for container in pod.all_containers:
            if container.name in held:
                return _regenerated(held[container.name], wanted)
        return self._lists(state, pod, wanted)

    def allocate(self, state: State, pod: Pod, container: Request) -> None:
        """Promise a container its memory. Raises `AdmissionError`."""
        if not self._takes_part(pod):
            return
        held = state.blocks.get(pod.uid, {})
        if container.name in held:
            self._update_reusable(state, pod, container, held[container.name])
            return
        wanted = container.memory_types
        nodes = self._choose(state, pod, container, wanted)
        blocks = tuple(Block(nodes, kind, size) for kind, size in wanted.items())
        for block in blocks:
            reusable = self._reusable(state, pod).get(nodes, {}).get(block.type, 0)
            self._put(state, block, max(0, block.size - reusable))
        self._update_reusable(state, pod, container, blocks)
        state.blocks[pod.uid] = {**held, container.name: blocks}
        self._shrink_init_blocks(state, pod, container, blocks)

    def release(self, state: State, pod: str, container: str) -> None:
        """Give back what a container holds."""
        held = dict(state.blocks.get(pod, {}))
        blocks = held.pop(container, None)
        if blocks is None:
            return
        if held:
            state.blocks[pod] = held
        else:
            del state.blocks[pod]
        if self._exact:
            for block in blocks:
                self._take_back(state, block)
        else:
            self._settle(state)

    def reinstate(self, state: State, pod: str, container: str, blocks: tuple[Block, ...]) -> None:
        """Enter blocks that a container is known to hold."""
        for block in blocks:
            self._put(state, block, block.size)
        state.blocks[pod] = {**state.blocks.get(pod, {}), container: blocks}

    def start_container(self, state: State, pod: Pod, container: str) -> None:
        """Init containers have ended when a later container starts: their blocks go back (their CPUs do not)."""
        for earlier in pod.init:
            if earlier.name == container:
                break
            if not earlier.restartable:
                self.release(state, pod.uid, earlier.name)

    def _takes_part(self, pod: Pod) -> bool:
        return self.active and pod.qos == "Guaranteed" and pod.resources is None

    def _choose(self, state: State, pod: Pod, container: Request, wanted: Mapping[str, int]) -> int:
        hint = state.hint_of(pod.uid, container.name)
        if hint.nodes is None:
            best = self._default_hint(state, pod, wanted)
            if hint.preferred and not best.preferred:
                raise self._refusal("failed to find the default preferred hint", state, wanted)
        else:
            best = hint
        assert best.nodes is not None
        if not self._satisfies(state, best.nodes, wanted):
            wider = self._extended_hint(state, pod, wanted, best.nodes)
            if best.preferred and not wider.preferred:
                raise self._refusal("failed to find the extended preferred hint", state, wanted)
            best = wider
        assert best.nodes is not None
        if self._violates(state, best.nodes):
            raise self._refusal("preferred hint violates NUMA node allocation", state, wanted)
        return best.nodes

    def _default_hint(self, state: State, pod: Pod, wanted: Mapping[str, int]) -> Hint:
        hints = self._family(state, pod, wanted)
        best = _best(hints)
        if best is None:
            message = "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
            raise self._refusal(message, state, wanted)
        return best

    def _extended_hint(self, state: State, pod: Pod, wanted: Mapping[str, int], nodes: int) -> Hint:
        hints = self._family(state, pod, wanted)
        up = hints.up
        if up is not None:
            up = None if nodes & ~up.universe else Up(up.universe, up.conditions, up.must | nodes)
        fixed = [mask for mask in hints.fixed if not nodes & ~mask]
        best = _best(Hints(up, fixed, preferred_size=hints.preferred_size))
        if best is None:
            raise self._refusal("failed to find NUMA nodes to extend the current topology hint", state, wanted)
        return best

    def _refusal(self, message: str, state: State, wanted: Mapping[str, int]) -> AdmissionError:
        short = next(
            (k for k, size in wanted.items() if size > sum(f for f in state.free.get(k, ()) if f > 0)), "memory"
        )
        free = sum(f for f in state.free.get(short, ()) if f > 0)
        return unexpected(f"[memorymanager] {message}", resource=short, asked=wanted.get(short), free=free)

    def _lists(self, state: State, pod: Pod, wanted: Mapping[str, int]) -> Sequence[Hints | NoPreference]:
        if not wanted:
            return [NoPreference(True)]
        hints = self._family(state, pod, wanted)
        if hints.empty:
            # The kubelet makes no entry at all here, which means "no preference": it admits what cannot be allocated.
            return [NoPreference(True)]
        return [hints] * len(wanted)

    def _family(self, state: State, pod: Pod, wanted: Mapping[str, int]) -> Hints:
        """All masks that can hold the request: idle nodes together, and groups and busy nodes as they are."""
        self._check_types(wanted, self._all)
        if self._wrapped:
            amounts = Amounts(self.allocatable, state.free, self._reusable(state, pod))
            return walked_hints(self.ids, wanted, amounts, lambda mask: self._may_group(state, mask))
        totals = [Sum(self._weights.get(kind, [0] * self._width), size) for kind, size in wanted.items()]
        free = [Sum(self._by_id(state.free.get(kind, ())), size) for kind, size in wanted.items()]
        idle, fixed = self._groups(state)
        reusable = self._reusable(state, pod)
        fixed += [mask for mask in reusable if mask not in fixed and self._may_group(state, mask)]
        masks = [m for m in fixed if all(c.met(m) for c in totals) and self._enough(free, wanted, m, reusable)]
        size = Up(self._all, totals).narrowest() or len(self.ids)
        return Hints(Up(idle, [*totals, *free]), masks, preferred_size=size)

    def _groups(self, state: State) -> tuple[int, list[int]]:
        """Nodes without assignments, and the other masks that the group rule allows."""
        idle = 0
        fixed = {}
        for i, node in enumerate(self.ids):
            if state.assignments[i] == 0 and state.cells[i] == 1 << node:
                idle |= 1 << node
            elif self._may_group(state, state.cells[i]):
                fixed[state.cells[i]] = True
        return idle, list(fixed)

    def _may_group(self, state: State, mask: int) -> bool:
        """The kubelet's rule for hints on nodes used alone and together."""
        if mask.bit_count() == 1:
            return state.cells[self._position[mask.bit_length() - 1]].bit_count() == 1
        return not self._violates(state, mask)

    def _violates(self, state: State, mask: int) -> bool:
        """Whether a mask of several nodes meets a busy node that is used alone or in another group."""
        if mask.bit_count() == 1:
            return False
        for node in bits(mask):
            i = self._position[node]
            if state.assignments[i] and (state.cells[i].bit_count() == 1 or state.cells[i] != mask):
                return True
        return False

    def _enough(
        self, free: Sequence[Sum], wanted: Mapping[str, int], mask: int, reusable: Mapping[int, Mapping[str, int]]
    ) -> bool:
        own = reusable.get(mask, {})
        return all(c.total(mask) + own.get(kind, 0) >= c.need for c, kind in zip(free, wanted, strict=True))

    def _check_types(self, wanted: Mapping[str, int], nodes: int) -> None:
        """The kubelet dies on looking for a type of memory on a node that has no such type."""
        for kind in wanted if self._exact else ():
            amounts = self.allocatable.get(kind)
            if amounts is None or any(amounts[self._position[n]] < 0 for n in bits(nodes)):
                raise KubeletPanicError(NIL_POINTER)

    def _satisfies(self, state: State, nodes: int, wanted: Mapping[str, int]) -> bool:
        self._check_types(wanted, nodes)
        for kind, size in wanted.items():
            amounts = state.free.get(kind)
            if amounts is None or sum(max(0, amounts[self._position[n]]) for n in bits(nodes)) % WORD < size:
                return False
        return True

    def _put(self, state: State, block: Block, size: int) -> None:
        assignments, cells = list(state.assignments), list(state.cells)
        amounts = state.free.get(block.type)
        free = list(amounts) if amounts is not None else [-1] * len(self.ids)
        reserved = list(state.reserved.get(block.type, ()))
        for node in bits(block.nodes):
            i = self._position[node]
            assignments[i] += 1
            cells[i] = block.nodes
            moved = min(size, max(0, free[i]))
            if moved:
                free[i] -= moved
                reserved[i] += moved
                size -= moved
        state.assignments, state.cells = tuple(assignments), tuple(cells)
        if amounts is not None:
            state.free[block.type], state.reserved[block.type] = tuple(free), tuple(reserved)

    def _settle(self, state: State) -> None:
        """Lay all blocks out anew, in order, as after a restart: the kubelet's way of taking off leaves traces."""
        self._fill(state)
        for block in (b for containers in state.blocks.values() for blocks in containers.values() for b in blocks):
            self._put(state, block, block.size)

    def _take_back(self, state: State, block: Block) -> None:
        assignments, cells = list(state.assignments), list(state.cells)
        free, reserved = list(state.free[block.type]), list(state.reserved[block.type])
        left = block.size
        for node in bits(block.nodes):
            i = self._position[node]
            assignments[i] -= 1
            if assignments[i] == 0:
                cells[i] = 1 << node
            moved = min(left, reserved[i])
            free[i] += moved
            reserved[i] -= moved
            left -= moved
        state.assignments, state.cells = tuple(assignments), tuple(cells)
        state.free[block.type], state.reserved[block.type] = tuple(free), tuple(reserved)

    def _reusable(self, state: State, pod: Pod) -> Mapping[int, dict[str, int]]:
        owner, table = state.reusable_memory
        return table if owner == pod.uid else {}

    def _update_reusable(self, state: State, pod: Pod, container: Request, blocks: Sequence[Block]) -> None:
        table = {mask: dict(amounts) for mask, amounts in self._reusable(state, pod).items()}
        for block in blocks:
            amounts = table.setdefault(block.nodes, {})
            before = amounts.get(block.type, 0)
            if container.ends:
                amounts[block.type] = max(before, block.size)
            elif before:
                amounts[block.type] = max(0, before - block.size)
        state.reusable_memory = (pod.uid, {m: a for m, a in table.items() if any(a.values())})

    def _shrink_init_blocks(self, state: State, pod: Pod, container: Request, blocks: Sequence[Block]) -> None:
        """What a container reuses is no longer counted to the init containers that had it."""
        held = dict(state.blocks[pod.uid])
        for block in blocks:
            left = block.size
            for earlier in pod.init:
                if earlier.name == container.name or left == 0:
                    break
                if earlier.restartable or earlier.name not in held:
                    continue
                shrunk = []
                for old in held[earlier.name]:
                    alike = old.type == block.type and old.nodes == block.nodes
                    taken = min(left, old.size) if alike else 0
                    shrunk.append(old._replace(size=old.size - taken))
                    left -= taken
                held[earlier.name] = tuple(shrunk)
        state.blocks[pod.uid] = held

    def _fill(self, state: State) -> None:
        state.assignments = (0,) * len(self.ids)
        state.cells = tuple(1 << node for node in self.ids)
        state.free = dict(self.allocatable)
        state.reserved = {kind: tuple(0 for _ in amounts) for kind, amounts in self.allocatable.items()}

    def _summary(self, state: State) -> object:
        """What must be equal after a restart: the nodes' use and, summed over each node's group, the amounts."""
        rows = []
        for i in range(len(self.ids)):
            group = [self._position[n] for n in bits(state.cells[i]) if n in self._position]
            amounts = {
                kind: (sum(state.free[kind][g] for g in group), sum(state.reserved[kind][g] for g in group))
                for kind in state.free
            }
            total = {kind: state.free[kind][i] + state.reserved[kind][i] for kind in state.free}
            rows.append((state.assignments[i], state.cells[i], amounts, total))
        return rows

    def _by_id(self, amounts: Sequence[int]) -> list[int]:
        weights = [0] * self._width
        for node, amount in zip(self.ids, amounts, strict=False):
            weights[node] = max(0, amount)
        return weights


def pod_memory(pod: Pod) -> dict[str, int]:
    """Bytes by type that a pod needs at its peak. Types that only init containers ask for are left out, as upstream."""
    kinds = {kind for container in pod.containers for kind in container.memory_types}
    return {kind: pod.peak([c.memory_types.get(kind, 0) for c in pod.all_containers]) for kind in sorted(kinds)}


def _regenerated(blocks: Sequence[Block], wanted: Mapping[str, int]) -> Sequence[Hints | NoPreference]:
    """The hint that stands for what is held already; any difference from what is asked means no preference."""
    if len(blocks) != len(wanted) or any(wanted.get(block.type) != block.size for block in blocks):
        return [NoPreference(True)]
    return [Listed([(block.nodes, True)]) for block in blocks]


def _best(hints: Hints) -> Hint | None:
    """The best hint of one list: a preferred one if there is any, then the narrowest."""
    if hints.empty:
        return None
    preferred = best_preferred([hints])
    if preferred is not None:
        return Hint(preferred, True)
    size = hints.narrowest
    found = [mask for mask in hints.fixed if mask.bit_count() == size]
    of_up = hints.up.smallest(size) if hints.up is not None else None
    return Hint(min([*found, *([] if of_up is None else [of_up])]), False)
