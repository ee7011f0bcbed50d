"""The Device manager's part: hints for extended resources and which devices a container gets.

Facts: pkg/kubelet/cm/devicemanager/{manager,topology_hints}.go of Kubernetes 1.36; the project's account, chapter 9.
Where the kubelet takes devices in the random order of a Go map, the lexicographically smallest ids are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bayplan.policies.kubelet.hints import Cover, Hints, NoPreference, Sum, Up
from bayplan.policies.kubelet.settings import Settings
from bayplan.policies.kubelet.state import NIL_POINTER, KubeletPanicError, State, unexpected
from bayplan.resources.devices import DeviceUnit
from bayplan.workload.model import Pod, Request

_EMPTY: frozenset[str] = frozenset()


class DeviceManager:
    """One kubelet's device manager with the devices that plugins have registered. Immutable."""

    def __init__(self, settings: Settings, node_ids: Iterable[int]) -> None:
        self._known = sum(1 << node for node in node_ids)
        self._width = self._known.bit_length()
        self.devices = {name: {unit.id: unit for unit in units} for name, units in settings.devices.items()}
        self._healthy = {
            name: frozenset(unit.id for unit in units.values() if unit.healthy) for name, units in self.devices.items()
        }
        self._aligned = {name: any(unit.nodes for unit in units.values()) for name, units in self.devices.items()}

    def hints(self, state: State, pod: Pod, container: Request) -> Sequence[Hints | NoPreference]:
        """Hints for one container, one list a resource."""
        held = state.given.get(pod.uid, {}).get(container.name, {})
        owner, table = state.reusable_devices
        reusable = table if owner == pod.uid else {}
        return self._lists(
            state,
            {name: count for name, count in container.devices.items() if self.knows(state, name)},
            {name: frozenset(ids) for name, ids in held.items()},
            reusable,
        )

    def pod_hints(self, state: State, pod: Pod) -> Sequence[Hints | NoPreference]:
        """Hints for all containers of a pod together; what init containers leave is not counted."""
        names = sorted({name for c in pod.all_containers for name in c.devices if self.knows(state, name)})
        wanted = {name: pod.peak([c.devices.get(name, 0) for c in pod.all_containers]) for name in names}
        given = state.given.get(pod.uid, {}).values()
        held = {name: frozenset(i for by_name in given for i in by_name.get(name, ())) for name in names}
        return self._lists(state, wanted, held, {})

    def allocate(self, state: State, pod: Pod, container: Request) -> None:
        """Give a container its devices. Raises `AdmissionError`."""
        owner, table = state.reusable_devices
        reusable = dict(table) if owner == pod.uid else {}
        state.reusable_devices = (pod.uid, reusable)
        for name, count in container.devices.items():
            if not self.knows(state, name):
                continue
            given = state.given.get(pod.uid, {}).get(container.name, {})
            ids = given.get(name, ())
            self._check_held(pod, container, name, ids)
            if len(ids) < count:
                ids = self._take(state, pod, container, name, count, reusable.get(name, _EMPTY))
                state.in_use[name] = state.in_use.get(name, _EMPTY) | frozenset(ids)
                held = state.given.get(pod.uid, {})
                state.given[pod.uid] = {**held, container.name: {**given, name: ids}}
            left = reusable.get(name, _EMPTY)
            reusable[name] = left | frozenset(ids) if container.ends else left - frozenset(ids)

    def release(self, state: State, pod: str) -> None:
        """Give back all devices of a pod."""
        for name in {name for given in state.given.pop(pod, {}).values() for name in given}:
            others = (given.get(name, ()) for pods in state.given.values() for given in pods.values())
            left = frozenset(i for ids in others for i in ids)
            if left:
                state.in_use[name] = left
            else:
                del state.in_use[name]

    def knows(self, state: State, name: str) -> bool:
        """Whether a plugin has ever registered the resource; one that did not come back has no devices left."""
        return name in self.devices or name in state.registered

    def _check_held(self, pod: Pod, container: Request, name: str, held: Sequence[str]) -> None:
        count = container.devices[name]
        problem = ""
        if held and len(held) != count:
            problem = (
                f'pod "{pod.uid}" container "{container.name}" changed request for resource "{name}" '
                f"from {len(held)} to {count}"
            )
        elif not self._healthy.get(name):
            problem = f"no healthy devices present; cannot allocate unhealthy devices {name}"
        elif not self._healthy[name].issuperset(held):
            problem = f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {name}"
        if problem:
            raise unexpected(problem, resource=name, asked=count, free=0)

    def _available(self, state: State, name: str) -> frozenset[str]:
        return self._healthy[name] - state.in_use.get(name, _EMPTY)

    def _lists(
        self,
        state: State,
        wanted: dict[str, int],
        held: dict[str, frozenset[str]],
        reusable: dict[str, frozenset[str]],
    ) -> Sequence[Hints | NoPreference]:
        if not wanted:
            return [NoPreference(True)]
        return [
            self._list(state, name, count, held.get(name, _EMPTY), reusable.get(name, _EMPTY))
            for name, count in sorted(wanted.items())
        ]

    def _list(
        self, state: State, name: str, count: int, held: frozenset[str], reusable: frozenset[str]
    ) -> Hints | NoPreference:
        if not self._aligned.get(name):
            return NoPreference(True)
        if held:
            if len(held) != count:
                return NoPreference(False)
            if not held <= self.devices[name].keys():
                raise KubeletPanicError(NIL_POINTER)
            return self._family(name, count, held, _EMPTY)
        available = self._available(state, name)
        if len(available | reusable) < count:
            return NoPreference(False)
        return self._family(name, count, available, reusable)

    def _family(
        self, name: str, count: int, available: frozenset[str], reusable: frozenset[str]
    ) -> Hints | NoPreference:
        units = self.devices[name]
        hosts = 0
        for unit in units.values():
            hosts |= self._touched(unit)
        hosts = hosts or self._known
        touches = [self._touched(units[i]) for i in sorted(reusable) if i in units and units[i].nodes is not None]
        everything = self._enough(units.values(), count)
        size = Up(hosts, [everything]).narrowest() or hosts.bit_count()
        free = self._enough((units[i] for i in sorted(available) if i in units), count - len(touches))
        hints = Hints(Up(hosts, [free], touches=touches), preferred_size=size)
        return NoPreference(False) if hints.empty else hints

    def _touched(self, unit: DeviceUnit) -> int:
        return (unit.nodes.mask & self._known) if unit.nodes is not None else 0

    def _enough(self, units: Iterable[DeviceUnit], need: int) -> Sum | Cover:
        groups: dict[int, int] = {}
        for unit in units:
            nodes = self._touched(unit)
            if nodes:
                groups[nodes] = groups.get(nodes, 0) + 1
        if all(nodes.bit_count() == 1 for nodes in groups):
            weights = [0] * self._width
            for nodes, count in groups.items():
                weights[nodes.bit_length() - 1] = count
            return Sum(weights, need)
        return Cover(sorted(groups.items()), need, self._width)

    def _take(
        self, state: State, pod: Pod, container: Request, name: str, count: int, reusable: frozenset[str]
    ) -> tuple[str, ...]:
        taken = sorted(reusable)[:count]
        need = count - len(taken)
        if need == 0:
            return tuple(taken)
        available = self._available(state, name)
        if len(available) < need:
            raise unexpected(
                f"requested number of devices unavailable for {name}. Requested: {need}, Available: {len(available)}",
                resource=name,
                asked=count,
                free=len(available),
            )
        return tuple(sorted([*taken, *self._by_affinity(state, pod, container, name, available)[:need]]))

    def _by_affinity(
        self, state: State, pod: Pod, container: Request, name: str, available: frozenset[str]
    ) -> list[str]:
        nodes = state.hint_of(pod.uid, container.name).nodes
        ordered = sorted(available)
        if nodes is None or not self._aligned[name]:
            return ordered

        def rank(device: str) -> int:
            own = self.devices[name][device].nodes
            if not own:
                return 2
            return 0 if own.mask & nodes else 1

        return sorted(ordered, key=rank)
