"""The trace of a kubelet's decision: which nodes each resource could use, what was merged, what was allocated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bayplan.idset import NodeSet, bits
from bayplan.policies.kubelet.admission import Kubelet, Outcome, Step
from bayplan.policies.kubelet.hints import Hints, NoPreference
from bayplan.quantity import format_size
from bayplan.resources.decision import Choice, Grant
from bayplan.workload.model import Pod, Request


def trace_of(kubelet: Kubelet, outcome: Outcome, pod: Pod, grants: Sequence[Grant]) -> tuple[Choice, ...]:
    """The steps in the order in which the kubelet takes them: merges first, then what each container got."""
    return (*(_merge(kubelet, step) for step in outcome.steps), *_allocations(kubelet, pod, grants))


def _merge(kubelet: Kubelet, step: Step) -> Choice:
    policy = kubelet.settings.topology_policy
    merged = step.merged
    nodes = "no affinity" if merged.nodes is None else _named(NodeSet.of_mask(merged.nodes))
    narrow = "as few as the machine allows" if merged.preferred else "not preferred"
    verdict = "" if step.admitted else f"; {policy} refuses this"
    return Choice(
        subject="pod" if step.container == "*" else step.container,
        question="which NUMA nodes suit all resources together?",
        taken=f"{nodes} ({narrow}){verdict}",
        rule=f"topology-manager/{policy}, scope {kubelet.settings.scope}",
        options=tuple(
            f"{provider}: {_describe(entry)}" for provider, lists in step.lists.items() for entry in _distinct(lists)
        ),
    )


def _distinct(lists: Sequence[Hints | NoPreference]) -> list[Hints | NoPreference]:
    return list({id(entry): entry for entry in lists}.values())


def _describe(entry: Hints | NoPreference) -> str:
    if isinstance(entry, NoPreference):
        return "any nodes" if entry.preferred else "no nodes will do"
    size = entry.narrowest
    if size > 1:
        wanted = min(entry.preferred_sizes, default=size)
        more = "" if size <= wanted else f" (an empty machine would allow {wanted})"
        return f"at least {size} nodes together{more}"
    alone = NodeSet(i for i in bits(entry.reach) if entry.holds(1 << i))
    best = "" if any(entry.prefers(1 << i) for i in alone) else " (not preferred)"
    each = "" if len(alone) == 1 else "each of "
    return f"{each}{_named(alone)} alone{best}"


def _named(nodes: NodeSet) -> str:
    return f"node {nodes}" if len(nodes) == 1 else f"nodes {nodes}"


def _allocations(kubelet: Kubelet, pod: Pod, grants: Sequence[Grant]) -> Iterator[Choice]:
    for container, grant in zip(pod.all_containers, grants, strict=False):
        yield _cpus(kubelet, pod, container, grant)
        if grant.memory:
            # What was asked, not the block: that of an init container shrinks when a later one takes its memory over.
            asked = container.memory_types
            blocks = ", ".join(f"{b.type} {format_size(asked[b.type])} from {_named(b.nodes)}" for b in grant.memory)
            yield Choice(subject=container.name, question="which memory?", taken=blocks, rule="memory-manager/Static")
        for devices in grant.devices:
            yield Choice(
                subject=container.name,
                question=f"which {devices.resource}?",
                taken=", ".join(devices.ids),
                rule="device-manager, devices of the aligned nodes first",
            )


def _cpus(kubelet: Kubelet, pod: Pod, container: Request, grant: Grant) -> Choice:
    question = "which CPUs?"
    if grant.exclusive:
        options = [f"{k}={v}" for k, v in sorted(kubelet.settings.cpu_options.items())]
        rule = ", ".join(["cpu-manager/static", *options])
        return Choice(subject=container.name, question=question, taken=f"exclusive {grant.exclusive}", rule=rule)
    manager = kubelet.cpu_manager
    if not manager.active:
        why = "cpu-manager/none"
    elif pod.qos != "Guaranteed":
        why = f"cpu-manager/static: the pod is {pod.qos}, not Guaranteed"
    elif pod.resources is not None:
        why = "cpu-manager/static: the pod has resources at pod level"
    else:
        why = f"cpu-manager/static: {container.cpu_milli}m is not a whole number of CPUs"
    return Choice(subject=container.name, question=question, taken=f"shared pool {grant.shared}", rule=why)
