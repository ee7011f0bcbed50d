"""The cluster file and real Node objects: nodes in, errors that name the field."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.fleet.cluster_file import InlineConfiguration, NodeSpec, read_cluster
from bayplan.fleet.node_fields import Taint
from bayplan.idset import NodeSet
from bayplan.resources.devices import DeviceUnit
from bayplan.workload.documents import Document, read_documents

PRESET = "preset:dgx-h100"


def of(*objects: Any, default_machine: str = "") -> tuple[NodeSpec, ...]:
    return read_cluster((Document("c.yaml", i, value) for i, value in enumerate(objects, 1)), default_machine)


def cluster(*nodes: Any, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "bayplan.dev/v1alpha1", "kind": "Cluster", "nodes": list(nodes), **fields}


def entry(**fields: Any) -> dict[str, Any]:
    return {"name": "a", "machine": PRESET, **fields}


def real(name: str = "n", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}


def refused(*objects: Any) -> str:
    with pytest.raises(InputError) as caught:
        of(*objects)
    message = str(caught.value)
    assert message.startswith("c.yaml: ")
    return message


def test_a_cluster_file_with_everything() -> None:
    text = """
apiVersion: bayplan.dev/v1alpha1
kind: Cluster
defaultMachine: preset:usual
nodes:
- name: node-a
  machine: captures/big.tar.gz
  labels: {zone: a, example.com/kind: big, kubernetes.io/os: other}
  taints: [{key: gpu, value: "yes", effect: NoSchedule}, {key: gpu, effect: NoExecute}]
  kubeletConfig: kubelet.yaml
  policy: kubelet
  mode: exact
  unschedulable: true
  devices:
    nvidia.com/gpu: [{id: gpu-0, numaNodes: [0]}, {id: gpu-1, numaNodes: [0, 1], healthy: false}, {id: x}]
  allocatable: {cpu: 90, memory: 700Gi, nvidia.com/gpu: "2"}
- name: small
  count: 2
  kubeletConfig: {cpuManagerPolicy: static}
