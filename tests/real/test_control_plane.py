"""The control plane that tests start, and what the scheduler does with extenders, which the product relies on."""

from __future__ import annotations

import os

import pytest
from tests.real.api import ApiError, Json
from tests.real.control_plane import ControlPlane, MissingError, binaries
from tests.real.processes import wait_for
from tests.real.stub_extender import stub_extender

BUSY = "watts_high: 412 W > 400 W, measured 3 s ago"


def all_names(body: Json) -> Json:
    return {"NodeNames": body["NodeNames"]}


def test_where_the_programs_are_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(MissingError, match="KUBEBUILDER_ASSETS does not name a folder with etcd"):
        binaries()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(MissingError, match="no etcd that can be run in"):
        binaries()


def test_the_server_answers_only_those_with_the_token(control_plane: ControlPlane) -> None:
    assert control_plane.get("/version")["major"] == "1"
    assert control_plane.get("/api/v1/namespaces/default")["metadata"]["name"] == "default"
    other = ControlPlane.__new__(ControlPlane)
    other.__dict__.update(control_plane.__dict__, token="wrong")
    with pytest.raises(ApiError) as refused:
        other.get("/api/v1/namespaces/default")
    assert refused.value.status == 401


def test_objects_are_made_changed_and_cleared(control_plane: ControlPlane) -> None:
    control_plane.node("a", {"rack": "1"}, {"example.com/card": "2"})
    pod = control_plane.pod("p", {"cpu": "100m", "example.com/card": "1"}, annotations={"why": "test"})
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"example.com/card": "1"}
    node = control_plane.patch("/api/v1/nodes/a", {"metadata": {"labels": {"rack": "2"}}})
    assert node["metadata"]["labels"] == {"kubernetes.io/hostname": "a", "rack": "2"}
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/card": "2"}
    control_plane.clear()
    assert control_plane.find("/api/v1/nodes/a") is None
    assert control_plane.get("/api/v1/pods")["items"] == []


def test_a_kind_is_served_soon_after_its_definition(cluster: ControlPlane) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "berths", "singular": "berth", "kind": "Berth", "listKind": "BerthList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "berths.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    cluster.create(definition)
    cluster.create({"apiVersion": "example.com/v1", "kind": "Berth", "metadata": {"name": "b"}, "spec": {"length": 9}})
    assert cluster.get("/apis/example.com/v1/namespaces/default/berths/b")["spec"] == {"length": 9}


def test_objects_outlive_the_server(cluster: ControlPlane) -> None:
    cluster.node("a")
    before = cluster.pids
    cluster.restart_apiserver()
    assert cluster.get("/api/v1/nodes/a")["metadata"]["name"] == "a"
    assert cluster.pids["etcd"] == before["etcd"]
    assert cluster.pids["kube-apiserver"] != before["kube-apiserver"]
    with cluster.apiserver_down(), pytest.raises(OSError, match="refused"):
        cluster.get("/version")


def test_the_programs_are_children_that_die_with_the_tests(control_plane: ControlPlane) -> None:
    for pid in control_plane.pids.values():
        with open(f"/proc/{pid}/stat") as stat:
            assert int(stat.read().rsplit(")", 1)[1].split()[1]) == os.getpid()


def test_a_plain_pod_is_bound(cluster: ControlPlane) -> None:
    cluster.node("small", allocatable={"cpu": "1"})
    cluster.node("large", allocatable={"cpu": "8"})
    with cluster.start_scheduler() as scheduler:
        cluster.pod("p", {"cpu": "2"})
        assert cluster.node_of("p") == "large"
        assert "scheduler_schedule_attempts_total" in cluster.scheduler_metrics(scheduler)


def test_an_extender_that_refuses_all_nodes_keeps_the_pod_pending_with_its_reasons(cluster: ControlPlane) -> None:
    for name in ("a", "b", "c"):
        cluster.node(name, allocatable={"cpu": "1"} if name == "c" else None)

    def refuse(body: Json) -> Json:
        return {"NodeNames": [], "FailedNodes": dict.fromkeys(body["NodeNames"], BUSY)}

    with stub_extender({"filter": refuse}) as stub:
        extender = {"urlPrefix": stub.url, "filterVerb": "filter", "nodeCacheCapable": True}
        with cluster.start_scheduler([extender]):
            pod = cluster.pod("p", {"cpu": "2"})
            refusal = cluster.refusal("p")
        (call, *_) = stub.of("filter")
    assert call.body["Nodes"] is None
    assert sorted(call.body["NodeNames"]) == ["a", "b"]
    assert call.body["Pod"]["metadata"]["uid"] == pod["metadata"]["uid"]
    assert refusal["reason"] == "Unschedulable"
    assert refusal["message"].startswith(f"0/3 nodes are available: 1 Insufficient cpu, 2 {BUSY}.")


