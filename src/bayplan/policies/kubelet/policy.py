"""The kubelet as a policy of the hub.

`exact`: answers as kubelet 1.36 does, faults included; where it hands out a CPU twice, crashes or hangs, the decision
says so by name. Otherwise (Bayplan's own use) none of this happens: sizes are those of the core and socket at hand, a
walk that would not end is not begun, and more NUMA nodes than the kubelet dares are no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from bayplan.idset import CpuSet
from bayplan.machine import Machine
from bayplan.policies.kubelet import notices, remedies
from bayplan.policies.kubelet.admission import Kubelet, Outcome
from bayplan.policies.kubelet.configuration import KubeletConfiguration
from bayplan.policies.kubelet.distributed import NeverEndsError
from bayplan.policies.kubelet.fit import add_totals, check_fit
from bayplan.policies.kubelet.grants import POOL, grants_of, hints_of, state_of
from bayplan.policies.kubelet.resize import infeasible
from bayplan.policies.kubelet.settings import StartError
from bayplan.policies.kubelet.setup import offered_devices, seen_machine, settings_of
from bayplan.policies.kubelet.state import AdmissionError, KubeletPanicError, State
from bayplan.policies.kubelet.trace import trace_of
from bayplan.policies.kubelet.zone_room import Room, aligned_needs, free_by_node
from bayplan.policies.policy import NodeSetup, Proposal, View
from bayplan.resources.decision import Decision, Grant, Notice, Refusal
from bayplan.resources.devices import DeviceUnit
from bayplan.workload.model import Pod
from bayplan.workload.totals import pod_totals


class Memo(NamedTuple):
    """What the policy remembers: the managers' state, and what all pods request by resource."""

    state: State
    used: Mapping[str, int]


