"""What kube-scheduler really sends to an extender, held against the bodies that were recorded.

`BAYPLAN_RECORD=1` writes what it sends now to `tests/protocols/recorded`, byte for byte; that is how those files came
to be, and how they are renewed for a new release.
"""

from __future__ import annotations

import json
import os
import re
import ssl
from collections import Counter
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.real.api import ApiError, Json
from tests.real.control_plane import ControlPlane
from tests.real.processes import wait_for
from tests.real.stub_extender import Call, stub_extender

RECORDED = Path(__file__).resolve().parent.parent / "protocols" / "recorded"
LARGEST_RECORD = 20_000
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind", "preemptVerb": "preempt"}
BOTH_FORMS = pytest.mark.parametrize("names", [True, False], ids=["names", "nodes"])
# Go writes these three as \u escapes, and the rest of Unicode as it is, but for two separators.
AWKWARD = 'a < b & c > d, "quoted" \\ é 漢字 \U0001f6a2 \u2028 \ttab'


def outline(value: Any) -> Any:
    """What a body says in the protocol's own words: objects of Kubernetes count by their fields' names only."""
    if isinstance(value, dict) and "spec" in value:
        return sorted(value)
    if isinstance(value, dict):
        return {key: outline(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted((outline(one) for one in value), key=repr)
    return "uid" if isinstance(value, str) and UID.fullmatch(value) else value


def compare(name: str, call: Call) -> None:
    """Hold a call to the recorded one of that name, or record it."""
    path = RECORDED / f"{name}.json"
    if os.environ.get("BAYPLAN_RECORD"):
        assert len(call.raw) <= LARGEST_RECORD
        path.write_bytes(call.raw)
    assert outline(call.body) == outline(json.loads(path.read_bytes()))


@pytest.fixture
def berths(cluster: ControlPlane) -> ControlPlane:
    """Two nodes and a policy of power; what is in them is what is in the recorded bodies."""
    for name, watts in (("berth-1", "250"), ("berth-2", "900")):
        cluster.node(
            name,
            {"bayplan.dev/class": "quiet", "gpu.intel.com/cards": "card0.card1"},
            {"cpu": "4", "memory": "8148308Ki", "pods": "110", "gpu.intel.com/millicores": "2k", "hugepages-2Mi": "0"},
            annotations={"bayplan.dev/watts": watts, "bayplan.dev/note": AWKWARD},
            taints=[{"key": "card", "value": "yes", "effect": "NoSchedule"}],
        )
    return cluster


def pod(cluster: ControlPlane, name: str = "p", **spec: Any) -> Json:
    """A pod with something in many fields; it stands the nodes' taint."""
    resources = {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    cards = {"gpu.intel.com/millicores": "100"}
    spec.setdefault(
        "containers",
        [
            {"name": "main", "image": "registry.invalid/main:1", "resources": resources, "command": ["run", AWKWARD]},
            {"name": "card", "image": "registry.invalid/card", "resources": {"requests": cards, "limits": cards}},
        ],
    )
    spec.setdefault("initContainers", [{"name": "init", "image": "registry.invalid/init"}])
    tolerations = [{"key": "card", "operator": "Exists"}]
    annotations = {"gas-allow": "card0", "bayplan.dev/note": AWKWARD}
    labels = {"telemetry-policy": "power", "app": name}
    return cluster.pod(name, labels=labels, annotations=annotations, tolerations=tolerations, **spec)


def all_nodes(body: Json) -> Json:
    return {"Nodes": body["Nodes"], "NodeNames": body["NodeNames"]}


def prefer_the_first(body: Json) -> list[Json]:
    names = body["NodeNames"] or [node["metadata"]["name"] for node in body["Nodes"]["items"]]
    return [{"Host": name, "Score": 10 if name == "berth-1" else 0} for name in names]


@BOTH_FORMS
def test_filter_prioritize_and_bind(berths: ControlPlane, names: bool) -> None:
    def bind(body: Json) -> Json:
        berths.bind(body["PodName"], body["Node"], body["PodNamespace"], body["PodUID"])
        return {}

    with stub_extender({"filter": all_nodes, "prioritize": prefer_the_first, "bind": bind}) as stub:
        verbs = {name: verb for name, verb in VERBS.items() if verb != "preempt"}
        extender = {"urlPrefix": f"{stub.url}/scheduler", "weight": 1, "nodeCacheCapable": names, **verbs}
        with berths.start_scheduler([extender]):
            made = pod(berths)
            node = berths.node_of("p")
    form = "names" if names else "nodes"
    filter_, prioritize, bind_ = stub.calls
    compare(f"filter-{form}", filter_)
    compare(f"prioritize-{form}", prioritize)
    assert bind_.body == {"PodName": "p", "PodNamespace": "default", "PodUID": made["metadata"]["uid"], "Node": node}
    compare("bind", bind_)


@BOTH_FORMS
def test_the_form_of_a_request(berths: ControlPlane, names: bool) -> None:
    with stub_extender({"filter": all_nodes, "prioritize": prefer_the_first}) as stub:
        extender = {"urlPrefix": stub.url, "weight": 1, "nodeCacheCapable": names}
        with berths.start_scheduler([extender | {"filterVerb": "filter", "prioritizeVerb": "prioritize"}]):
            pod(berths)
            berths.node_of("p")
            berths.pod("q", tolerations=[{"operator": "Exists"}])
            berths.node_of("q")
    assert [call.verb for call in stub.calls] == ["filter", "prioritize"] * 2
    for call in stub.calls:
        headers = dict(call.headers)
        assert call.version == "HTTP/1.1"
        assert headers.pop("Host") == stub.url.removeprefix("http://")
        assert headers.pop("Content-Length") == str(len(call.raw))
        assert headers == {
            "User-Agent": "Go-http-client/1.1",
            "Content-Type": "application/json",
            "Accept-Encoding": "gzip",
        }
        assert list(call.body) == ["Pod", "Nodes", "NodeNames"]
        assert (call.body["Nodes"] is None) == names
        assert (call.body["NodeNames"] is None) != names
        # The kinds of objects are not sent; who manages their fields is left out of pods, but not of nodes.
        nodes = [] if names else call.body["Nodes"]["items"]
        for one in (call.body["Pod"], *nodes):
            assert not {"kind", "apiVersion"} & set(one)
        assert "managedFields" not in call.body["Pod"]["metadata"]
        assert all("managedFields" in one["metadata"] for one in nodes)
    note = stub.calls[0].body["Pod"]["metadata"]["annotations"]["bayplan.dev/note"]
    assert note == AWKWARD
    assert b"a \\u003c b \\u0026 c \\u003e d" in stub.calls[0].raw
    assert "漢字 \U0001f6a2 \\u2028".encode() in stub.calls[0].raw
    assert len(stub.peers) == 1, "one connection is kept for all requests that follow each other"


@BOTH_FORMS
def test_preempt(berths: ControlPlane, names: bool) -> None:
    berths.create(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000}
    )
    berths.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"keep": "yes"}}},
        }
    )
    residents = {}
    for node, labels in (("berth-1", {"keep": "yes"}), ("berth-2", {"keep": "no"})):
        residents[node] = berths.pod(
            f"resident-{node}", {"cpu": "3"}, labels=labels, nodeName=node, terminationGracePeriodSeconds=0
        )

    def take_the_guarded(body: Json) -> Json:
        return {"NodeNameToMetaVictims": {"berth-1": {"Pods": [{"UID": residents["berth-1"]["metadata"]["uid"]}]}}}

    with stub_extender({"filter": all_nodes, "preempt": take_the_guarded}) as stub:
        extender = {"urlPrefix": stub.url, "filterVerb": "filter", "preemptVerb": "preempt", "nodeCacheCapable": names}
        with berths.start_scheduler([extender]):
            pod(berths, priorityClassName="urgent")
            assert berths.node_of("p") == "berth-1"
    call = stub.of("preempt")[0]
    compare(f"preempt-{'names' if names else 'nodes'}", call)
    victims = call.body["NodeNameToMetaVictims" if names else "NodeNameToVictims"]
    assert call.body["NodeNameToVictims" if names else "NodeNameToMetaVictims"] is None
    assert {node: one["NumPDBViolations"] for node, one in victims.items()} == {"berth-1": 1, "berth-2": 0}
    sent = {
        node: [victim["UID"] if names else victim["metadata"]["uid"] for victim in one["Pods"]]
        for node, one in victims.items()
    }
    assert sent == {node: [resident["metadata"]["uid"]] for node, resident in residents.items()}
    assert berths.find("/api/v1/namespaces/default/pods/resident-berth-1") is None
    assert berths.find("/api/v1/namespaces/default/pods/resident-berth-2") is not None


