"""One kubelet's admission: the Topology manager's scopes over the three managers, and a pod's life on the node.

Facts: pkg/kubelet/cm/topologymanager/{scope,scope_container,scope_pod,policy_*}.go of Kubernetes 1.36; the project's
account, chapters 8 and 10. Pure: every call takes a state and gives a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bayplan.policies.kubelet.cpus import CpuManager
from bayplan.policies.kubelet.devices import DeviceManager
from bayplan.policies.kubelet.hints import Hints, NoPreference
from bayplan.policies.kubelet.memory import MemoryManager
from bayplan.policies.kubelet.memory_tables import SeenNode
from bayplan.policies.kubelet.merge import Merged, merge, merge_single_node
from bayplan.policies.kubelet.settings import Settings, check_checkpoint, parse_topology_options
from bayplan.policies.kubelet.state import AdmissionError, Hint, State
from bayplan.policies.kubelet.subsets import Distances
from bayplan.policies.kubelet.topology import CpuTopology
from bayplan.policies.kubelet.walk import merge_by_walking
from bayplan.workload.model import Pod, Request

Lists = dict[str, Sequence[Hints | NoPreference]]


class _Provider(Protocol):
    def hints(self, state: State, pod: Pod, container: Request) -> Sequence[Hints | NoPreference]: ...

    def pod_hints(self, state: State, pod: Pod) -> Sequence[Hints | NoPreference]: ...

    def allocate(self, state: State, pod: Pod, container: Request) -> None: ...


class Step(NamedTuple):
    """One merge: for which container (`*`: the pod as a whole), from which lists, with what result."""

    container: str
    lists: Lists
    merged: Merged
    admitted: bool


class Outcome(NamedTuple):
    """What came of an admission: the state after it, the refusal if any, and the merges on the way."""

    state: State
    refusal: AdmissionError | None
    steps: tuple[Step, ...]


class Seen(NamedTuple):
    """The machine as cadvisor tells of it. `distances` is by position in `nodes`; empty: not told."""

    cpus: CpuTopology
    nodes: tuple[SeenNode, ...]
    distances: tuple[tuple[int, ...], ...]


class Kubelet:
    """One kubelet's managers. Immutable. Raises `StartError` where it would not start.

    `exact` keeps the kubelet's defects; without it no CPU is handed out twice and nothing runs for ever.
    """

    def __init__(self, seen: Seen, settings: Settings, *, exact: bool) -> None:
        self.seen = seen
        self.settings = settings
        self.exact = exact
        ids = tuple(node.id for node in seen.nodes)
        self._full = sum(1 << node for node in ids)
        options = parse_topology_options(settings, len(ids), distances_known=bool(seen.distances), exact=exact)
        self._distances = _by_id(ids, seen.distances) if options.closest else None
        # On ids with gaps the kubelet's distance table is read past its end, which only its own walk tells.
        gaps = ids != tuple(range(len(ids)))
        self._rows = dict(zip(ids, seen.distances, strict=True)) if options.closest and exact and gaps else None
        self.device_manager = DeviceManager(settings, ids)
        self.cpu_manager = CpuManager(seen.cpus, settings, exact=exact)
        self.memory_manager = MemoryManager(seen.nodes, settings, exact=exact)
        self._providers: tuple[tuple[str, _Provider], ...] = (
            ("device", self.device_manager),
            ("cpu", self.cpu_manager),
            ("memory", self.memory_manager),
        )

    def start(self, state: State | None = None) -> State:
        """The state of a node at the kubelet's start: fresh, or what its checkpoints held. Raises `StartError`.

        Hints and what may be reused are lost, as in the kubelet; pods have to be admitted again.
        """
        new = State() if state is None else state.copy()
        new.hints, new.reusable_cpus, new.reusable_memory, new.reusable_devices = {}, ("", 0), ("", {}), ("", {})
        new.hung, new.started = "", frozenset()
        written = new.policies or (self.settings.cpu_policy, self.settings.memory_policy)
        check_checkpoint("cpu", written[0], self.settings.cpu_policy)
        self.cpu_manager.start(new)
        check_checkpoint("memory", written[1], self.settings.memory_policy)
        self.memory_manager.start(new)
        new.policies = (self.settings.cpu_policy, self.settings.memory_policy)
        new.registered |= frozenset(self.device_manager.devices)
        return new

    def admit(self, state: State, pod: Pod) -> Outcome:
        """Admit a pod, or refuse it; after a refusal all that it had got is given back.

        `KubeletPanicError` may come out of here, and `NeverEndsError`: then the kubelet is gone, or hangs.
        """
        new = state.copy()
        new.pods[pod.uid] = pod
        steps: list[Step] = []
        try:
            self._admit(new, pod, steps)
            if not self.exact:
                _check_pool(new, pod)
        except AdmissionError as error:
            self._remove(new, pod.uid)
            return Outcome(new, error, tuple(steps))
        return Outcome(new, None, tuple(steps))

    def remove_pod(self, state: State, uid: str) -> State:
        """A pod is gone: all that it held is free."""
        new = state.copy()
        self._remove(new, uid)
        return new

    def remove_container(self, state: State, uid: str, container: str) -> State:
        """The managers' own call for one container of a pod that stays."""
        new = state.copy()
        self.cpu_manager.release(new, uid, container)
        self.memory_manager.release(new, uid, container)
        return new

    def start_container(self, state: State, uid: str, container: str) -> State:
        """A container is about to start."""
        new = state.copy()
        self.memory_manager.start_container(new, new.pods[uid], container)
        new.started |= {(uid, container)}
        return new

    def stop_container(self, state: State, uid: str, container: str) -> State:
        """A container has ended: only the Topology manager forgets its hint, if it saw the container start."""
        new = state.copy()
        if (uid, container) in new.started:
            new.started -= {(uid, container)}
            new.hints[uid] = {name: hint for name, hint in new.hints.get(uid, {}).items() if name != container}
        return new

    def _admit(self, state: State, pod: Pod, steps: list[Step]) -> None:
        policy, scope = self.settings.topology_policy, self.settings.scope
        if policy != "none" and scope == "pod":
            hint = self._align(state, pod, None, steps)
            state.hints[pod.uid] = {c.name: hint for c in pod.all_containers}
        for container in pod.all_containers:
            manager = "topology"
            try:
                if policy != "none" and scope == "container":
                    hint = self._align(state, pod, container, steps)
                    state.hints[pod.uid] = {**state.hints.get(pod.uid, {}), container.name: hint}
                for manager, provider in self._providers:  # noqa: B007 - named to whoever refuses
                    provider.allocate(state, pod, container)
            except AdmissionError as error:
                error.manager, error.container = manager, container.name
                raise

    def _align(self, state: State, pod: Pod, container: Request | None, steps: list[Step]) -> Hint:
        lists: Lists = {}
        for name, manager in self._providers:
            asked = manager.pod_hints(state, pod) if container is None else manager.hints(state, pod, container)
            lists[name] = asked
        flat = [entry for entries in lists.values() for entry in entries]
        if self.settings.topology_policy == "single-numa-node":
            merged = merge_single_node(flat, self._full)
        elif self._rows is not None:
            merged = merge_by_walking(flat, self._full, self._rows)
        else:
            merged = merge(flat, self._full, self._distances)
        admitted = merged.preferred or self.settings.topology_policy == "best-effort"
        steps.append(Step("*" if container is None else container.name, lists, merged, admitted))
        if not admitted:
            raise AdmissionError("TopologyAffinityError", "Resources cannot be allocated with Topology locality")
        return Hint(merged.nodes, merged.preferred)

    def _remove(self, state: State, uid: str) -> None:
        for container in list(state.assigned.get(uid, {})):
            self.cpu_manager.release(state, uid, container)
        for container in list(state.blocks.get(uid, {})):
            self.memory_manager.release(state, uid, container)
        self.device_manager.release(state, uid)
        state.hints.pop(uid, None)
        state.pods.pop(uid, None)
        state.started = frozenset(entry for entry in state.started if entry[0] != uid)
        if not self.exact:
            _forget_reusable(state, uid)