class KubeletPolicy:
    """One node's kubelet. Raises `StartError` where it would not start on this machine with this configuration."""

    name = "kubelet"

    def __init__(self, machine: Machine, setup: NodeSetup) -> None:
        configuration = setup.configuration or KubeletConfiguration()
        self.devices: Mapping[str, tuple[DeviceUnit, ...]] = setup.devices or offered_devices(machine)
        self.exact = setup.exact
        self.allocatable = setup.allocatable
        self.kubelet = Kubelet(
            seen_machine(machine), settings_of(machine, configuration, self.devices), exact=setup.exact
        )
        self.reserved = CpuSet.of_mask(self.kubelet.cpu_manager.reserved)
        self.settings: Mapping[str, str] = _shown(configuration, exact=setup.exact)
        self.notices = notices.walking(self.kubelet, len(machine.nodes)) if setup.exact else ()
        self._all_nodes = machine.all_nodes

    def begin(self) -> Proposal:
        """See `Policy.begin`."""
        return self._proposal(Memo(self.kubelet.start(), {}))

    def admit(self, view: View, pod: Pod) -> Proposal:
        """See `Policy.admit`. In `exact`, a refusal can leave the managers' memory changed, as in the kubelet."""
        memo: Memo = view.memo
        if memo.state.hung:
            return self._stuck(memo, pod, memo.state.hung)
        try:
            outcome = self.kubelet.admit(memo.state, pod)
        except NeverEndsError as error:
            return self._stuck(memo, pod, f"{notices.HANGS}: {error}")
        except KubeletPanicError as error:
            return self._stuck(memo, pod, f"{notices.PANICS}: {error}")
        used = memo.used
        if outcome.refusal is None:
            try:
                used = check_fit(self.allocatable, memo.used, pod)
            except AdmissionError as error:
                outcome = Outcome(self.kubelet.remove_pod(outcome.state, pod.uid), error, outcome.steps)
        return self._answer(memo, pod, outcome, used)

    def resize(self, view: View, pod: Pod) -> Proposal:
        """In place, as far as the kubelet goes: nothing that a static manager pinned can change size."""
        memo: Memo = view.memo
        refusal = infeasible(self.kubelet, self.allocatable, view.pods[pod.uid], pod)
        if refusal is not None:
            return self._proposal(memo, Decision(pod=pod.uid, refusal=refusal))
        rest = add_totals(memo.used, pod_totals(view.pods[pod.uid]), -1)
        try:
            used = check_fit(self.allocatable, rest, pod)
        except AdmissionError as error:
            refusal = msgspec.structs.replace(_refusal(error, self.kubelet.settings.topology_policy), reason="Deferred")
            return self._proposal(memo, Decision(pod=pod.uid, refusal=refusal))
        state = memo.state.copy()
        state.pods[pod.uid] = pod
        grants = grants_of(state, pod, self._all_nodes)
        new = Memo(state, used)
        return self._proposal(new, Decision(pod=pod.uid, grants=grants), {pod.uid: grants})

    def started(self, view: View, pod: Pod, container: str) -> Proposal:
        """See `Policy.started`."""
        memo: Memo = view.memo
        state = self.kubelet.start_container(memo.state, pod.uid, container)
        return self._proposal(Memo(state, memo.used), None, {pod.uid: grants_of(state, pod, self._all_nodes)})

    def release(self, view: View, uid: str) -> Proposal:
        """See `Policy.release`."""
        memo: Memo = view.memo
        used = add_totals(memo.used, pod_totals(view.pods[uid]), -1)
        return self._proposal(Memo(self.kubelet.remove_pod(memo.state, uid), used), None, {uid: ()})

    def restore(self, pods: Mapping[str, Pod], grants: Mapping[str, tuple[Grant, ...]]) -> Proposal:
        """As a kubelet that starts and finds its checkpoints. Raises `StartError` if they contradict the machine."""
        try:
            state = self.kubelet.start(state_of(self.kubelet, pods, grants))
        except KubeletPanicError as error:
            raise StartError("memory-start", str(error)) from error
        state.hints = hints_of(grants)
        used: Mapping[str, int] = {}
        for pod in pods.values():
            used = add_totals(used, pod_totals(pod), 1)
        return self._proposal(Memo(state, used))

    def remedies(self, view: View, pod: Pod, refusal: Refusal) -> tuple[str, ...]:
        """See `Policy.remedies`."""
        memo: Memo = view.memo
        if memo.state.hung:
            return remedies.ways_around(self.kubelet.settings, memo.state.hung)
        return remedies.remedies(self.kubelet, memo.state, self.allocatable, memo.used, pod, refusal)

    def room_by_node(self, view: View) -> Room:
        """What is free of what the managers align, by resource and NUMA node: whole CPUs, bytes, pieces."""
        memo: Memo = view.memo
        return free_by_node(self.kubelet, memo.state)

    def needs_of(self, pod: Pod, container: str = "") -> dict[str, int]:
        """What the managers have to find for a pod, or for one container of it, in the same units."""
        own = [c for c in pod.all_containers if c.name == container]
        return aligned_needs(self.kubelet, pod, own or pod.all_containers)

    def _answer(self, memo: Memo, pod: Pod, outcome: Outcome, used: Mapping[str, int]) -> Proposal:
        settings = self.kubelet.settings
        if outcome.refusal is not None:
            decision = Decision(
                pod=pod.uid,
                refusal=_refusal(outcome.refusal, settings.topology_policy),
                trace=trace_of(self.kubelet, outcome, pod, ()),
            )
            # A refusal leaves what the kubelet remembers as it was, except that the kubelet itself forgets a little.
            return self._proposal(Memo(outcome.state if self.exact else memo.state, memo.used), decision)
        grants = grants_of(outcome.state, pod, self._all_nodes)
        decision = Decision(
            pod=pod.uid,
            grants=grants,
            trace=trace_of(self.kubelet, outcome, pod, grants),
            warnings=notices.defects(self.kubelet, memo.state, outcome.state, pod) if self.exact else (),
        )
        return self._proposal(Memo(outcome.state, used), decision, {pod.uid: grants})

    def _stuck(self, memo: Memo, pod: Pod, why: str) -> Proposal:
        name, _, detail = why.partition(": ")
        state = memo.state.copy()
        state.hung = why
        refusal = Refusal(
            reason="KubeletHangs" if name == notices.HANGS else "KubeletPanic",
            message=detail,
            rule=f"kubelet/{name}",
        )
        notice = Notice(name=name, message=notices.stuck(name, detail))
        return self._proposal(Memo(state, memo.used), Decision(pod=pod.uid, refusal=refusal, warnings=(notice,)))

    def _proposal(
        self,
        memo: Memo,
        decision: Decision | None = None,
        grants: Mapping[str, tuple[Grant, ...]] | None = None,
    ) -> Proposal:
        return Proposal(
            decision=decision,
            grants=grants or {},
            pools={POOL: CpuSet.of_mask(memo.state.shared)},
            memo=memo,
            tolerated=self.exact,
        )


def _refusal(error: AdmissionError, policy: str) -> Refusal:
    rules = {
        "TopologyAffinityError": f"topology-manager/{policy}",
        "SMTAlignmentError": "cpu-manager/full-pcpus-only",
        "SharedPoolEmpty": "cpu-manager/shared-pool",
    }
    default = "kubelet/resources" if error.reason.startswith("OutOf") else f"{error.manager}-manager/allocate"
    return Refusal(
        reason=error.reason,
        message=error.message,
        rule=rules.get(error.reason, default),
        container=error.container,
        resource=error.resource,
        asked=error.asked,
        free=error.free,
    )


def _shown(configuration: KubeletConfiguration, *, exact: bool) -> dict[str, str]:
    """The settings that bear on placement, for people."""
    shown = {
        "cpuManagerPolicy": configuration.cpu_manager_policy,
        "topologyManagerPolicy": configuration.topology_manager_policy,
        "topologyManagerScope": configuration.topology_manager_scope,
        "memoryManagerPolicy": configuration.memory_manager_policy,
    }
    options = {**configuration.cpu_manager_policy_options, **configuration.topology_manager_policy_options}
    if options:
        shown["options"] = ", ".join(f"{name}={value}" for name, value in sorted(options.items()))
    shown["mode"] = "exact" if exact else "safe"
    return shown
