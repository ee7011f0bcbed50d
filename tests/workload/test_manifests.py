"""Manifests in, pods out: what the API server would store, and what it would refuse."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.workload.documents import Document, read_documents
from bayplan.workload.manifests import Workload, read
from bayplan.workload.model import Pod, PodResources, Preference, Selector, Toleration

GIB = 2**30


def workload(text: str) -> Workload:
    return read(read_documents(text, "pods.yaml"))


def of(*objects: Any) -> Workload:
    return read(Document("pods.yaml", i, value) for i, value in enumerate(objects, 1))


def refused(*objects: Any) -> str:
    with pytest.raises(InputError) as caught:
        of(*objects)
    assert caught.value.source == "pods.yaml"
    return str(caught.value)


def pod(name: str = "a", *, metadata: Any = None, status: Any = None, **spec: Any) -> dict[str, Any]:
    spec.setdefault("containers", [{"name": "main"}])
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(metadata or {})}, "spec": spec}
    return value | ({"status": status} if status else {})


def with_resources(requests: Any = None, limits: Any = None) -> dict[str, Any]:
    return pod(containers=[{"name": "main", "resources": {"requests": requests, "limits": limits}}])


def controller(kind: str, name: str = "web", api: str = "apps/v1", **spec: Any) -> dict[str, Any]:
    spec.setdefault("template", {"metadata": {"labels": {"app": name}}, "spec": pod()["spec"]})
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


def only(read_workload: Workload) -> Pod:
    (single,) = read_workload.pods
    return single


def notes(read_workload: Workload) -> list[str]:
    return [str(note) for note in read_workload.notes]


def test_a_pod_as_a_person_writes_it() -> None:
    read_pod = only(
        workload("""
apiVersion: v1
kind: Pod
metadata:
  name: db
  namespace: prod
  labels: {app: db}
spec:
  priority: 7
  nodeName: node-a
  nodeSelector: {disk: ssd}
  containers:
  - name: main
    image: postgres
    resources:
      requests: {cpu: 1500m, memory: 1.5Gi}
      limits: {cpu: 2, memory: 2Gi, hugepages-2Mi: 4Mi, example.com/gpu: 2, ephemeral-storage: 1Gi}