def _check_pool(state: State, pod: Pod) -> None:
    """The kubelet (with `strict-cpu-reservation`) can leave containers without any CPU to run on."""
    names = stranded(state)
    if names:
        message = f"No CPU would be left to the shared pool, in which {names[0]} runs"
        asked = sum(c.cpu_milli for c in pod.all_containers)
        raise AdmissionError("SharedPoolEmpty", message, resource="cpu", asked=asked, free=0)


def stranded(state: State) -> list[str]:
    """Containers that run on shared CPUs while there are none, as `namespace/pod, container name`."""
    if state.shared:
        return []
    return [
        f"{pod.full_name}, container {c.name}"
        for uid, pod in state.pods.items()
        for c in pod.all_containers
        if c.name not in state.assigned.get(uid, {})
    ]


def _forget_reusable(state: State, uid: str) -> None:
    """What init containers of a pod left to later ones is free; a pod of that name that comes again is a new one."""
    if state.reusable_cpus[0] == uid:
        state.reusable_cpus = ("", 0)
    if state.reusable_memory[0] == uid:
        state.reusable_memory = ("", {})
    if state.reusable_devices[0] == uid:
        state.reusable_devices = ("", {})


def _by_id(ids: Sequence[int], distances: Sequence[Sequence[int]]) -> Distances:
    """The distance table with node ids for rows and columns; ids that are not there have zeroes."""
    width = max(ids, default=0) + 1
    table = [[0] * width for _ in range(width)]
    for one, row in zip(ids, distances, strict=True):
        for other, distance in zip(ids, row, strict=True):
            table[one][other] = distance
    return table
