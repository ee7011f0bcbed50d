"""What a kubelet itself checks of a pod that is bound to it, beside its resource managers: its general filter.

It runs after the managers, for every pod, whoever bound it; where the scheduler chose the node it has nothing to say.
The kubelet policy looks at resources so too; here the same is done whatever the node's policy is, labels and taints
with it.
Facts: pkg/kubelet/lifecycle/predicate.go (extended resources that the node does not have are ignored; of the taints
only NoExecute counts; only the first reason is told), Kubernetes 1.36. Preemption for critical pods is not considered.
"""

from __future__ import annotations

from bayplan.fleet.filters import UNMATCHED, Objection, Wishes, lacking, matches
from bayplan.fleet.node import FleetNode
from bayplan.fleet.pod_needs import PodNeeds
from bayplan.fleet.selectors import untolerated
from bayplan.quantity import HUGEPAGES
from bayplan.resources.decision import Refusal

_UNTOLERATED = "node(s) had taints that the pod didn't tolerate"


def missing_devices(node: FleetNode, needs: PodNeeds) -> list[str]:
    """The extended resources that are asked for and that the node does not have at all, by name."""
    return sorted(name for name in needs.amounts if "/" in name and name not in node.allocatable)


def missing_resources(node: FleetNode, needs: PodNeeds) -> list[str]:
    """The same, and the sizes of huge pages of which the node has no pool."""
    told = node.allocatable
    pages = [name for name in needs.amounts if name.startswith(HUGEPAGES) and told and name not in told]
    return sorted([*missing_devices(node, needs), *pages])


def kubelet_refusal(node: FleetNode, needs: PodNeeds, wishes: Wishes | None) -> Refusal | None:
    """The kubelet's refusal of a pod that is bound to it, or None. Without `wishes`, labels and taints do not count."""
    missing = missing_devices(node, needs)
    for objection in lacking(node, needs):
        if objection.resource not in missing:
            return _out_of(node, objection)
    if wishes is None:
        return None
    if not matches(node, wishes):
        remedy = f"labels on node {node.name} that meet the pod's node selector and affinity"
        return _predicate("NodeAffinity", UNMATCHED, remedy)
    taints = untolerated(node.taints, wishes.tolerations, ("NoExecute",))
    if taints:
        return _predicate("TaintToleration", _UNTOLERATED, f"tolerate the taint {taints[0].key}:NoExecute")
    return None


def _out_of(node: FleetNode, short: Objection) -> Refusal:
    used, capacity = node.requested.get(short.resource, 0), node.offers(short.resource)
    return Refusal(
        reason=f"OutOf{short.resource}",
        message=f"Node didn't have enough resource: {short.resource}, requested: {short.asked}, used: {used}, "
        f"capacity: {capacity}",
        rule="kubelet/NodeResourcesFit",
        resource=short.resource,
        asked=short.asked,
        free=short.free,
        remedies=(short.remedy,),
    )


def _predicate(name: str, problem: str, remedy: str) -> Refusal:
    message = f"Predicate {name} failed: {problem}"
    return Refusal(reason=name, message=message, rule=f"kubelet/{name}", remedies=(remedy,))
