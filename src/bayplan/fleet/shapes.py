"""What makes pods alike: those of one Deployment are summed up, and answered by a hub, all the same.

A pod's shape is what its containers ask, its labels and annotations, namespace and priority; its name, uid, owner and
source are not part of it, so a policy must not let them decide whether a pod can be admitted.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bayplan.fleet.filters import Wishes, wishes_of
from bayplan.fleet.pod_needs import PodNeeds, pod_needs
from bayplan.workload.model import Pod

_MAX_KEPT = 100_000


class Shape(NamedTuple):
    """A pod in the fleet's terms. Pods of one `key` are answered alike by a hub in one state."""

    needs: PodNeeds
    wishes: Wishes
    wishes_key: bytes
    key: bytes


class Shapes:
    """The shapes met so far, each worked out once."""

    def __init__(self) -> None:
        # Not in sorted order: pods that were written in another order are only asked about once more.
        self._encode = msgspec.msgpack.Encoder().encode
        self._needs: dict[bytes, PodNeeds] = {}
        self._wishes: dict[bytes, Wishes] = {}

    def of(self, pod: Pod) -> Shape:
        """A pod's shape."""
        size = (pod.init, pod.containers, pod.resources, pod.overhead_cpu_milli, pod.overhead_memory_bytes)
        needs_key = self._encode(size)
        needs = self._needs.get(needs_key)
        if needs is None:
            if len(self._needs) >= _MAX_KEPT:
                self._needs.clear()
            needs = self._needs[needs_key] = pod_needs(pod)
        wishes_key = self._encode((pod.node_selector, pod.node_terms, pod.node_preferences, pod.tolerations))
        wishes = self._wishes.get(wishes_key)
        if wishes is None:
            if len(self._wishes) >= _MAX_KEPT:
                self._wishes.clear()
            wishes = self._wishes[wishes_key] = wishes_of(pod)
        key = needs_key + self._encode((pod.namespace, pod.labels, pod.annotations, pod.priority))
        return Shape(needs, wishes, wishes_key, key)
