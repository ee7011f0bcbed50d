"""The CPU manager, policies none and static: hints, exclusive CPUs, what init containers leave to later ones.

Facts: pkg/kubelet/cm/cpumanager/{policy_static,cpu_manager}.go of Kubernetes 1.36; the project's account, chapters 2
and 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from bayplan.idset import CpuSet
from bayplan.policies.kubelet.distributed import take_distributed
from bayplan.policies.kubelet.hints import Hints, NoPreference, Sum, Up
from bayplan.policies.kubelet.packed import AllocationError, CpuOptions, take_packed
from bayplan.policies.kubelet.settings import ALIGN_SOCKET, Settings, StartError, parse_cpu_options
from bayplan.policies.kubelet.state import AdmissionError, State, unexpected
from bayplan.policies.kubelet.topology import CpuTopology
from bayplan.workload.model import Pod, Request

_NO_PREFERENCE = [NoPreference(True)]
_NOTHING = [NoPreference(False)]


def whole_cpus(pod: Pod, container: Request) -> int:
    """How many exclusive CPUs the static policy owes a container: 0 unless Guaranteed and a whole number."""
    if pod.qos != "Guaranteed" or pod.resources is not None or container.cpu_milli % 1000:
        return 0
    return container.cpu_milli // 1000


class CpuManager:
    """One kubelet's CPU manager. Immutable; what changes is in `State`. `active` False: policy none."""

    def __init__(self, topology: CpuTopology, settings: Settings, *, exact: bool) -> None:
        self.topology = topology
        self.active = settings.cpu_policy == "static"
        self.options = CpuOptions(exact=exact)
        self.reserved = self.reserved_physical = 0
        if settings.cpu_policy not in ("none", "static"):
            raise StartError("cpu", f'unknown policy: "{settings.cpu_policy}"')
        if not self.active:
            if settings.cpu_options:
                shown = " ".join(f"{k}:{v}" for k, v in sorted(settings.cpu_options.items()))
                message = f"new none policy error: None policy: received unsupported options=map[{shown}]"
                raise StartError("cpu", message)
            return
        count = _reserved_count(settings)
        self.options = parse_cpu_options(settings, exact=exact)
        if self.options.align_by_socket:
            _check_align_by_socket(settings, topology)
        self.reserved = self._reserve(settings, count)
        self.reserved_physical = topology.whole_cores(self.reserved)
        self._largest = list(accumulate(sorted(self._by_node(topology.all), reverse=True)))

    def start(self, state: State) -> None:
        """Fill an empty state, or check one that a kubelet finds at its start (`StartError`)."""
        everything = self.topology.all
        if not self.active:
            state.shared = everything
            return
        known = everything & ~self.reserved if self.options.strict_reservation else everything
        if not state.shared and (self.options.exact or not state.assigned):
            if state.assigned:
                raise StartError("cpu-start", "default cpuset cannot be empty")
            state.shared = known
            return
        self._check_state(state, known)

    def allocatable(self) -> int:
        """All CPUs that are not reserved."""
        return self.topology.all & ~self.reserved

    def hints(self, state: State, pod: Pod, container: Request) -> Sequence[Hints | NoPreference]:
        """Hints for one container."""
        count = whole_cpus(pod, container) if self.active else 0
        if count == 0:
            return _NO_PREFERENCE
        assigned = state.assigned.get(pod.uid, {}).get(container.name)
        if assigned is not None:
            if assigned.bit_count() != count:
                return _NOTHING
            return self._lists(assigned, 0, count)
        return self._lists(self._available(state), self._reusable(state, pod), count)

    def pod_hints(self, state: State, pod: Pod) -> Sequence[Hints | NoPreference]:
        """Hints for all containers of a pod together."""
        amounts = [whole_cpus(pod, c) if self.active else 0 for c in pod.all_containers]
        count = pod.peak(amounts)
        if count == 0:
            return _NO_PREFERENCE
        union = 0
        held = state.assigned.get(pod.uid, {})
        for container, own in zip(pod.all_containers, amounts, strict=True):
            assigned = held.get(container.name)
            if assigned is not None:
                if assigned.bit_count() != own:
                    return _NOTHING
                union |= assigned
        if union.bit_count() == count:
            return self._lists(union, 0, count)
        return self._lists(self._available(state), self._reusable(state, pod) | union, count)

    def allocate(self, state: State, pod: Pod, container: Request) -> None:
        """Give a container its exclusive CPUs. Raises `AdmissionError`."""
        count = whole_cpus(pod, container) if self.active else 0
        if count == 0:
            return
        if self.options.full_cores:
            self._check_cores(state, count)
        held = state.assigned.get(pod.uid, {})
        cpus = held.get(container.name)
        if cpus is None:
            cpus = self._take(state, pod, container, count)
            state.shared &= ~cpus
            state.assigned[pod.uid] = {**held, container.name: cpus}
        reusable = self._reusable(state, pod)
        state.reusable_cpus = (pod.uid, reusable | cpus if container.ends else reusable & ~cpus)

    def release(self, state: State, pod: str, container: str) -> None:
        """Take back what a container holds, except CPUs that others of its pod hold too."""
        held = dict(state.assigned.get(pod, {}))
        cpus = held.pop(container, None)
        if cpus is None:
            return
        for other in held.values():
            cpus &= ~other
        state.shared |= cpus
        if held:
            state.assigned[pod] = held
        else:
            del state.assigned[pod]

    def _reserve(self, settings: Settings, count: int) -> int:
        prefix = "new static policy error: [cpumanager] unable to "
        if settings.reserved_cpus:
            reserved = settings.reserved_cpus.mask
        else:
            try:
                reserved = self._choose(self.topology.all, count)
            except AllocationError:
                reserved = 0
        if reserved.bit_count() != count:
            shown = f"(size of {CpuSet.of_mask(reserved)} did not equal {count})"
            raise StartError("cpu", f"{prefix}reserve the required amount of CPUs {shown}")
        unknown = reserved & ~self.topology.all
        if unknown:
            shown = f"unknown CPU ID: {CpuSet.of_mask(unknown).first()}"
            raise StartError("cpu", f"{prefix}build the reserved physical CPUs from the reserved set: {shown}")
        return reserved

    def _choose(self, available: int, count: int) -> int:
        options = self.options
        if options.distribute_nodes:
            group = self.topology.cpus_per_core if options.full_cores else 1
            return take_distributed(self.topology, available, count, group, exact=options.exact)
        return take_packed(
            self.topology,
            available,
            count,
            align_l3=options.align_l3,
            spread=options.spread_cores,
            exact=options.exact,
        )

    def _available(self, state: State) -> int:
        return state.shared & ~self.reserved

    def _reusable(self, state: State, pod: Pod) -> int:
        owner, cpus = state.reusable_cpus
        return cpus if owner == pod.uid else 0

    def _check_cores(self, state: State, count: int) -> None:
        size = self.topology.cpus_per_core
        if count % size:
            message = f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {size}"
            raise AdmissionError("SMTAlignmentError", message, resource="cpu", asked=count * 1000)
        physical = (state.shared & ~self.reserved_physical).bit_count()
        if count > physical:
            message = (
                f"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {physical}, "
                f"requested CPUs = {count}, CPUs per core = {size}"
            )
            raise AdmissionError("SMTAlignmentError", message, resource="cpu", asked=count * 1000, free=physical * 1000)

    def _take(self, state: State, pod: Pod, container: Request, count: int) -> int:
        pool = self._available(state) | self._reusable(state, pod)
        nodes = state.hint_of(pod.uid, container.name).nodes
        taken = 0
        try:
            if nodes is not None:
                t = self.topology
                near = t.cpus_of_their_sockets(nodes) if self.options.align_by_socket else t.cpus_of_nodes(nodes)
                aligned = pool & near
                taken = self._choose(aligned, min(count, aligned.bit_count()))
            return taken | self._choose(pool & ~taken, count - taken.bit_count())
        except AllocationError as error:
            raise unexpected(str(error), resource="cpu", asked=count * 1000, free=pool.bit_count() * 1000) from error

    def _by_node(self, cpus: int) -> list[int]:
        counts = [0] * (max(self.topology.node_cpus, default=0) + 1)
        for node, mask in self.topology.node_cpus.items():
            counts[node] = (cpus & mask).bit_count()
        return counts

    def _lists(self, available: int, reusable: int, count: int) -> Sequence[Hints | NoPreference]:
        t = self.topology
        universe = 0
        for node in t.node_cpus:
            universe |= 1 << node
        enough = Sum(self._by_node(available), count - reusable.bit_count())
        size = next((k for k, total in enumerate(self._largest, 1) if total >= count), t.node_count)
        per_socket = t.node_count // max(1, t.socket_count)
        by_socket = self.options.align_by_socket and per_socket > 0
        also = _FewSockets(t, -(-size // per_socket)) if by_socket else None
        hints = Hints(Up(universe, [enough], t.nodes_of(reusable)), preferred_size=size, also=also)
        return _NOTHING if hints.empty else [hints]

    def _check_state(self, state: State, known: int) -> None:
        reserved, shared = CpuSet.of_mask(self.reserved), CpuSet.of_mask(state.shared)
        if self.options.strict_reservation:
            both = reserved & shared
            if both:
                message = f'some of strictly reserved cpus: "{both}" are present in defaultCpuSet: "{shared}"'
                raise StartError("cpu-start", message)
        elif self.reserved & ~state.shared:
            message = f'not all reserved cpus: "{reserved}" are present in defaultCpuSet: "{shared}"'
            raise StartError("cpu-start", message)
        total = state.shared
        for pod, containers in state.assigned.items():
            for container, cpus in containers.items():
                total |= cpus
                if cpus & state.shared:
                    message = (
                        f'pod: {pod}, container: {container} cpuset: "{CpuSet.of_mask(cpus)}" '
                        f'overlaps with default cpuset "{shared}"'
                    )
                    raise StartError("cpu-start", message)
        if total != known:
            message = (
                f'current set of available CPUs "{CpuSet.of_mask(known)}" '
                f'doesn\'t match with CPUs in state "{CpuSet.of_mask(total)}"'
            )
            raise StartError("cpu-start", message)


class _FewSockets:
    """`align-by-socket`: a mask is preferred, too, if its nodes lie on no more sockets than have to be."""

    def __init__(self, topology: CpuTopology, sockets: int) -> None:
        self._topology = topology
        self._sockets = sockets

    def met(self, mask: int) -> bool:
        return len(self._topology.sockets_of_nodes(mask)) == self._sockets

    def possible(self, chosen: int) -> bool:
        return len(self._topology.sockets_of_nodes(chosen)) <= self._sockets


def _reserved_count(settings: Settings) -> int:
    milli = settings.reserved_cpu_milli
    if milli is None and settings.reserved_cpus:
        milli = len(settings.reserved_cpus) * 1000
    if milli is None:
        raise StartError("cpu", "[cpumanager] unable to determine reserved CPU resources for static policy")
    if milli == 0:
        raise StartError(
            "cpu",
            "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero",
        )
    return -(-milli // 1000)


def _check_align_by_socket(settings: Settings, topology: CpuTopology) -> None:
    problem = ""
    if settings.topology_policy == "single-numa-node":
        problem = (
            f"Topolgy manager single-numa-node policy is incompatible with CPUManager {ALIGN_SOCKET} policy option"
        )
    elif topology.socket_count > topology.node_count:
        problem = "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
    if problem:
        raise StartError("cpu", f"new static policy error: {problem}")