def test_reasons_are_told_apart_and_the_unresolvable_ones_need_no_preemption(cluster: ControlPlane) -> None:
    cluster.node("a")
    cluster.node("b")

    def refuse(body: Json) -> Json:
        return {"NodeNames": [], "FailedNodes": {"a": BUSY}, "FailedAndUnresolvableNodes": {"b": "no card"}}

    with stub_extender({"filter": refuse}) as stub:
        extender = {"urlPrefix": stub.url, "filterVerb": "filter", "nodeCacheCapable": True}
        with cluster.start_scheduler([extender]):
            cluster.pod("p")
            message = cluster.refusal("p")["message"]
    assert f"1 {BUSY}" in message
    assert "1 no card" in message
    assert "1 No preemption victims found for incoming pod" in message
    assert "1 Preemption is not helpful for scheduling" in message


def test_a_changed_node_brings_a_refused_pod_back_at_once(cluster: ControlPlane) -> None:
    cluster.node("a")
    open_now: list[bool] = []

    def filter_(body: Json) -> Json:
        return all_names(body) if open_now else {"NodeNames": [], "FailedNodes": {"a": BUSY}}

    with stub_extender({"filter": filter_}) as stub:
        extender = {"urlPrefix": stub.url, "filterVerb": "filter", "nodeCacheCapable": True}
        with cluster.start_scheduler([extender]):
            cluster.pod("p")
            cluster.refusal("p")
            open_now.append(True)
            cluster.patch("/api/v1/nodes/a", {"metadata": {"annotations": {"bayplan.dev/woken": "1"}}})
            assert cluster.node_of("p", seconds=30) == "a"


def test_scores_of_the_extender_are_asked_for_only_where_there_is_a_choice(cluster: ControlPlane) -> None:
    cluster.node("a", allocatable={"cpu": "4"})
    cluster.node("b", allocatable={"cpu": "8"})

    def prefer_a(body: Json) -> list[Json]:
        return [{"Host": name, "Score": 10 if name == "a" else 0} for name in body["NodeNames"]]

    with stub_extender({"filter": all_names, "prioritize": prefer_a}) as stub:
        extender = {"urlPrefix": stub.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 10}
        with cluster.start_scheduler([extender | {"nodeCacheCapable": True}]):
            cluster.pod("only-b", {"cpu": "5"})
            assert cluster.node_of("only-b") == "b"
            assert stub.of("prioritize") == []
            cluster.pod("any", {"cpu": "1"})
            assert cluster.node_of("any") == "a"
    (call,) = stub.of("prioritize")
    assert sorted(call.body["NodeNames"]) == ["a", "b"]


@pytest.mark.parametrize(("cache_capable", "node"), [(True, "empty"), (False, "busy")], ids=["names", "nodes"])
def test_nodes_sent_back_lose_their_pods_in_the_schedulers_own_scores(
    cluster: ControlPlane, cache_capable: bool, node: str
) -> None:
    # The scheduler makes new, empty nodes of those in an answer's `Nodes`: to its own scores a full node then looks
    # like an empty one, and a little preference of the extender outweighs them. Names are looked up, and keep pods.
    cluster.node("busy")
    cluster.node("empty")
    cluster.pod("resident", {"cpu": "3", "memory": "6Gi"}, nodeName="busy")

    def keep(body: Json) -> Json:
        return {"Nodes": body["Nodes"], "NodeNames": body["NodeNames"]}

    def prefer_busy(body: Json) -> list[Json]:
        return [{"Host": "busy", "Score": 1}, {"Host": "empty", "Score": 0}]

    with stub_extender({"filter": keep, "prioritize": prefer_busy}) as stub:
        extender = {"urlPrefix": stub.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1}
        with cluster.start_scheduler([extender | {"nodeCacheCapable": cache_capable}]):
            cluster.pod("p", {"cpu": "500m", "memory": "1Gi"})
            assert cluster.node_of("p") == node


def test_only_pods_with_a_managed_resource_are_sent_and_the_scheduler_need_not_count_it(cluster: ControlPlane) -> None:
    cluster.node("a")
    managed = [{"name": "gpu.intel.com/millicores", "ignoredByScheduler": True}]
    with stub_extender({"filter": all_names}) as stub:
        extender = {"urlPrefix": stub.url, "filterVerb": "filter", "nodeCacheCapable": True}
        with cluster.start_scheduler([extender | {"managedResources": managed}]):
            cluster.pod("plain", {"cpu": "1"})
            assert cluster.node_of("plain") == "a"
            assert stub.calls == []
            cluster.pod("card", {"gpu.intel.com/millicores": "100"})
            assert cluster.node_of("card") == "a"
    assert [call.body["Pod"]["metadata"]["name"] for call in stub.calls] == ["card"]


def test_an_extender_that_does_not_answer_fails_the_pod_unless_it_is_ignorable(cluster: ControlPlane) -> None:
    cluster.node("a")
    extender = {"urlPrefix": "http://127.0.0.1:9", "filterVerb": "filter", "nodeCacheCapable": True}
    with cluster.start_scheduler([extender]):
        pod = cluster.pod("p")
        refusal = cluster.refusal("p")
        assert refusal["reason"] == "SchedulerError"
        assert "connection refused" in refusal["message"]
        events = wait_for("an event says so", lambda: cluster.events(pod))
        assert events[0]["reason"] == "FailedScheduling"
    with cluster.start_scheduler([extender | {"ignorable": True}]):
        assert cluster.node_of("p") == "a"
