"""What a person must know of a real kubelet that answers like this: it hands out a CPU twice, crashes, or hangs.

Names are stable. The project's account of the kubelet, chapter 11, tells of each.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.idset import CpuSet
from bayplan.policies.kubelet.admission import Kubelet, stranded
from bayplan.policies.kubelet.cpus import whole_cpus
from bayplan.policies.kubelet.state import State
from bayplan.resources.decision import Notice
from bayplan.workload.model import Pod, Request

DOUBLE_GRANT = "kubelet-double-grant"
RESERVED_GRANT = "kubelet-reserved-grant"
WRONG_SIZE = "kubelet-wrong-size"
EMPTY_POOL = "kubelet-empty-pool"
HANGS = "kubelet-hangs"
PANICS = "kubelet-panics"
WALKS = "kubelet-walks-all-masks"

MAX_WALKED_NODES = 10


def defects(kubelet: Kubelet, before: State, after: State, pod: Pod) -> tuple[Notice, ...]:
    """What is wrong with the CPUs after an admission."""
    found: list[Notice] = []
    for container in pod.all_containers:
        cpus = after.assigned.get(pod.uid, {}).get(container.name)
        if cpus is not None:
            found += _container_defects(kubelet, before, after, pod, container, cpus)
    names = stranded(after)
    if names:
        message = f"this kubelet would leave no CPU to the shared pool, in which {names[0]} runs"
        found.append(Notice(name=EMPTY_POOL, message=message))
    return tuple(found)


def _container_defects(
    kubelet: Kubelet, before: State, after: State, pod: Pod, container: Request, cpus: int
) -> list[Notice]:
    found = []
    who = f"{pod.full_name}, container {container.name}"
    for other, theirs in _others(before, after, pod, container):
        if theirs & cpus:
            twice = CpuSet.of_mask(theirs & cpus)
            message = f"this kubelet would give CPUs {twice} to {who}, exclusive as they are to {other}"
            found.append(Notice(name=DOUBLE_GRANT, message=message))
    reserved = cpus & kubelet.cpu_manager.reserved
    if reserved:
        message = f"this kubelet would give reserved CPUs {CpuSet.of_mask(reserved)} to {who}"
        found.append(Notice(name=RESERVED_GRANT, message=message))
    asked = whole_cpus(pod, container)
    if cpus.bit_count() != asked:
        message = f"this kubelet would give {cpus.bit_count()} exclusive CPUs to {who}, which asks for {asked}"
        found.append(Notice(name=WRONG_SIZE, message=message))
    return found


def _others(before: State, after: State, pod: Pod, container: Request) -> Iterator[tuple[str, int]]:
    """Who has which CPUs already: other pods, and earlier containers of this one that still run."""
    for uid, containers in before.assigned.items():
        if uid != pod.uid:
            name = before.pods[uid].full_name if uid in before.pods else uid
            yield from ((f"{name}/{other}", cpus) for other, cpus in containers.items())
    own = after.assigned[pod.uid]
    for earlier in pod.all_containers:
        if earlier.name == container.name:
            break
        if earlier.name in own and not earlier.ends:
            yield f"{pod.full_name}/{earlier.name}", own[earlier.name]


def stuck(name: str, detail: str) -> str:
    """The message for a kubelet that comes to no answer."""
    if name == HANGS:
        return f"this kubelet would hang here, holding its CPU manager's lock: {detail}; nothing more is admitted"
    return f"this kubelet would crash here and at each restart: {detail}; nothing more is admitted"


def walking(kubelet: Kubelet, nodes: int) -> tuple[Notice, ...]:
    """On a machine of many nodes: the kubelet walks all masks and would not answer in useful time."""
    if nodes <= MAX_WALKED_NODES or kubelet.settings.topology_policy == "none":
        return ()
    message = (
        f"this kubelet walks up to 2^{nodes} sets of NUMA nodes for each resource of each container, and their "
        "combinations; it would not come to these answers in useful time"
    )
    return (Notice(name=WALKS, message=message),)