def test_a_binding_for_another_pod_of_the_name_is_refused(berths: ControlPlane) -> None:
    pod(berths)
    with pytest.raises(ApiError) as refused:
        berths.bind("p", "berth-1", uid="11111111-1111-1111-1111-111111111111")
    assert refused.value.status == 409
    berths.bind("p", "berth-1")
    with pytest.raises(ApiError) as again:
        berths.bind("p", "berth-2")
    assert again.value.status == 409


def test_a_binding_that_fails_is_told_to_the_pod_and_tried_again(berths: ControlPlane) -> None:
    def bind(body: Json) -> Json:
        if len(stub.of("bind")) == 1:
            return {"Error": "card0: 100 millicores asked, 40 free"}
        berths.bind(body["PodName"], body["Node"], body["PodNamespace"], body["PodUID"])
        return {"Error": ""}

    with stub_extender({"bind": bind}) as stub:
        extender = {"urlPrefix": stub.url, "bindVerb": "bind", "nodeCacheCapable": True}
        with berths.start_scheduler([extender]):
            made = pod(berths)
            assert berths.node_of("p")
            failed = wait_for(
                "the failure is an event",
                lambda: [event for event in berths.events(made) if event["reason"] == "FailedScheduling"],
            )
    assert failed[0]["message"].endswith("card0: 100 millicores asked, 40 free")


