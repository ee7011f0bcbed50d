"""What would have to change for a refused pod to fit: found by trying it.

Admission is pure, so the same pod can be admitted again with fewer CPUs, less memory, another topology policy, or on
the node as it would be if it were empty. Each remedy is one change that was tried and admitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from bayplan.policies.kubelet import notices
from bayplan.policies.kubelet.admission import Kubelet
from bayplan.policies.kubelet.cpus import whole_cpus
from bayplan.policies.kubelet.distributed import NeverEndsError
from bayplan.policies.kubelet.fit import check_fit
from bayplan.policies.kubelet.settings import CLOSEST, DISTRIBUTE_NODES, FULL_CORES, Settings, StartError
from bayplan.policies.kubelet.state import AdmissionError, KubeletPanicError, State
from bayplan.quantity import format_cpu, format_size, hugepages_resource
from bayplan.resources.decision import Refusal
from bayplan.workload.model import Pod, Request

MIB = 2**20


class _Trial:
    """One node on which pods can be tried without any consequence."""

    def __init__(self, kubelet: Kubelet, state: State, allocatable: Mapping[str, int], used: Mapping[str, int]) -> None:
        self.kubelet = kubelet
        self.state = state
        self.allocatable = allocatable
        self.used = used

    def admits(self, pod: Pod) -> bool:
        """Whether this pod would be admitted now."""
        try:
            check_fit(self.allocatable, self.used, pod)
            return self.kubelet.admit(self.state, pod).refusal is None
        except (AdmissionError, NeverEndsError, KubeletPanicError):
            return False

    def emptied(self) -> _Trial:
        """The same node without pods."""
        return _Trial(self.kubelet, self.kubelet.start(), self.allocatable, {})

    def lenient(self, policy: str) -> _Trial | None:
        """The same node with another topology policy, or None where its kubelet would not start."""
        settings = msgspec.structs.replace(self.kubelet.settings, topology_policy=policy)
        try:
            kubelet = Kubelet(self.kubelet.seen, settings, exact=self.kubelet.exact)
            return _Trial(kubelet, kubelet.start(self.state), self.allocatable, self.used)
        except StartError:
            return None


def remedies(
    kubelet: Kubelet,
    state: State,
    allocatable: Mapping[str, int],
    used: Mapping[str, int],
    pod: Pod,
    refusal: Refusal,
) -> tuple[str, ...]:
    """Changes that would have the pod admitted, each in words; empty if none of those tried would."""
    trial = _Trial(kubelet, state, allocatable, used)
    container = next((c for c in pod.all_containers if c.name == refusal.container), None)
    found = [text for text in _of_requests(trial, pod, container, refusal) if text]
    found += _policies(trial, pod)
    if not found and refusal.reason.startswith("OutOf") and refusal.free:
        found.append(_in_all(refusal))
    if state.pods:
        found.append(
            "it fits on this node when it is empty: move pods away from it, or the pod elsewhere"
            if trial.emptied().admits(pod)
            else "it does not fit on this node even when it is empty"
        )
    elif not found:
        found.append("nothing that was tried helps: this machine, so configured, cannot hold the pod")
    return tuple(found)


def ways_around(settings: Settings, why: str) -> tuple[str, ...]:
    """Settings with which a kubelet that hangs or crashes would not get there. Not tried: it would take its memory."""
    around = []
    if why.startswith(notices.HANGS) and DISTRIBUTE_NODES in settings.cpu_options:
        around.append(f"cpuManagerPolicyOptions without {DISTRIBUTE_NODES}")
        if FULL_CORES in settings.cpu_options:
            around.append(f"cpuManagerPolicyOptions without {FULL_CORES}, so that leftovers need not be whole cores")
    if why.startswith(notices.PANICS) and CLOSEST in settings.topology_options:
        around.append(f"topologyManagerPolicyOptions without {CLOSEST}")
    if why.startswith(notices.PANICS) and settings.memory_policy == "Static":
        around.append("huge pages of each size on every NUMA node, or memoryManagerPolicy None")
    return (*around, "then restart the kubelet") if around else ("another configuration, and a restart of the kubelet",)


def _in_all(refusal: Refusal) -> str:
    """What is left for the pod as a whole; no single container's request may be enough to change."""
    free, name = refusal.free or 0, refusal.resource
    amount = format_cpu(free) if name == "cpu" else str(free) if name == "pods" else format_size(free)
    return f"ask for at most {amount} of {name} in all, which is what is left on this node"


def _policies(trial: _Trial, pod: Pod) -> list[str]:
    order = ["restricted", "best-effort", "none"]
    current = trial.kubelet.settings.topology_policy
    if current == "none":
        return []
    for policy in order[order.index(current) + 1 :] if current in order else order:
        lenient = trial.lenient(policy)
        if lenient is not None and lenient.admits(pod):
            return [f"topologyManagerPolicy {policy} instead of {current} would admit it here"]
    return []


