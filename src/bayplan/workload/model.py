"""What a pod asks for, in one form, whatever dialect it was written in.

Requests and limits are as the API server would store them after defaulting (a limit without a request is a request
too). Sources: k8s.io/api/core/v1 types; pkg/apis/core/v1/helper/qos for the QoS class; KEP-753 (sidecars), KEP-2837
(pod-level resources).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import msgspec

from bayplan.quantity import hugepages_resource

Qos = Literal["Guaranteed", "Burstable", "BestEffort"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What one container asks. `None` as a limit: no limit. `hugepages`: page bytes -> bytes; `devices`: name -> count.

    `ephemeral_bytes` is local storage. `init` marks init containers, `restartable` those of them that are sidecars.
    """

    name: str
    cpu_milli: int = 0
    cpu_limit_milli: int | None = None
    memory_bytes: int = 0
    memory_limit_bytes: int | None = None
    hugepages: dict[int, int] = {}
    devices: dict[str, int] = {}
    ephemeral_bytes: int = 0
    init: bool = False
    restartable: bool = False

    @property
    def ends(self) -> bool:
        """Whether it ends before the application containers start: an init container that is no sidecar."""
        return self.init and not self.restartable

    @property
    def memory_types(self) -> dict[str, int]:
        """Bytes by the kubelet's resource name: `memory`, `hugepages-2Mi`, ... Zero amounts are left out."""
        amounts = {"memory": self.memory_bytes} if self.memory_bytes else {}
        for page, count in sorted(self.hugepages.items()):
            if count:
                amounts[hugepages_resource(page)] = count
        return amounts


class PodResources(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of the pod as a whole (`spec.resources`, KEP-2837). None: not said."""

    cpu_milli: int | None = None
    cpu_limit_milli: int | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    hugepages: dict[int, int] = {}


class Toleration(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.tolerations[]`; empty strings match everything, as in Kubernetes."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Selector(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement of a node selector term. `field`: on `metadata.name` rather than a label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    field: bool = False


class Preference(msgspec.Struct, frozen=True, kw_only=True):
    """`preferredDuringSchedulingIgnoredDuringExecution`: a weight (1..100) for nodes that meet all requirements."""

    weight: int
    requirements: tuple[Selector, ...]


class Pod(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One pod with its containers' requests in the order of the manifest.

    `node_terms` is required node affinity: terms are alternatives, the requirements of a term must all hold; None:
    nothing required, no terms: no node will do. `source` tells where it was written, `owner` what made it
    (`Deployment/web`). `every_node`: a DaemonSet's pod, which stands for one on each node that will have it.
    """

    uid: str
    name: str
    namespace: str = "default"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    init: tuple[Request, ...] = ()
    containers: tuple[Request, ...] = ()
    resources: PodResources | None = None
    overhead_cpu_milli: int = 0
    overhead_memory_bytes: int = 0
    node_name: str = ""
    node_selector: dict[str, str] = {}
    node_terms: tuple[tuple[Selector, ...], ...] | None = None
    node_preferences: tuple[Preference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    priority: int = 0
    every_node: bool = False
    owner: str = ""
    source: str = ""

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def all_containers(self) -> tuple[Request, ...]:
        """Init containers, then application containers."""
        return self.init + self.containers

    def peak(self, amounts: Sequence[int]) -> int:
        """The most of something that the containers need at a time; `amounts` in the order of `all_containers`.

        Init containers run one after the other, beside the sidecars that started before them; application
        containers run together with all sidecars.
        """
        sidecars = most = 0
        for container, own in zip(self.init, amounts, strict=False):
            if container.restartable:
                sidecars += own
            else:
                most = max(most, sidecars + own)
        return max(most, sum(amounts[len(self.init) :]) + sidecars)

    @cached_property
    def qos(self) -> Qos:
        """The quality-of-service class as the kubelet computes it (over init containers too)."""
        if self.resources is not None:
            return _pod_level_qos(self.resources)
        requests = {"cpu": 0, "memory": 0}
        limits = {"cpu": 0, "memory": 0}
        all_limited = bool(self.all_containers)
        for c in self.all_containers:
            requests["cpu"] += c.cpu_milli
            requests["memory"] += c.memory_bytes
            limits["cpu"] += c.cpu_limit_milli or 0
            limits["memory"] += c.memory_limit_bytes or 0
            all_limited = all_limited and bool(c.cpu_limit_milli) and bool(c.memory_limit_bytes)
        if not any(requests.values()) and not any(limits.values()):
            return "BestEffort"
        return "Guaranteed" if all_limited and requests == limits else "Burstable"


def _pod_level_qos(r: PodResources) -> Qos:
    requests = (r.cpu_milli or 0, r.memory_bytes or 0)
    limits = (r.cpu_limit_milli or 0, r.memory_limit_bytes or 0)
    if not any(requests) and not any(limits):
        return "BestEffort"
    return "Guaranteed" if all(limits) and requests == limits else "Burstable"
