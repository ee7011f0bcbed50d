"""A DaemonSet's pods: one for each node that its controller would have run it.

Facts: pkg/controller/daemon/daemon_controller.go (`NodeShouldRunDaemonPod`: node name, node selector and affinity,
taints; not what is free), pkg/controller/daemon/util (each pod's required node affinity becomes the node's name).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bayplan.fleet.filters import HARD_EFFECTS, matches, wishes_of
from bayplan.fleet.node import FleetNode
from bayplan.fleet.selectors import untolerated
from bayplan.workload.model import Pod, Selector


def daemon_pods(pod: Pod, nodes: Sequence[FleetNode], *, everywhere: bool) -> list[Pod]:
    """The pods that an `every_node` pod stands for, in the order of the nodes, named after them.

    `everywhere` leaves labels and taints out of account.
    """
    wishes = wishes_of(pod)
    return [
        _pod_on(pod, node)
        for node in nodes
        if everywhere
        or (
            pod.node_name in ("", node.name)
            and matches(node, wishes)
            and not untolerated(node.taints, wishes.tolerations, HARD_EFFECTS)
        )
    ]


def _pod_on(pod: Pod, node: FleetNode) -> Pod:
    only = Selector(key="metadata.name", operator="In", values=(node.name,), field=True)
    return msgspec.structs.replace(
        pod,
        uid=f"{pod.uid}-{node.name}",
        name=f"{pod.name}-{node.name}",
        node_terms=((only,),),
        every_node=False,
    )