def test_the_scheduler_shows_its_certificate(berths: ControlPlane, tmp_path: Path) -> None:
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED
    server.set_alpn_protocols(["http/1.1"])
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    client = authority.issue_cert("scheduler.invalid")
    client.private_key_pem.write_to_path(tmp_path / "client.key")
    client.cert_chain_pems[0].write_to_path(tmp_path / "client.crt")
    files = {"caFile": "ca.crt", "certFile": "client.crt", "keyFile": "client.key"}
    tls = {name: str(tmp_path / file) for name, file in files.items()}
    with stub_extender({"filter": all_nodes}, server) as stub:
        extender = {"urlPrefix": stub.url, "filterVerb": "filter", "enableHTTPS": True, "nodeCacheCapable": True}
        with berths.start_scheduler([extender | {"tlsConfig": tls}]):
            pod(berths)
            assert berths.node_of("p")
        assert [call.version for call in stub.calls] == ["HTTP/1.1"]


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        ({"Error": "no policy power"}, "SchedulerError", "no policy power"),
        (HTTPStatus.NOT_FOUND, "SchedulerError", "failed filter with extender at URL {url}/filter, code 404"),
        (
            {"NodeNames": ["nowhere"]},
            "SchedulerError",
            'extender "{url}" claims a filtered node "nowhere" which is not found in the input node list',
        ),
        ([], "SchedulerError", "json: cannot unmarshal array into Go value of type v1.ExtenderFilterResult"),
        # A node that is refused without being named is taken for one where preemption would not help.
        ({}, "Unschedulable", "0/2 nodes are available: 2 Preemption is not helpful for scheduling"),
    ],
    ids=["error", "status", "unknown node", "not an answer", "empty"],
)
def test_what_the_scheduler_says_to_odd_answers(
    berths: ControlPlane, answer: object, reason: str, message: str
) -> None:
    with stub_extender({"filter": lambda _: answer}) as stub:
        extender = {"urlPrefix": stub.url, "filterVerb": "filter", "nodeCacheCapable": True}
        with berths.start_scheduler([extender]):
            pod(berths)
            refusal = berths.refusal("p")
    assert refusal["reason"] == reason
    assert message.format(url=stub.url) in refusal["message"]


