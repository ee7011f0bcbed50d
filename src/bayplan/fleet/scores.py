"""How much the scheduler would like each of the nodes that passed its filters, 0 to 100 a plugin, as integers.

The plugins of kube-scheduler's default profile that see what is read here, with their default weights:
NodeResourcesFit (1; LeastAllocated, cpu and memory alike; `pack` makes it MostAllocated), NodeResourcesBalanced-
Allocation (1), NodeAffinity (2; preferences), TaintToleration (3; PreferNoSchedule). Facts: pkg/scheduler/framework/
plugins of Kubernetes 1.36. Where kube-scheduler draws lots between equal nodes, the first in the order of the nodes is
taken here; where it looks at a sample of a large cluster, all nodes are looked at.

Plain Python, one node at a time; `columns` computes the same for many at once and is tested against this.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.fleet.filters import Wishes
from bayplan.fleet.node import FleetNode
from bayplan.fleet.pod_needs import PodNeeds
from bayplan.fleet.selectors import node_meets, untolerated

MOST = 100
AFFINITY_WEIGHT = 2
TAINT_WEIGHT = 3
SOFT_EFFECTS = ("PreferNoSchedule",)
# Larger amounts count as this much in scores, so that a hundredfold of them fits in 64 bits.
LARGEST_SCORED = 2**56


def score(nodes: Sequence[FleetNode], wishes: Wishes, needs: PodNeeds, *, pack: bool) -> list[int]:
    """The total for each node, all of which have passed the filters; higher is better."""
    weights = normalized([preference(node, wishes) for node in nodes])
    taints = normalized([soft_taints(node, wishes) for node in nodes])
    return [
        fullness(node, needs, pack=pack)
        + balance(node, needs)
        + AFFINITY_WEIGHT * weight
        + TAINT_WEIGHT * (MOST - soft)
        for node, weight, soft in zip(nodes, weights, taints, strict=True)
    ]


def normalized(amounts: Sequence[int]) -> list[int]:
    """Stretched so that the largest is 100; all zero stays so."""
    largest = max(amounts, default=0)
    return [MOST * amount // largest if largest else 0 for amount in amounts]


def preference(node: FleetNode, wishes: Wishes) -> int:
    """The weights of the preferences that the node meets."""
    return sum(p.weight for p in wishes.preferences if node_meets(p.requirements, node.name, node.labels))


def soft_taints(node: FleetNode, wishes: Wishes) -> int:
    """How many PreferNoSchedule taints the pod does not tolerate."""
    return len(untolerated(node.taints, wishes.tolerations, SOFT_EFFECTS))


def fullness(node: FleetNode, needs: PodNeeds, *, pack: bool) -> int:
    """What share of cpu and memory would be left (`pack`: taken), on average, with the pod there."""
    parts = []
    for resource, wanted in (
        ("cpu", node.scored_cpu_milli + needs.scored_cpu_milli),
        ("memory", node.scored_memory_bytes + needs.scored_memory_bytes),
    ):
        offered = scored(node.allocatable.get(resource, 0))
        taken = min(wanted, offered)
        if offered:
            parts.append((taken if pack else offered - taken) * MOST // offered)
    return sum(parts) // len(parts) if parts else 0


def balance(node: FleetNode, needs: PodNeeds) -> int:
    """How much nearer to each other the shares of cpu and memory taken would come: around 75, from 50 to 100.

    A pod that asks for neither does not count.
    """
    cpu, memory = needs.amounts.get("cpu", 0), needs.amounts.get("memory", 0)
    if not cpu and not memory:
        return 0
    return MOST // 2 + (MOST // 2 + evenness(node, cpu, memory) - evenness(node, 0, 0)) // 2


def evenness(node: FleetNode, cpu: int, memory: int) -> int:
    """How near to each other the shares of cpu and memory taken are with so much more taken, 50 to 100."""
    shares = []
    for resource, more in (("cpu", cpu), ("memory", memory)):
        offered = scored(node.allocatable.get(resource, 0))
        if offered:
            shares.append(min(1.0, float(scored(node.requested.get(resource, 0) + more)) / float(offered)))
    deviation = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else 0.0
    return int((1 - deviation) * MOST)


def scored(amount: int) -> int:
    """An amount as it counts in scores."""
    return min(amount, LARGEST_SCORED)
