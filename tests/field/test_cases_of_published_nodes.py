"""Cases that practitioners met with topology-aware scheduling, by their numbers in the public trackers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.files.plugins import load_policy, load_resources
from bayplan.files.presets import load_preset
from bayplan.fleet.published.checks import ZoneChecks
from bayplan.fleet.published.doubts import ZoneSettings
from bayplan.fleet.published.explain import explain
from bayplan.fleet.published.fingerprint import fingerprint
from bayplan.fleet.published.layout import HeldPod, Management, NodeLayout, write_layout
from bayplan.fleet.published.pod_objects import pod_of
from bayplan.hub.hub import Hub
from bayplan.policies.kubelet.configuration import read_inline
from bayplan.policies.policy import NodeSetup
from bayplan.protocols.kubernetes import PodObject, read_pod
from bayplan.workload.model import Pod

GPU = "nvidia.com/gpu"
NOW = 1_800_000_000.0
TTL_S = 30.0
P5 = {
    "cpuManagerPolicy": "static",
    "topologyManagerPolicy": "single-numa-node",
    "topologyManagerScope": "pod",
    "reservedSystemCPUs": "0,56",
}
FREE: tuple[dict[str, str], dict[str, str]] = ({}, {})


@pytest.fixture
def checks() -> ZoneChecks:
    return ZoneChecks(ZoneSettings(), load_policy, load_resources().found)


def pod_object(name: str, cpu: int, gpu: int = 0, *, node: str = "", phase: str = "Running") -> PodObject:
    return read_pod(
        msgspec.json.encode(
            {
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
                "spec": {
                    "nodeName": node,
                    "containers": [
                        {
                            "name": "c",
                            "resources": {
                                "limits": {"cpu": cpu, "memory": "256Mi", **({GPU: gpu} if gpu else {})},
                            },
                        }
                    ],
                },
                "status": {"phase": phase if node else "Pending"},
            }
        )
    )


def asked(name: str, cpu: int, gpu: int = 0) -> Pod:
    return pod_of(pod_object(name, cpu, gpu))


class Node:
    """A node with two sockets of four GPUs, and the agent that publishes what its kubelet has granted."""

    def __init__(self, name: str = "p5") -> None:
        self.name = name
        self.machine = load_preset("dgx-h100")
        self.configuration = read_inline(P5, source="", place="").configuration
        setup = NodeSetup(configuration=self.configuration, exact=True)
        self.hub = Hub(self.machine, load_policy("kubelet")(self.machine, setup), load_resources().found)

    def document(self, at: float = NOW) -> bytes:
        layout = NodeLayout(
            name=self.name,
            machine=self.machine,
            management=Management(configuration=self.configuration),
            heartbeat=at,
            pods=tuple(HeldPod(pod=entry.pod, grants=entry.grants) for entry in self.hub.ledger.entries()),
        )
        return msgspec.json.encode(write_layout(layout, P5))


def topology(zones: list[dict[str, Any]], *, scope: str = "container", **extra: Any) -> bytes:
    attributes = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": scope}
    attributes.update(extra.pop("attributes", {}))
    return msgspec.json.encode(
        {
            "apiVersion": "topology.node.k8s.io/v1alpha2",
            "kind": "NodeResourceTopology",
            "metadata": {"name": "n", **extra},
            "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
            "zones": [
                {
                    "name": f"node-{i}",
                    "type": "Node",
                    "resources": [
                        {"name": name, "capacity": a[0], "allocatable": a[1], "available": a[2]}
                        for name, a in zone.items()
                    ],
                }
                for i, zone in enumerate(zones)
            ],
        }
    )


# 1: hundreds of Failed pods for one ReplicaSet.


def test_a_replica_set_whose_pod_fits_no_zone_binds_nothing_at_all(checks: ZoneChecks) -> None:
    checks.set_topology("n", topology([{"cpu": ("14", "13", "6")}, {"cpu": ("14", "14", "6")}]))
    bound = [i for i in range(200) if checks.assume(asked(f"replica-{i}", 8), "n", NOW, TTL_S) is None]
    assert bound == []
    reason = checks.check(asked("replica", 8), ["n"], NOW).failed["n"]
    assert reason == "zones: single-numa-node: 8 cpu asked, most free in one zone: 6"


# 8: fragmentation livelock on p5.48xlarge.


def test_four_gpus_are_never_bound_to_a_node_with_three_free_on_each_side_and_the_pods_in_the_way_are_named(
    checks: ZoneChecks,
) -> None:
    node = Node()
    for name, gpus in (("one", 1), ("filler", 3), ("two", 1)):
        assert node.hub.admit(asked(name, 4, gpus)).admitted
    node.hub.release("uid-filler")
    checks.set_layout("p5", node.document())
    four, eight = asked("four", 8, 4), asked("eight", 8, 8)

    checked = checks.check(four, ["p5"], NOW)
    assert checked.unresolvable == {}
    assert checked.failed["p5"] == f"zones: single-numa-node: 4 {GPU} asked, most free in one zone: 3"
    blocked = explain(checks, four, "p5", NOW)
    assert not blocked.impossible
    assert blocked.blockers == ("default/one",)
    assert blocked.refusal is not None
    assert (blocked.refusal.resource, blocked.refusal.asked, blocked.refusal.free) == (GPU, 4, 3)
    assert "3 in node 0, 3 in node 1" in blocked.refusal.message

    assert checks.check(eight, ["p5"], NOW).failed == {}
    assert "impossible on this kind of node" in checks.check(eight, ["p5"], NOW).unresolvable["p5"]
    never = explain(checks, eight, "p5", NOW)
    assert never.impossible
    assert never.blockers == ()


def test_single_gpus_go_to_the_node_whose_zone_is_broken_already(checks: ZoneChecks) -> None:
    broken, whole = Node("broken"), Node("whole")
    assert broken.hub.admit(asked("one", 4, 1)).admitted
    checks.set_layout("broken", broken.document())
    checks.set_layout("whole", whole.document())
    scores = checks.scores(asked("two", 4, 1), ["broken", "whole"], NOW)
    assert scores["broken"] > scores["whole"]


# 24: two containers that each fit the same zone.


def test_a_zone_is_not_given_to_two_containers_at_once(checks: ZoneChecks) -> None:
    zones = [{"cpu": ("2", "2", "2"), "memory": ("100M",) * 3}, {"cpu": ("1", "1", "1"), "memory": ("50M",) * 3}]
    checks.set_topology("n", topology(zones))
    containers = [
        {"name": name, "resources": {"limits": {"cpu": "2", "memory": "100M"}}} for name in ("first", "second")
    ]

    def pod(count: int) -> Pod:
        value = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": containers[:count]}}
        return pod_of(read_pod(msgspec.json.encode(value)))

    assert checks.check(pod(1), ["n"], NOW) == FREE
    refused = checks.check(pod(2), ["n"], NOW)
    reason = {**refused.failed, **refused.unresolvable}["n"]
    assert "container second: 2 cpu asked" in reason


# 30: pods that have ended, and were not deleted.


def test_pods_that_have_ended_hold_nothing_though_they_are_there_and_were_published(checks: ZoneChecks) -> None:
    node = Node()
    for i in range(2):
        assert node.hub.admit(asked(f"job-{i}", 4, 4)).admitted
    checks.set_layout("p5", node.document())
    for i in range(2):
        checks.set_pod(pod_object(f"job-{i}", 4, 4, node="p5"))
    assert checks.check(asked("next", 4, 4), ["p5"], NOW).failed
    for i in range(2):
        checks.set_pod(pod_object(f"job-{i}", 4, 4, node="p5", phase="Succeeded"))
    assert checks.check(asked("next", 4, 4), ["p5"], NOW) == FREE
    checks.set_layout("p5", node.document(NOW + 1))
    assert checks.check(asked("next", 4, 4), ["p5"], NOW + 1) == FREE


def test_a_fingerprint_that_has_pods_that_ended_is_still_recognised(checks: ZoneChecks) -> None:
    names = [("default", name) for name in ("job-0", "job-1", "runs")]
    signature = {"nodeTopologyPodsFingerprint": fingerprint(names)}
    zones = [{"cpu": ("14", "13", "10")}, {"cpu": ("14", "14", "14")}]
    checks.set_topology("n", topology(zones, attributes=signature))
    for name in ("job-0", "job-1", "runs"):
        checks.set_pod(pod_object(name, 3, node="n", phase="Pending"))
    for name in ("job-0", "job-1"):
        checks.set_pod(pod_object(name, 3, node="n", phase="Succeeded"))
    books = checks.books("n")
    assert books is not None
    assert books.counted() == {"uid-runs"}


# 32: one pod bound and not yet pinned, another ended: the sums cannot tell, grants can.


def test_a_pod_that_ends_while_another_comes_leaves_no_doubt_about_what_is_free(checks: ZoneChecks) -> None:
    node = Node()
    assert node.hub.admit(asked("q", 4, 4)).admitted
    checks.set_layout("p5", node.document())
    checks.set_pod(pod_object("q", 4, 4, node="p5"))
    p = asked("p", 8, 4)
    assert checks.assume(p, "p5", NOW, TTL_S) is None
    checks.set_pod(pod_object("p", 8, 4, node="p5", phase="Pending"))
    checks.set_pod(pod_object("q", 4, 4, node="p5", phase="Succeeded"))

    fits = asked("r", 4, 4)
    assert checks.check(fits, ["p5"], NOW) == FREE, "q's four GPUs are free, p's are not"
    node.hub.release("uid-q")
    checks.set_layout("p5", node.document(NOW + 1))
    assert checks.check(fits, ["p5"], NOW + 1) == FREE, "published without q, and without p still"
    assert node.hub.admit(p).admitted
    checks.set_layout("p5", node.document(NOW + 2))
    assert checks.check(fits, ["p5"], NOW + 2) == FREE, "with p, which counts once"
    assert checks.assume(fits, "p5", NOW + 2, TTL_S) is None
    assert checks.check(asked("s", 1, 1), ["p5"], NOW + 2).failed


# 65: an object that nobody keeps up.


def test_two_pods_of_three_gpus_never_share_a_zone_of_four_in_numbers_that_do_not_fall(checks: ZoneChecks) -> None:
    zones = [{GPU: ("4", "4", "4"), "cpu": ("36", "32", "32")}] * 2
    by_hand: dict[str, Any] = {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}
    checks.set_topology("n", topology(zones, **by_hand))
    refused = checks.check(asked("a", 1, 3), ["n"], NOW).failed
    assert "nobody keeps up this NodeResourceTopology (written with kubectl apply)" in refused["n"]

    trusting = ZoneChecks(ZoneSettings(unowned="skip"), load_policy, load_resources().found)
    trusting.set_topology("n", topology(zones))
    placed = [trusting.assume(asked(f"p{i}", 1, 3), "n", NOW, TTL_S) is None for i in range(3)]
    assert placed == [True, True, False], "one on each side; the numbers are made to fall here"


def test_what_pods_share_is_not_taken_from_any_zone(checks: ZoneChecks) -> None:
    checks.set_topology("n", topology([{"cpu": ("36", "32", "32")}] * 2))
    shared = read_pod(
        b'{"metadata":{"name":"s","uid":"s"},"spec":{"nodeName":"n","containers":'
        b'[{"name":"c","resources":{"requests":{"cpu":"30500m"}}}]},"status":{"phase":"Pending"}}'
    )
    checks.set_pod(shared)
    assert checks.check(asked("whole", 32), ["n"], NOW) == FREE


# 69: content that stays as it is, told again.


def test_a_heartbeat_tells_that_unchanged_content_still_holds(checks: ZoneChecks) -> None:
    strict = ZoneChecks(ZoneSettings(stale="refuse", stale_after_s=60), load_policy, load_resources().found)
    node = Node()
    pod = asked("p", 4, 4)
    strict.set_layout("p5", node.document(NOW))
    assert "120 s old" in strict.check(pod, ["p5"], NOW + 120).failed["p5"]
    strict.set_layout("p5", node.document(NOW + 119))
    assert strict.check(pod, ["p5"], NOW + 120) == FREE