@pytest.mark.parametrize(
    "answer",
    [
        {"nodenames": ["berth-2"], "faileD_nodes": 1, "more": {}},
        {"NodeNames": ["berth-2"], "Nodes": {"items": []}, "FailedNodes": None, "Error": None},
        {"NodeNames": ["berth-2", "berth-2"], "FailedNodes": {"berth-2": "both kept and failed"}},
        {"Nodes": {"items": [{"metadata": {"name": "berth-2"}}]}, "FailedNodes": {}},
    ],
    ids=["any case, unknown fields", "nulls", "twice and failed", "nodes though names were sent"],
)
def test_what_else_the_scheduler_takes(berths: ControlPlane, answer: Json) -> None:
    with stub_extender({"filter": lambda _: answer}) as stub:
        extender = {"urlPrefix": stub.url, "filterVerb": "filter", "nodeCacheCapable": True}
        with berths.start_scheduler([extender]):
            pod(berths)
            assert berths.node_of("p") == "berth-2"


def test_scores_are_neither_held_to_ten_nor_must_they_be_right(berths: ControlPlane) -> None:
    answers = iter(
        [
            HTTPStatus.INTERNAL_SERVER_ERROR,
            [{"Host": "nowhere", "Score": 5}],
            [{"Host": "berth-1", "Score": -1000}, {"Host": "berth-2", "Score": 0}],
            [{"Host": "berth-1", "Score": 1000}, {"Host": "berth-2", "Score": 10}],
        ]
    )
    with stub_extender({"prioritize": lambda _: next(answers)}) as stub:
        extender = {"urlPrefix": stub.url, "prioritizeVerb": "prioritize", "weight": 1, "nodeCacheCapable": True}
        with berths.start_scheduler([extender]):
            placed = []
            for name in ("failed", "unknown", "negative", "large"):
                berths.pod(name, tolerations=[{"operator": "Exists"}])
                placed.append(berths.node_of(name))
    assert placed[2:] == ["berth-2", "berth-1"]


def test_a_refused_pod_is_sent_twice_and_then_only_when_a_node_changes(berths: ControlPlane) -> None:
    # The second time is the scheduler's own doing: it writes why into the pod, and a pod that changed is tried again.
    def sent() -> Counter[str]:
        return Counter(call.body["Pod"]["metadata"]["name"] for call in list(stub.calls))

    def refuse(body: Json) -> Json:
        return {"NodeNames": [], "FailedNodes": dict.fromkeys(body["NodeNames"], "power is high")}

    def sent_twice(name: str) -> bool:
        return sent()[name] >= 2

    names = ["p", "later-0", "later-1", "later-2"]
    with stub_extender({"filter": refuse}) as stub:
        extender = {"urlPrefix": stub.url, "filterVerb": "filter", "nodeCacheCapable": True}
        with berths.start_scheduler([extender]):
            berths.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}})
            for name in names:
                pod(berths, name)
                wait_for(f"{name} is sent twice", partial(sent_twice, name))
            assert sent() == dict.fromkeys(names, 2)
            berths.patch("/api/v1/nodes/berth-1", {"metadata": {"annotations": {"bayplan.dev/woken": "1"}}})
            wait_for("all are sent again", lambda: sent().total() >= 12)
            assert sent() == dict.fromkeys(names, 3)


def test_a_reason_that_changes_has_its_pod_tried_without_rest(berths: ControlPlane) -> None:
    # Each new text is written into the pod, which wakes it, and an idle scheduler takes pods before their backoff ends.
    # So a reason must say the same as long as the matter is the same: no age in it, and no measured value.
    def refuse(body: Json) -> Json:
        return {"NodeNames": [], "FailedNodes": dict.fromkeys(body["NodeNames"], f"{400 + len(stub.calls)} W > 400 W")}

    with stub_extender({"filter": refuse}) as stub:
        extender = {"urlPrefix": stub.url, "filterVerb": "filter", "nodeCacheCapable": True}
        with berths.start_scheduler([extender], podInitialBackoffSeconds=60, podMaxBackoffSeconds=60):
            pod(berths)
            wait_for("the pod is sent ten times", lambda: len(stub.calls) >= 10, seconds=30)
