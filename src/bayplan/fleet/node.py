"""A node of a fleet: its hub, how it is labelled, and what the pods on it request so far.

Never decides anything. The sums are kept as pods come and go, as kube-scheduler's NodeInfo does
(pkg/scheduler/framework/types.go, Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.fleet.node_fields import Taint
from bayplan.fleet.plan import PlannedNode
from bayplan.fleet.pod_needs import PodNeeds, pod_needs
from bayplan.hub.hub import Hub
from bayplan.idset import CpuSet
from bayplan.quantity import HUGEPAGES

PODS = "pods"
# More than this is taken for this, so that amounts can be held and added in 64 bits.
LARGEST_TOLD = 2**62
# A node may not tell these; then nobody counts them. Huge pages and devices that are not listed are not there.
MAY_BE_UNTOLD = frozenset({"cpu", "memory", "ephemeral-storage", PODS})


class FleetNode:
    """One node.

    `allocatable` is by Kubernetes resource: millicores, bytes, pieces. Of cpu, memory, ephemeral-storage and pods, what
    is missing from it is taken for unlimited; devices for absent; huge pages for absent unless it tells nothing at
    all. `requested` is what its pods request, with their number under `pods`. `exact_kubelet`: its policy answers as
    a real kubelet, so that a refusal after the scheduler's choice is what a real cluster would see (None: if the
    policy says so itself). `reserved` and `settings` are for people (None: the policy's).

    Pods that are in the hub's ledger already are counted. From then on the hub is the fleet's: nobody else may admit
    or release. Nodes that share one policy object and one machine object are known to be alike, which saves asking.
    """

    def __init__(
        self,
        name: str,
        hub: Hub,
        *,
        labels: Mapping[str, str] | None = None,
        taints: tuple[Taint, ...] = (),
        unschedulable: bool = False,
        allocatable: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
        reserved: CpuSet | None = None,
        exact_kubelet: bool | None = None,
    ) -> None:
        self.name = name
        self.hub = hub
        self.labels = dict(labels or {})
        self.taints = taints
        self.unschedulable = unschedulable
        self.allocatable = {name: min(amount, LARGEST_TOLD) for name, amount in (allocatable or {}).items()}
        self.settings = dict(hub.policy.settings if settings is None else settings)
        self.notices = hub.policy.notices
        self.reserved = hub.policy.reserved if reserved is None else reserved
        self.exact_kubelet = hub.policy.exact if exact_kubelet is None else exact_kubelet
        self.requested: dict[str, int] = {PODS: 0}
        self.scored_cpu_milli = 0
        self.scored_memory_bytes = 0
        self._held: dict[str, PodNeeds] = {}
        for uid, pod in hub.ledger.pods.items():
            self.add(uid, pod_needs(pod))

    def add(self, uid: str, needs: PodNeeds) -> None:
        """A pod has come."""
        self._held[uid] = needs
        self._count(needs, 1)

    def remove(self, uid: str) -> None:
        """A pod that was added has gone."""
        self._count(self._held.pop(uid), -1)

    def counts(self, uid: str) -> bool:
        """Whether a pod of that uid is counted among those that run here."""
        return uid in self._held

    def offers(self, resource: str) -> int | None:
        """What pods may request of a resource in all; None: unlimited."""
        untold = resource in MAY_BE_UNTOLD or (not self.allocatable and resource.startswith(HUGEPAGES))
        return self.allocatable.get(resource, None if untold else 0)

    def free(self, resource: str) -> int | None:
        """What is left of it, below zero where pods were bound past it; None: unlimited."""
        offered = self.offers(resource)
        return None if offered is None else offered - self.requested.get(resource, 0)

    def planned(self) -> PlannedNode:
        """The node as it stands, for a plan."""
        shared = 0
        for cpus in self.hub.ledger.pools.values():
            shared |= cpus.mask
        return PlannedNode(
            name=self.name,
            machine=self.hub.machine,
            policy=self.hub.policy.name,
            reserved=self.reserved,
            shared=CpuSet.of_mask(shared),
            allocatable=self.allocatable,
            used=dict(self.requested),
            settings=self.settings,
            warnings=self.notices,
        )

    def _count(self, needs: PodNeeds, sign: int) -> None:
        requested = self.requested
        requested[PODS] += sign
        for resource, amount in needs.amounts.items():
            requested[resource] = requested.get(resource, 0) + sign * amount
        self.scored_cpu_milli += sign * needs.scored_cpu_milli
        self.scored_memory_bytes += sign * needs.scored_memory_bytes