"""
    big, first, second = read_cluster(read_documents(text, "c.yaml"))
    assert big == NodeSpec(
        name="node-a",
        machine="captures/big.tar.gz",
        labels={
            "kubernetes.io/hostname": "node-a",
            "kubernetes.io/os": "other",
            "zone": "a",
            "example.com/kind": "big",
        },
        taints=(Taint(key="gpu", value="yes", effect="NoSchedule"), Taint(key="gpu", effect="NoExecute")),
        kubelet_config="kubelet.yaml",
        policy="kubelet",
        mode="exact",
        unschedulable=True,
        devices={
            "nvidia.com/gpu": (
                DeviceUnit(id="gpu-0", nodes=NodeSet([0])),
                DeviceUnit(id="gpu-1", nodes=NodeSet([0, 1]), healthy=False),
                DeviceUnit(id="x"),
            )
        },
        allocatable={"cpu": 90_000, "memory": 700 * 2**30, "nvidia.com/gpu": 2},
        source="c.yaml: document 1: nodes[0]",
    )
    assert (first.name, second.name, first.machine) == ("small-0", "small-1", "preset:usual")
    assert first.labels["kubernetes.io/hostname"] == "small-0"
    assert first.kubelet_config == InlineConfiguration(
        value={"cpuManagerPolicy": "static"}, source="c.yaml", place="document 1: nodes[1].kubeletConfig"
    )


def test_real_nodes() -> None:
    text = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: worker-1
    uid: 1-2-3
    labels: {kubernetes.io/arch: amd64, kubernetes.io/hostname: worker-1.example}
    annotations: {bayplan.dev/machine: "preset:dgx-h100", bayplan.dev/kubelet-config: k.yaml}
  spec:
    podCIDR: 10.0.0.0/24
    taints: [{effect: NoSchedule, key: node-role.kubernetes.io/control-plane}]
    unschedulable: true
  status:
    allocatable: {cpu: 95500m, memory: 791Gi, pods: "110", nvidia.com/gpu: "8", ephemeral-storage: "1000"}
    capacity: {cpu: "96"}
"""
    (node,) = read_cluster(read_documents(text, "n.yaml"))
    assert (node.name, node.machine, node.kubelet_config) == ("worker-1", PRESET, "k.yaml")
    assert node.labels["kubernetes.io/hostname"] == "worker-1.example"
    assert node.taints == (Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule"),)
    assert node.unschedulable
    assert node.allocatable["cpu"] == 95_500
    assert node.allocatable["nvidia.com/gpu"] == 8


def test_real_nodes_without_a_machine_need_a_default() -> None:
    (node,) = of(real(), default_machine="preset:x")
    assert node.machine == "preset:x"
    assert (
        "metadata.annotations[bayplan.dev/machine]: missing, and a Node does not tell its hardware (node n)"
        in refused(real())
    )


def test_nodes_of_which_only_the_offer_counts_need_no_machine() -> None:
    documents = [Document("c.yaml", i, value) for i, value in enumerate((real(), cluster({"name": "m"})), 1)]
    assert [(node.name, node.machine) for node in read_cluster(documents, machines=False)] == [("n", ""), ("m", "")]


def test_items_of_a_node_list_need_not_say_what_they_are() -> None:
    bare = {"metadata": {"name": "n"}}
    nodes = of({"apiVersion": "v1", "kind": "NodeList", "items": [bare]}, cluster(entry()), default_machine="m")
    assert [node.name for node in nodes] == ["n", "a"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (cluster(), "no nodes"),
        (cluster(entry(count=0)), "no nodes"),
        (cluster(entry(), entry()), "two nodes called a"),
        (cluster(entry(count=2), entry(name="a-1")), "two nodes called a-1"),
        (cluster({"name": "a"}), "document 1: nodes[0].machine: missing"),
        (cluster({"machine": "m"}), "nodes[0].name: missing"),
        (cluster(entry(name="A")), "nodes[0].name: not a valid name: 'A'"),
        (cluster(entry(count=-1)), "nodes[0].count: out of range"),
        (cluster(entry(count=10**9)), "nodes[0].count: out of range"),
        (cluster(entry(taint=[])), "nodes[0].taint: unknown field; did you mean taints?"),
        (cluster(entry(zzzzzz=[])), "nodes[0].zzzzzz: unknown field (expected one of allocatable, count,"),
        (cluster(node=[]), "document 1: node: unknown field"),
        (cluster(entry(labels={"a": 1})), "nodes[0].labels.a: is a number: 1"),
        (cluster(entry(labels={"a b": "c"})), "nodes[0].labels: not a valid key: 'a b'"),
        (cluster(entry(labels={"a": "c d"})), "nodes[0].labels.a: not a valid label value: 'c d'"),
        (cluster(entry(taints=[{"key": "a"}])), "nodes[0].taints[0].effect: missing"),
        (cluster(entry(taints=[{"key": "a", "effect": "X"}])), "nodes[0].taints[0].effect: unknown effect: 'X'"),
        (cluster(entry(taints=[{"key": "a", "effect": "NoExecute"}] * 2)), "nodes[0].taints: two taints"),
        (cluster(entry(kubeletConfig=[])), "nodes[0].kubeletConfig: is a list"),
        (cluster(entry(devices={"gpu": []})), "nodes[0].devices.gpu: not a device resource"),
        (cluster(entry(devices={"a.b/c": [{}]})), "nodes[0].devices[a.b/c][0].id: missing"),
        (cluster(entry(devices={"a.b/c": [{"id": "x"}, {"id": "x"}]})), "devices[a.b/c][1].id: given twice"),
        (cluster(entry(devices={"a.b/c": [{"id": "x", "numaNodes": ["0"]}]})), "numaNodes[0]: not a NUMA node: '0'"),
        (
            cluster(entry(devices={"a.b/c": [{"id": "x", "numaNode": 0}]})),
            "numaNode: unknown field; did you mean numaN",
        ),
        (cluster(entry(allocatable={"cpu": "x"})), "nodes[0].allocatable.cpu: not a quantity: 'x'"),
        (cluster(entry(allocatable={"cpu": None})), "nodes[0].allocatable.cpu: not a quantity"),
        (cluster(entry(unschedulable="no")), "nodes[0].unschedulable: is text: 'no'"),
        (cluster("a"), "nodes[0]: is text: 'a' (expected a mapping)"),
        (cluster(apiVersion="bayplan.dev/v1"), "apiVersion: wrong: 'bayplan.dev/v1' (expected bayplan.dev/v1alpha1)"),
        ({"kind": "Pod"}, "kind: wrong: 'Pod' (expected Cluster, Node or a List)"),
        ({}, "kind: missing"),
        ([], "document 1: is a list (expected a mapping)"),
        ({"apiVersion": "v1", "kind": "List", "items": {}}, "document 1.items: is a mapping"),
        ({"apiVersion": "v1", "kind": "List", "items": ["x"]}, "document 1, items[0]: is text: 'x'"),
    ],
)
def test_what_is_refused(value: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        of(value)
    assert said in str(caught.value)


def test_too_many_nodes_are_refused() -> None:
    with pytest.raises(InputError, match="too many nodes"):
        of(cluster(entry(count=100_000), entry(name="b")))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["Cluster", "Node", "List", "v1", PRESET, "1Gi", "a", 10**40]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "kind", "items", "id", "a.b/c"]) | st.text(), inner, max_size=4)
    ),
    max_leaves=8,
)
FULL: list[dict[str, Any]] = [
    cluster(
        entry(
            count=2,
            labels={"a": "b"},
            taints=[{"key": "a", "effect": "NoExecute", "value": "b"}],
            kubeletConfig="k",
            policy="kubelet",
            devices={"a.b/c": [{"id": "x", "numaNodes": [0], "healthy": True}]},
            allocatable={"cpu": 1},
            unschedulable=False,
        ),
        defaultMachine="m",
    ),
    {
        "apiVersion": "v1",
        "kind": "NodeList",
        "items": [real(annotations={"bayplan.dev/machine": "m"}) | {"status": {"allocatable": {"cpu": "1"}}}],
    },
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
        nodes = of(*objects)
    except InputError as error:
        assert len(str(error)) < 2000  # noqa: PT017
    else:
        assert all(node.name and node.machine for node in nodes)


def test_the_file_to_be_changed_is_valid() -> None:
    assert [node.name for node in of(*FULL)] == ["a-0", "a-1", "n"]


@given(st.lists(VALUES, max_size=3))
@settings(deadline=None)
def test_any_documents_are_read_or_refused(objects: list[Any]) -> None:
    read_or_refuse(*objects)


@given(st.sampled_from([(i, place) for i, value in enumerate(FULL) for place in places(value)]), VALUES)
@settings(max_examples=300, deadline=None)
def test_any_value_in_any_place_is_read_or_refused(where: tuple[int, tuple[Any, ...]], new: Any) -> None:
    index, place = where
    read_or_refuse(*FULL[:index], changed(FULL[index], place, new), *FULL[index + 1 :])