def _of_requests(trial: _Trial, pod: Pod, container: Request | None, refusal: Refusal) -> Iterator[str]:
    targets = [container] if container is not None else list(pod.all_containers)
    for target in targets:
        if whole_cpus(pod, target) > 1:
            yield _fewer_cpus(trial, pod, target, refusal)
        elif refusal.resource == "cpu" and target.cpu_milli > 1:
            yield _less_cpu(trial, pod, target)
        if target.memory_bytes > MIB:
            yield _less_memory(trial, pod, target)
        for page, size in target.hugepages.items():
            if size > page:
                yield _fewer_pages(trial, pod, target, page)
        for name, count in target.devices.items():
            if count:
                yield _fewer_devices(trial, pod, target, name, count)


def _fewer_cpus(trial: _Trial, pod: Pod, container: Request, refusal: Refusal) -> str:
    asked = whole_cpus(pod, container)
    step = trial.kubelet.seen.cpus.cpus_per_core if trial.kubelet.cpu_manager.options.full_cores else 1
    if refusal.reason == "SMTAlignmentError" and asked % step:
        up, down = -(-asked // step) * step, asked // step * step
        fitting = [str(n) for n in (up, down) if n and trial.admits(_with_cpus(pod, container, n))]
        if fitting:
            return (
                f"container {container.name}: ask for {' or '.join(fitting)} CPUs, "
                f"a multiple of the {step} threads of a core"
            )
    top = (asked - 1) // step
    best = _largest(top, lambda n: trial.admits(_with_cpus(pod, container, n * step))) * step
    return f"container {container.name}: {format_cpu(best * 1000)} CPUs instead of {asked} would fit" if best else ""


def _less_cpu(trial: _Trial, pod: Pod, container: Request) -> str:
    best = _largest(container.cpu_milli - 1, lambda n: trial.admits(_with_milli(pod, container, n)))
    return f"container {container.name}: {best}m of CPU instead of {container.cpu_milli}m would fit" if best else ""


def _fewer_pages(trial: _Trial, pod: Pod, container: Request, page: int) -> str:
    def with_pages(n: int) -> Pod:
        return _with(
            pod, container, msgspec.structs.replace(container, hugepages={**container.hugepages, page: n * page})
        )

    count, kind = container.hugepages[page] // page, hugepages_resource(page)
    best = _largest(count - 1, lambda n: trial.admits(with_pages(n)))
    return f"container {container.name}: {best} instead of {count} pages of {kind} would fit" if best else ""


def _less_memory(trial: _Trial, pod: Pod, container: Request) -> str:
    best = _largest(container.memory_bytes // MIB - 1, lambda n: trial.admits(_with_memory(pod, container, n * MIB)))
    if not best:
        return ""
    asked = format_size(container.memory_bytes)
    return f"container {container.name}: {best}Mi of memory ({format_size(best * MIB)}) instead of {asked} would fit"


def _fewer_devices(trial: _Trial, pod: Pod, container: Request, name: str, count: int) -> str:
    def with_devices(n: int) -> Pod:
        devices = {**container.devices, name: n}
        if not n:
            del devices[name]
        return _with(pod, container, msgspec.structs.replace(container, devices=devices))

    # A request can be for millions; no more than there are can help.
    there = len(trial.kubelet.device_manager.devices.get(name, ()))
    best = _largest(min(count - 1, there), lambda n: trial.admits(with_devices(n)))
    if best or trial.admits(with_devices(0)):
        return f"container {container.name}: {best} instead of {count} {name} would fit"
    return ""


def _largest(top: int, fits: Callable[[int], bool]) -> int:
    """The largest of 1..top that fits, found by bisection (what is smaller fits as well, nearly always); 0: none."""
    low, high = 0, max(0, top)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _with_cpus(pod: Pod, container: Request, count: int) -> Pod:
    return _with_milli(pod, container, count * 1000)


def _with_milli(pod: Pod, container: Request, milli: int) -> Pod:
    """With so much CPU; a limit that was equal to the request stays equal to it."""
    limit = milli if container.cpu_limit_milli == container.cpu_milli else container.cpu_limit_milli
    return _with(pod, container, msgspec.structs.replace(container, cpu_milli=milli, cpu_limit_milli=limit))


def _with_memory(pod: Pod, container: Request, size: int) -> Pod:
    limit = size if container.memory_limit_bytes == container.memory_bytes else container.memory_limit_bytes
    return _with(pod, container, msgspec.structs.replace(container, memory_bytes=size, memory_limit_bytes=limit))


def _with(pod: Pod, old: Request, new: Request) -> Pod:
    return msgspec.structs.replace(
        pod,
        init=tuple(new if c is old else c for c in pod.init),
        containers=tuple(new if c is old else c for c in pod.containers),
    )
