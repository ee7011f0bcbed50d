"""Published nodes: the documents of agents and exporters as they come over the wire, and pods as the API tells them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from bayplan.files.plugins import load_policy, load_resources
from bayplan.files.presets import load_preset
from bayplan.fleet.published.checks import ZoneChecks
from bayplan.fleet.published.doubts import ZoneSettings
from bayplan.fleet.published.layout import HeldPod, Management, NodeLayout, Offers, write_layout
from bayplan.fleet.published.pod_objects import pod_of
from bayplan.hub.hub import Hub
from bayplan.machine import Machine
from bayplan.policies.kubelet.configuration import read_inline
from bayplan.policies.policy import NodeSetup
from bayplan.protocols.kubernetes import PodObject, read_pod
from bayplan.workload.model import Pod

GPU = "nvidia.com/gpu"
NOW = 1_800_000_000.0
SINGLE: dict[str, Any] = {
    "cpuManagerPolicy": "static",
    "topologyManagerPolicy": "single-numa-node",
    "topologyManagerScope": "pod",
    "reservedSystemCPUs": "0,56",
}

ChecksMaker = Callable[..., ZoneChecks]
PodMaker = Callable[..., PodObject]
LayoutMaker = Callable[..., bytes]
TopologyMaker = Callable[..., bytes]
Asked = Callable[[PodObject], Pod]


@pytest.fixture(scope="session")
def make_checks() -> ChecksMaker:
    """ZoneChecks with the policies and resources that are installed; keywords are those of ZoneSettings."""
    plugins = load_resources().found

    def make(**settings: Any) -> ZoneChecks:
        return ZoneChecks(ZoneSettings(**settings), load_policy, plugins)

    return make


@pytest.fixture(scope="session")
def make_pod() -> PodMaker:
    """A Guaranteed pod: `cpu` and `gpu` by container (one number: one container), `node` where it runs."""

    def make(
        name: str,
        cpu: int | str | Sequence[int | str] = 1,
        gpu: int = 0,
        *,
        node: str = "",
        phase: str = "Running",
        start: str | None = None,
        memory: str = "1Gi",
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        devices: Mapping[str, int] | None = None,
    ) -> PodObject:
        sizes = cpu if isinstance(cpu, list | tuple) else [cpu]
        asked = {**({GPU: gpu} if gpu else {}), **(devices or {})}
        containers = [
            {
                "name": f"c{i}",
                "resources": {"limits": {"cpu": str(size), "memory": memory, **(asked if i == 0 else {})}},
            }
            for i, size in enumerate(sizes)
        ]
        value = {
            "metadata": {
                "name": name,
                "namespace": "ml",
                "uid": f"uid-{name}",
                "annotations": dict(annotations or {}),
                "labels": dict(labels or {}),
            },
            "spec": {"nodeName": node, "containers": containers},
            "status": {"phase": phase if node else "Pending", "startTime": start},
        }
        return read_pod(msgspec.json.encode(value))

    return make


@pytest.fixture(scope="session")
def asked() -> Asked:
    """What a pod of the API asks."""
    return pod_of


@pytest.fixture(scope="session")
def dgx() -> Machine:
    """Two sockets of 56 cores and four GPUs each."""
    return load_preset("dgx-h100")


@pytest.fixture(scope="session")
def make_layout(dgx: Machine) -> LayoutMaker:
    """What the agent of a node publishes once these pods were admitted in their order, and `gone` ones have left."""
    plugins = load_resources().found

    def make(
        name: str = "n",
        pods: Sequence[PodObject] = (),
        *,
        gone: Sequence[PodObject] = (),
        machine: Machine | None = None,
        configuration: Mapping[str, Any] | None = None,
        heartbeat: float | None = NOW,
        generation: int = 1,
        offers: Offers = Offers(),  # noqa: B008 - a frozen value
    ) -> bytes:
        given = dict(SINGLE if configuration is None else configuration)
        read = read_inline(given, source="", place="kubeletConfiguration").configuration
        hardware = machine or dgx
        policy = load_policy("kubelet")(hardware, NodeSetup(configuration=read, exact=True))
        hub = Hub(hardware, policy, plugins)
        for pod in pods:
            decision = hub.admit(pod_of(pod))
            assert decision.refusal is None, decision.refusal
        for pod in gone:
            hub.release(pod_of(pod).uid)
        held = tuple(HeldPod(pod=entry.pod, grants=entry.grants) for entry in hub.ledger.entries())
        layout = NodeLayout(
            name=name,
            machine=hardware,
            management=Management(configuration=read),
            heartbeat=heartbeat,
            generation=generation,
            pods=held,
            offers=offers,
        )
        return msgspec.json.encode(write_layout(layout, given))

    return make


@pytest.fixture(scope="session")
def make_topology() -> TopologyMaker:
    """A NodeResourceTopology: `zones` are resource -> (capacity, allocatable, available), or one quantity for all."""

    def make(
        name: str,
        zones: Sequence[Mapping[str, Any]],
        *,
        policy: str = "single-numa-node",
        scope: str = "container",
        attributes: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> bytes:
        given = {"topologyManagerPolicy": policy, "topologyManagerScope": scope, **(attributes or {})}
        parts = ("capacity", "allocatable", "available")

        def resources(zone: Mapping[str, Any]) -> list[dict[str, str]]:
            amounts = {r: a if isinstance(a, tuple) else (a, a, a) for r, a in zone.items()}
            return [{"name": r, **dict(zip(parts, map(str, a), strict=True))} for r, a in amounts.items()]

        value = {
            "apiVersion": "topology.node.k8s.io/v1alpha2",
            "kind": "NodeResourceTopology",
            "metadata": {"name": name, **(metadata or {})},
            "attributes": [{"name": key, "value": text} for key, text in given.items()],
            "zones": [
                {"name": f"node-{i}", "type": "Node", "resources": resources(zone)} for i, zone in enumerate(zones)
            ],
        }
        return msgspec.json.encode(value)

    return make


@pytest.fixture(scope="session")
def now() -> float:
    """The time of the heartbeats in `make_layout`."""
    return NOW