""")
    )
    (main,) = read_pod.containers
    assert (read_pod.full_name, read_pod.uid, read_pod.source) == ("prod/db", "prod/db", "pods.yaml: document 1")
    assert (read_pod.labels, read_pod.priority, read_pod.node_name) == ({"app": "db"}, 7, "node-a")
    assert read_pod.node_selector == {"disk": "ssd"}
    assert (main.cpu_milli, main.cpu_limit_milli) == (1500, 2000)
    assert (main.memory_bytes, main.memory_limit_bytes) == (3 * GIB // 2, 2 * GIB)
    assert (main.hugepages, main.devices, main.ephemeral_bytes) == ({2**21: 2**22}, {"example.com/gpu": 2}, GIB)
    assert read_pod.qos == "Burstable"
    assert not read_pod.every_node


def test_a_limit_without_a_request_is_a_request_too() -> None:
    guaranteed = only(of(with_resources(limits={"cpu": "2", "memory": "1Gi"})))
    assert guaranteed.containers[0].cpu_milli == 2000
    assert guaranteed.containers[0].memory_bytes == GIB
    assert guaranteed.qos == "Guaranteed"
    mixed = only(of(with_resources({"cpu": 0}, {"cpu": "2"}))).containers[0]
    assert (mixed.cpu_milli, mixed.cpu_limit_milli) == (0, 2000)
    assert only(of(pod())).qos == "BestEffort"


def test_amounts_are_rounded_up_as_kubernetes_rounds() -> None:
    main = only(of(with_resources({"cpu": "0.0001", "memory": "100m"}))).containers[0]
    assert (main.cpu_milli, main.memory_bytes) == (1, 1)


@pytest.mark.parametrize(
    ("requests", "limits", "said"),
    [
        ({"cpu": "2"}, {"cpu": "1"}, "resources.requests.cpu: request is above the limit: '2' (expected the limit, 1)"),
        ({"memory": "1001m"}, {"memory": "1"}, "request is above the limit"),
        ({"cpu": "-1"}, None, "resources.requests.cpu: negative quantity: '-1'"),
        (None, {"cpu": "abc"}, "resources.limits.cpu: not a quantity: 'abc'"),
        (None, {"cpu": None}, "resources.limits.cpu: not a quantity"),
        (None, {"cpu": float("nan")}, "not a quantity: nan"),
        (None, {"cpu": float("inf")}, "not a quantity: inf"),
        (None, {"cpu": True}, "not a quantity: True"),
        (None, {"cpu": {}}, "resources.limits.cpu: not a quantity"),
        (None, {"cpu": 10**18}, "quantity too large"),
        (None, {"memory": "9E"}, None),
        (None, {"memory": "10E"}, "quantity too large"),
        ({"a.b/gpu": 1}, None, "resources.requests[a.b/gpu]: a.b/gpu needs a limit"),
        ({"a.b/gpu": 1}, {"a.b/gpu": 2}, "request and limit of a.b/gpu must be equal"),
        (None, {"a.b/gpu": "500m"}, "resources.limits[a.b/gpu]: a.b/gpu is handed out in whole pieces: '500m'"),
        (None, {"gpu": 1}, "resources.limits.gpu: not a resource that a container can ask for"),
        (None, {"requests.a.b/gpu": 1}, "not a valid resource name"),
        (None, {"a_b/gpu": 1}, "not a valid resource name"),
        (None, {"hugepages-2Mi": "3Mi", "cpu": 1}, "not a whole number of pages: '3Mi' (expected a multiple of 2Mi)"),
        (None, {"hugepages-2Mi": "4Mi"}, "resources: huge pages need cpu or memory beside them"),
        ({"hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "4Mi", "cpu": 1}, "request and limit of hugepages-2Mi must be eq"),
        ({"hugepages-2Mi": "2Mi", "cpu": 1}, None, "hugepages-2Mi needs a limit"),
        (None, {"hugepages-x": "4Mi", "cpu": 1}, "not a huge page size"),
        (None, {"hugepages-0": "4Mi", "cpu": 1}, "not a huge page size"),
        (None, {"hugepages-2Mi": "2Mi", "hugepages-2048Ki": "2Mi", "cpu": 1}, "one huge page size under two names"),
        ([], None, "resources.requests: is a list (expected a mapping)"),
    ],
)
def test_resources_that_the_api_server_refuses(requests: Any, limits: Any, said: str | None) -> None:
    manifest = with_resources(requests, limits)
    if said is None:
        assert of(manifest).pods
        return
    message = refused(manifest)
    assert message.startswith("pods.yaml: document 1 (Pod default/a): spec.containers[0].resources")
    assert said in message


def test_init_containers_and_sidecars() -> None:
    read_pod = only(
        of(
            pod(
                initContainers=[
                    {"name": "setup", "resources": {"limits": {"cpu": 1}}},
                    {"name": "proxy", "restartPolicy": "Always"},
                ],
                ephemeralContainers=[{"name": "debug"}],
            )
        )
    )
    assert [(c.name, c.init, c.restartable) for c in read_pod.all_containers] == [
        ("setup", True, False),
        ("proxy", True, True),
        ("main", False, False),
    ]


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (pod(containers=[]), "spec.containers: missing (expected at least one container)"),
        (pod(containers=None), "spec.containers: missing"),
        (pod(containers={}), "spec.containers: is a mapping (expected a list)"),
        (pod(containers=["x"]), "spec.containers[0]: is text: 'x' (expected a mapping)"),
        (pod(containers=[{"image": "x"}]), "spec.containers[0].name: missing"),
        (pod(containers=[{"name": "A b"}]), "spec.containers[0].name: not a valid name: 'A b'"),
        (pod(containers=[{"name": 7}]), "spec.containers[0].name: is a number: 7 (expected text; use quotes)"),
        (pod(containers=[{"name": "x"}, {"name": "x"}]), "spec.containers[1].name: another container has this name"),
        (pod(initContainers=[{"name": "main"}]), "spec.containers[0].name: another container has this name"),
        (pod(metadata={"labels": {"a": 1}}), "metadata.labels.a: is a number: 1"),
        (pod(metadata={"namespace": "a.b"}), "metadata.namespace: not a valid name"),
        (pod("UP"), "metadata.name: not a valid name: 'UP'"),
        (pod("a" * 254), "metadata.name: not a valid name"),
        (pod(metadata={"name": None}), "metadata.name: missing"),
        (pod(priority="high"), "spec.priority: is text: 'high' (expected a whole number)"),
        (pod(priority=2**31), "spec.priority: out of range"),
        (pod(nodeSelector={"a b": "c"}), "spec.nodeSelector: not a valid key: 'a b'"),
        (pod(nodeSelector={"a": "c d"}), "spec.nodeSelector.a: not a valid label value"),
        (pod(overhead={"cpu": "x"}), "spec.overhead.cpu: not a quantity"),
        (pod(tolerations=[{"operator": "Equal"}]), "spec.tolerations[0].operator: no key"),
        (pod(tolerations=[{"key": "a", "operator": "Gt", "value": "1"}]), "operator: unknown operator: 'Gt'"),
        (pod(tolerations=[{"operator": "Exists", "value": "x"}]), "tolerations[0].value: a value beside"),
        (pod(tolerations=[{"operator": "Exists", "effect": "No"}]), "tolerations[0].effect: unknown effect: 'No'"),
        ([], "is a list (expected a Kubernetes object"),
        ("text", "is text: 'text'"),
        ({"kind": "Pod"}, "document 1: apiVersion: missing"),
        ({"apiVersion": "v1"}, "document 1: kind: missing"),
        (controller("Deployment", replicas=-1), "spec.replicas: out of range: -1"),
        (controller("Deployment", replicas="3"), "spec.replicas: is text: '3' (expected a whole number)"),
        (controller("Deployment", replicas=2_000_000_000), "spec.replicas: too many pods"),
        (controller("Deployment", template=None), "spec.template: missing"),
        (controller("Job", api="batch/v1", template={"spec": None}), "spec.template.spec: missing"),
        (controller("CronJob", api="batch/v1"), "spec.jobTemplate: missing"),
    ],
)
def test_manifests_that_the_api_server_refuses(manifest: Any, said: str) -> None:
    assert said in refused(manifest)


def test_errors_name_file_document_object_and_field() -> None:
    good = pod()
    database = with_resources(limits={"cpu": "1x"}) | {"metadata": {"name": "db", "namespace": "prod"}}
    bad = {"apiVersion": "v1", "kind": "List", "items": [pod("b"), database]}
    assert refused(good, bad) == (
        "pods.yaml: document 2, items[1] (Pod prod/db): spec.containers[0].resources.limits.cpu: "
        "not a quantity: '1x' (expected like 500m, 2 or 1Gi)"
    )


def test_overhead_and_priority_classes() -> None:
    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 1000}
    usual = gold | {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True}
    read_workload = of(
        pod("a", priorityClassName="gold"),
        pod("b", priorityClassName="system-node-critical"),
        pod("c", priorityClassName="unknown"),
        pod("d", overhead={"cpu": "250m", "memory": "120Mi"}),
        gold,
        usual,
    )
    assert [p.priority for p in read_workload.pods] == [1000, 2_000_001_000, 0, 5]
    assert (read_workload.pods[3].overhead_cpu_milli, read_workload.pods[3].overhead_memory_bytes) == (250, 120 * 2**20)
    assert any("priority class unknown" in note for note in notes(read_workload))


def test_pod_level_resources_are_defaulted_from_the_containers_and_the_limits() -> None:
    containers = [
        {"name": "a", "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}},
        {"name": "b", "resources": {"requests": {"cpu": "250m"}}},
    ]
    setup = [{"name": "s", "resources": {"requests": {"cpu": "900m"}}}]
    read_pod = only(of(pod(containers=containers, resources={"limits": {"cpu": 2, "memory": "2Gi"}})))
    assert read_pod.resources == PodResources(
        cpu_milli=750, cpu_limit_milli=2000, memory_bytes=2 * GIB, memory_limit_bytes=2 * GIB
    )
    larger = only(of(pod(containers=containers, initContainers=setup, resources={"limits": {"cpu": 2}})))
    assert larger.resources == PodResources(cpu_milli=900, cpu_limit_milli=2000)
    assert only(of(pod(resources={}))).resources is None
    requests_only = only(of(pod(resources={"requests": {"memory": "1Gi"}})))
    assert requests_only.resources == PodResources(memory_bytes=GIB)
    pages = [{"name": "a", "resources": {"limits": {"cpu": 1, "hugepages-2Mi": "4Mi"}}}]
    assert only(of(pod(containers=pages, resources={"limits": {"cpu": 1}}))).resources == PodResources(
        cpu_milli=1000, cpu_limit_milli=1000, hugepages={2**21: 2**22}
    )
    only_pages = only(of(pod(containers=pages, resources={"limits": {"hugepages-2Mi": "8Mi"}})))
    assert only_pages.resources == PodResources(cpu_milli=1000, hugepages={2**21: 2**23})
    assert "huge pages need cpu or memory" in refused(pod(resources={"limits": {"hugepages-2Mi": "8Mi"}}))


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ({"requests": {"cpu": "100m"}}, "spec.resources.requests.cpu: its containers request more together"),
        ({"limits": {"cpu": "500m"}}, "spec.resources.limits.cpu"),
        ({"limits": {"a.b/gpu": 1}}, "not a resource of a pod as a whole"),
        ({"requests": {"cpu": 3}, "limits": {"cpu": 2}}, "request is above the limit"),
        ({"limits": {"cpu": 2}, "claims": [{"name": "x"}]}, "spec.resources.claims"),
    ],
)
def test_pod_level_resources_must_hold_what_the_containers_ask(resources: Any, said: str) -> None:
    containers = [{"name": "a", "resources": {"limits": {"cpu": "1"}}}]
    assert said in refused(pod(containers=containers, resources=resources))


def test_sidecars_count_beside_the_init_containers_after_them() -> None:
    init = [
        {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}},
        {"name": "setup", "resources": {"requests": {"cpu": "900m"}}},
    ]
    containers = [{"name": "a", "resources": {"requests": {"cpu": "300m"}}}]
    read_pod = only(of(pod(containers=containers, initContainers=init, resources={"limits": {"cpu": 2}})))
    assert read_pod.resources is not None
    assert read_pod.resources.cpu_milli == 1100


def test_node_affinity() -> None:
    required = {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["a", "b"]},
                    {"key": "cores", "operator": "Gt", "values": ["8"]},
                    {"key": "old", "operator": "DoesNotExist"},
                ],
                "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-a"]}],
            },
            {},
        ]
    }
    preferred = [
        {"weight": 5, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}},
        {"weight": 1, "preference": {}},
    ]
    node = {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    read_pod = only(of(pod(affinity={"nodeAffinity": node})))
    assert read_pod.node_terms == (
        (
            Selector(key="zone", operator="In", values=("a", "b")),
            Selector(key="cores", operator="Gt", values=("8",)),
            Selector(key="old", operator="DoesNotExist"),
            Selector(key="metadata.name", operator="NotIn", values=("node-a",), field=True),
        ),
    )
    assert read_pod.node_preferences == (Preference(weight=5, requirements=(Selector(key="ssd", operator="Exists"),)),)
    assert only(of(pod())).node_terms is None


def test_an_empty_term_matches_no_node() -> None:
    affinity: Any = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}
    assert only(of(pod(affinity=affinity))).node_terms == ()


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ({"key": "a", "operator": "In"}, "values: 0 values for In (expected at least one)"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "values: 1 values for Exists (expected none)"),
        ({"key": "a", "operator": "Gt", "values": ["1", "2"]}, "expected exactly one"),
        ({"key": "a", "operator": "in", "values": ["1"]}, "operator: unknown operator: 'in'"),
        ({"key": "a", "operator": "In", "values": [1]}, "values[0]: is a number: 1 (expected text; use quotes)"),
        ({"operator": "Exists"}, "key: missing"),
    ],
)
def test_bad_selector_requirements(expression: Any, said: str) -> None:
    term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    message = refused(pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}))
    assert "nodeSelectorTerms[0].matchExpressions[0]." in message
    assert said in message


def test_tolerations() -> None:
    read_pod = only(
        of(pod(tolerations=[{"operator": "Exists"}, {"key": "gpu", "value": "yes", "effect": "NoSchedule"}]))
    )
    assert read_pod.tolerations == (
        Toleration(operator="Exists"),
        Toleration(key="gpu", operator="Equal", value="yes", effect="NoSchedule"),
    )


def test_controllers_become_their_pods() -> None:
    job = {"api": "batch/v1"}
    read_workload = of(
        controller("Deployment", "web", replicas=2),
        controller("StatefulSet", "db", replicas=2, ordinals={"start": 5}),
        controller("ReplicaSet", "rs"),
        controller("ReplicationController", "rc", "v1", replicas=0),
        controller("Job", "job", **job, parallelism=4, completions=2),
        controller("Job", "queue", **job, parallelism=2),
        controller("CronJob", "cron", **job, jobTemplate={"spec": {"template": {"spec": pod()["spec"]}}}),
        controller("DaemonSet", "agent"),
    )
    names = "web-0 web-1 db-5 db-6 rs-0 job-0 job-1 queue-0 queue-1 cron-0 agent"
    assert [p.name for p in read_workload.pods] == names.split()
    assert {p.uid for p in read_workload.pods} == {f"default/{name}" for name in names.split()}
    assert read_workload.pods[0].owner == "Deployment/web"
    assert read_workload.pods[0].labels == {"app": "web"}
    assert [p.name for p in read_workload.pods if p.every_node] == ["agent"]


def test_copies_share_their_requests() -> None:
    first, second = of(controller("Deployment", replicas=2)).pods
    assert first.containers is second.containers


def test_a_daemon_set_tolerates_what_its_controller_adds() -> None:
    agent = only(of(controller("DaemonSet")))
    unschedulable = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule")
    assert unschedulable in agent.tolerations
    host = only(of(controller("DaemonSet", template={"spec": pod(hostNetwork=True)["spec"]})))
    assert any(t.key == "node.kubernetes.io/network-unavailable" for t in host.tolerations)


def test_what_has_ended_or_is_suspended_makes_no_pods() -> None:
    over = controller("Job", "over", "batch/v1") | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    read_workload = of(
        pod("a", status={"phase": "Succeeded"}),
        pod("b", status={"phase": "Failed"}),
        pod("c", status={"phase": "Running"}),
        over,
        controller("Job", "later", "batch/v1", suspend=True),
    )
    assert [p.name for p in read_workload.pods] == ["c"]
    assert "pods.yaml: document 1 (Pod default/a): a pod that has ended is skipped (and 1 more like it)" in notes(
        read_workload
    )
    assert {note.name for note in read_workload.notes} == {"finished", "suspended"}


def owned(value: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "1", "controller": True}
    return value | {"metadata": {**value["metadata"], "ownerReferences": [reference]}}


def test_in_a_dump_of_a_cluster_no_pod_counts_twice() -> None:
    read_workload = of(
        controller("Deployment", "web", replicas=3),
        owned(controller("ReplicaSet", "web-1", replicas=3), "Deployment", "web"),
        owned(pod("web-1-x"), "ReplicaSet", "web-1"),
        owned(pod("web-1-y"), "ReplicaSet", "web-1"),
        controller("Deployment", "new", replicas=1),
        owned(controller("ReplicaSet", "new-1", replicas=1), "Deployment", "new"),
        owned(pod("orphan"), "ReplicaSet", "not-given"),
    )
    assert [p.name for p in read_workload.pods] == ["web-1-x", "web-1-y", "new-0", "orphan"]
    assert read_workload.pods[0].owner == "ReplicaSet/web-1"


def test_owners_in_a_circle_do_not_hang() -> None:
    one = owned(controller("Deployment", "a"), "ReplicaSet", "b")
    two = owned(controller("ReplicaSet", "b"), "Deployment", "a")
    assert [p.name for p in of(one, two, owned(pod("p"), "Deployment", "a")).pods] == ["p"]


def test_names_that_are_taken_get_the_kind() -> None:
    read_workload = of(
        controller("Deployment", "web", replicas=2), controller("StatefulSet", "web"), controller("DaemonSet", "web")
    )
    assert [p.name for p in read_workload.pods] == ["web-deployment-0", "web-deployment-1", "web-0", "web"]


def test_generated_names() -> None:
    generated = pod(metadata={"name": None, "generateName": "run-"})
    assert [p.name for p in of(generated).pods] == ["run-0"]
    assert len({p.name for p in of(generated, copy.deepcopy(generated)).pods}) == 2


def test_the_same_object_twice_is_an_error() -> None:
    assert (
        refused(pod(), pod())
        == "pods.yaml: document 2 (Pod default/a): given twice (expected one; it is in document 1 too)"
    )
    with pytest.raises(InputError, match=r"it is in a\.yaml: document 1 too"):
        read([Document("a.yaml", 1, pod()), Document("b.yaml", 1, pod())])
    assert "pod default/web-0 is there twice" in refused_anywhere(pod("web-0"), controller("StatefulSet", "web"))
    assert "have one uid" in refused_anywhere(pod("a", metadata={"uid": "1"}), pod("b", metadata={"uid": "1"}))
    assert len(of(pod(), pod(metadata={"namespace": "other"})).pods) == 2


def refused_anywhere(*objects: Any) -> str:
    with pytest.raises(InputError) as caught:
        of(*objects)
    return str(caught.value)


def test_lists_of_any_kind() -> None:
    bare = {k: v for k, v in pod("b").items() if k not in ("kind", "apiVersion")}
    read_workload = of(
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": [pod(), {"apiVersion": "v1", "kind": "List", "items": [pod("x")]}],
        },
        {"apiVersion": "v1", "kind": "PodList", "items": [bare]},
        {"apiVersion": "v1", "kind": "ServiceList", "items": [{"metadata": {"name": "s"}}]},
        {"apiVersion": "v1", "kind": "List", "items": None},
    )
    assert [p.name for p in read_workload.pods] == ["a", "x", "b"]
    deep: Any = pod()
    for _ in range(9):
        deep = {"apiVersion": "v1", "kind": "List", "items": [deep]}
    assert "lists within lists" in refused(deep)
    assert "document 1: items: is a mapping (expected a list)" in refused(
        {"apiVersion": "v1", "kind": "List", "items": {}}
    )
    assert "document 1, items[0]: is text" in refused({"apiVersion": "v1", "kind": "List", "items": ["x"]})


def test_kinds_that_make_no_pods_are_noted_once() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    other_job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}}
    assert notes(of(service, service, other_job, {"apiVersion": "v1", "kind": "\x1b[31m"})) == [
        "pods.yaml: document 1 (Service default/s): Service makes no pods and is skipped (and 1 more like it)",
        "pods.yaml: document 3 (Job default/j): Job (batch.volcano.sh) makes no pods and is skipped",
        "pods.yaml: document 4 (?[31m): ?[31m makes no pods and is skipped",
    ]


def test_a_custom_kind_that_only_sounds_like_a_list_is_skipped_whole() -> None:
    allow = {"apiVersion": "example.com/v1", "kind": "AllowList", "metadata": {"name": "a"}, "items": ["x"]}
    assert notes(of(allow)) == [
        "pods.yaml: document 1 (AllowList default/a): AllowList (example.com) makes no pods and is skipped"
    ]


def test_what_notes_quote_is_cut_and_made_printable() -> None:
    (note,) = of(pod(priorityClassName="\x1b[31m" + "x" * 10_000)).notes
    assert str(note).isprintable()
    assert len(str(note)) < 500


def test_misspelt_fields_are_noted_with_the_nearest_name() -> None:
    read_workload = of(
        pod(containers=[{"name": "main", "resource": {}}]),
        pod("b", containers=[{"name": "main", "resources": {"request": {"cpu": 1}}}], nodeselector={}),
        controller("Deployment", replica=3),
    )
    said = " ".join(notes(read_workload))
    assert "unknown field resource in a container is ignored; did you mean resources?" in said
    assert "unknown field request in resources is ignored; did you mean requests?" in said
    assert "unknown field nodeselector in a pod's spec is ignored; did you mean nodeSelector?" in said
    assert "unknown field replica in a Deployment's spec is ignored; did you mean replicas?" in said


def test_ten_thousand_unknown_fields_are_bounded() -> None:
    many: dict[str, Any] = {f"x{i}": 1 for i in range(10_000)}
    noted = of(pod("a", **many)).notes
    assert len(noted) < 1000
    assert "more notes are left out" in str(noted[-1])


def test_what_is_not_considered_is_said() -> None:
    said = " ".join(
        notes(
            of(
                pod(
                    affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}},
                    topologySpreadConstraints=[{"maxSkew": 1}],
                    resourceClaims=[{"name": "x"}],
                    schedulingGates=[{"name": "x"}],
                    schedulerName="mine",
                    runtimeClassName="kata",
                    volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
                    containers=[
                        {"name": "c", "ports": [{"hostPort": 80}], "resources": {"claims": [{"name": "x"}]}},
                    ],
                )
            )
        )
    )
    for words in (
        "podAffinity is",
        "topologySpreadConstraints is",
        "resourceClaims is",
        "schedulingGates is",
        "scheduler mine",
        "host ports",
        "resource claims",
        "persistent volumes",
        "runtime class kata",
    ):
        assert words in said


KUBECTL = """
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: |
        {"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}
    creationTimestamp: "2025-03-01T10:00:00Z"
    managedFields:
    - apiVersion: v1
      fieldsType: FieldsV1
      fieldsV1: {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}
      manager: kubectl
      operation: Update
      time: "2025-03-01T10:00:00Z"
    name: web
    namespace: default
    resourceVersion: "1234"
    uid: 0f6ccd2f-7a5b-4f0b-9d1e-2c8a0f6ccd2f
  spec:
    containers:
    - image: nginx
      imagePullPolicy: Always
      name: web
      resources: {}
      terminationMessagePath: /dev/termination-log
      terminationMessagePolicy: File
      volumeMounts:
      - {mountPath: /var/run/secrets/kubernetes.io/serviceaccount, name: kube-api-access, readOnly: true}
    dnsPolicy: ClusterFirst
    enableServiceLinks: true
    nodeName: node-a
    preemptionPolicy: PreemptLowerPriority
    priority: 0
    restartPolicy: Always
    schedulerName: default-scheduler
    securityContext: {}
    serviceAccountName: default
    terminationGracePeriodSeconds: 30
    tolerations:
    - {effect: NoExecute, key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 300}
    volumes:
    - name: kube-api-access
      projected: {defaultMode: 420}
  status: {phase: Running, qosClass: BestEffort}
kind: List
metadata:
  resourceVersion: ""
"""


def test_what_kubectl_prints() -> None:
    read_workload = workload(KUBECTL)
    assert only(read_workload).uid == "0f6ccd2f-7a5b-4f0b-9d1e-2c8a0f6ccd2f"
    assert read_workload.notes == ()


# Fuzzing: any value in any position, and valid manifests with one thing changed, are read or refused, never worse.

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["Pod", "List", "v1", "1Gi", "500m", "a", "cpu", "In", "Always", 10**40, -1]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "kind", "items", "cpu", "limits", "spec", "a.b/c", "hugepages-2Mi"]) | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)

FULL: list[dict[str, Any]] = [
    pod(
        metadata={"namespace": "ns", "labels": {"a": "b"}, "annotations": {"c": "d"}, "uid": "u"},
        status={"phase": "Running"},
        initContainers=[{"name": "s", "restartPolicy": "Always", "resources": {"limits": {"cpu": 1}}}],
        containers=[
            {
                "name": "main",
                "ports": [{"hostPort": 80}],
                "resources": {
                    "requests": {"cpu": "1", "memory": "1Gi"},
                    "limits": {"cpu": 2, "memory": "2Gi", "hugepages-2Mi": "4Mi", "a.b/gpu": 1},
                },
            }
        ],
        resources={"requests": {"cpu": 3}, "limits": {"cpu": 4, "memory": "4Gi"}},
        overhead={"cpu": "1m"},
        nodeSelector={"a": "b"},
        priority=3,
        tolerations=[{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
                            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}],
                        }
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                ],
            }
        },
    ),
    owned(controller("StatefulSet", "set", replicas=2, ordinals={"start": 1}), "Mine", "x"),
    controller("Job", "job", "batch/v1", parallelism=2, completions=1, suspend=False),
    controller("CronJob", "c", "batch/v1", jobTemplate={"spec": {"template": {"spec": pod()["spec"]}}}),
    {"apiVersion": "v1", "kind": "List", "items": [pod("p", metadata={"namespace": "ns"})]},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "g"}, "value": 1},
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in inner for place in places(child, (*path, key)))]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    value = copy.copy(value)
    value[path[0]] = changed(value[path[0]], path[1:], new)
    return value


def read_or_refuse(*objects: Any) -> None:
    try:
        result = of(*objects)
    except InputError as error:
        assert str(error)  # noqa: PT017
        assert len(str(error)) < 2000  # noqa: PT017
    else:
        assert len({p.full_name for p in result.pods}) == len(result.pods)
        assert all(c.cpu_milli >= 0 and c.memory_bytes >= 0 for p in result.pods for c in p.all_containers)
        assert all(str(note) for note in result.notes)


@given(st.integers(0, len(KUBECTL)), st.integers(0, len(KUBECTL)), st.text(max_size=3))
@settings(max_examples=300, deadline=None)
def test_a_text_that_is_cut_or_damaged_is_read_or_refused(start: int, end: int, put: str) -> None:
    for text in (KUBECTL[:start], KUBECTL[: min(start, end)] + put + KUBECTL[max(start, end) :]):
        try:
            workload(text)
        except InputError as error:
            assert str(error).startswith("pods.yaml: ")  # noqa: PT017


def test_the_manifests_to_be_changed_are_valid() -> None:
    assert len(of(*FULL).pods) == 6


@given(st.lists(VALUES, max_size=3))
@settings(deadline=None)
def test_any_documents_are_read_or_refused(objects: list[Any]) -> None:
    read_or_refuse(*objects)


@given(st.sampled_from([(i, place) for i, value in enumerate(FULL) for place in places(value)]), VALUES)
@settings(max_examples=400, deadline=None)
def test_any_value_in_any_place_is_read_or_refused(where: tuple[int, tuple[Any, ...]], new: Any) -> None:
    index, place = where
    read_or_refuse(*FULL[:index], changed(FULL[index], place, new), *FULL[index + 1 :])


@pytest.mark.long
@given(
    st.sampled_from([(i, place) for i, value in enumerate(FULL) for place in places(value)]),
    st.sampled_from([(i, place) for i, value in enumerate(FULL) for place in places(value)]),
    VALUES,
    VALUES,
)
@settings(max_examples=20_000, deadline=None)
def test_any_two_values_in_any_places(
    first: tuple[int, tuple[Any, ...]], second: tuple[int, tuple[Any, ...]], one: Any, two: Any
) -> None:
    objects: list[Any] = list(FULL)
    objects[first[0]] = changed(objects[first[0]], first[1], one)
    if second[0] != first[0]:
        objects[second[0]] = changed(objects[second[0]], second[1], two)
    read_or_refuse(*objects)
