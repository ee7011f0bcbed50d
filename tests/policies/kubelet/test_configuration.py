"""A KubeletConfiguration file: its defaults, what the kubelet refuses, what it leaves for pods."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.idset import CpuSet
from bayplan.machine import HugepagePool, Machine, MemoryNode
from bayplan.policies.kubelet.allocatable import node_allocatable, node_capacity
from bayplan.policies.kubelet.configuration import (
    ConfigurationFile,
    KubeletConfiguration,
    MemoryThreshold,
    ReservedMemory,
    read_configuration,
    read_inline,
)
from bayplan.policies.kubelet.configuration_fields import TYPES
from bayplan.workload.documents import Document, read_documents

MIB, GIB = 2**20, 2**30
HEADER = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def of(**fields: Any) -> KubeletConfiguration:
    return read_configuration([Document("kubelet.yaml", 1, {**HEADER, **fields})]).configuration


def refused(**fields: Any) -> str:
    with pytest.raises(InputError) as caught:
        of(**fields)
    message = str(caught.value)
    assert message.startswith("kubelet.yaml: document 1")
    return message


def from_text(text: str) -> ConfigurationFile:
    return read_configuration(read_documents(text, "kubelet.yaml"))


def test_an_empty_configuration_is_the_kubelets_defaults() -> None:
    assert of() == KubeletConfiguration(
        cpu_manager_policy="none",
        topology_manager_policy="none",
        topology_manager_scope="container",
        memory_manager_policy="None",
        reserved_system_cpus=None,
        eviction_hard=MemoryThreshold(bytes=100 * MIB),
        max_pods=110,
    )


def test_a_configuration_as_kubeadm_and_a_person_write_it() -> None:
    read = from_text("""
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.0
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
authorization: {mode: Webhook}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
containerRuntimeEndpoint: ""
cpuManagerPolicy: static
cpuManagerPolicyOptions:
  full-pcpus-only: "true"
  not-known-here: "x"
cpuManagerReconcilePeriod: 0s
evictionHard:
  memory.available: 5%
  nodefs.available: 10%
featureGates: {CPUManagerPolicyAlphaOptions: true, MemoryQoS: false}
kubeReserved: {cpu: 500m, memory: 1Gi, ephemeral-storage: 1Gi, pid: "1000"}
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}}, verbosity: 0}
maxPods: 250
memoryManagerPolicy: Static
memorySwap: {}
reservedMemory:
- numaNode: 0
  limits: {memory: 1100Mi, hugepages-1Gi: 2Gi}
- numaNode: 1
  limits: {memory: 500Mi}
reservedSystemCPUs: 0-1,64
rotateCertificates: true
systemReserved: {memory: 512Mi}
topologyManagerPolicy: restricted
topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}
topologyManagerScope: pod
""")
    assert read.notes == ()
    assert read.configuration == KubeletConfiguration(
        cpu_manager_policy="static",
        cpu_manager_policy_options={"full-pcpus-only": "true", "not-known-here": "x"},
        topology_manager_policy="restricted",
        topology_manager_scope="pod",
        topology_manager_policy_options={"prefer-closest-numa-nodes": "true"},
        memory_manager_policy="Static",
        reserved_system_cpus=CpuSet([0, 1, 64]),
        reserved_memory=(
            ReservedMemory(node=0, limits={"memory": 1100 * MIB, "hugepages-1Gi": 2 * GIB}),
            ReservedMemory(node=1, limits={"memory": 500 * MIB}),
        ),
        kube_reserved={"cpu": 500, "memory": GIB, "ephemeral-storage": GIB, "pid": 1000},
        system_reserved={"memory": 512 * MIB},
        eviction_hard=MemoryThreshold(part=read.configuration.eviction_hard.part),
        feature_gates={"CPUManagerPolicyAlphaOptions": True, "MemoryQoS": False},
        max_pods=250,
    )
    assert read.configuration.eviction_hard.part == pytest.approx(0.05)


def test_names_of_manager_policies_are_left_to_the_managers() -> None:
    assert of(cpuManagerPolicy="own", memoryManagerPolicy="own").cpu_manager_policy == "own"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"topologyManagerPolicy": "strict"}, "topologyManagerPolicy: unknown name: 'strict' (expected none, best-eff"),
        ({"topologyManagerScope": "node"}, "topologyManagerScope: unknown name: 'node'"),
        (
            {"cpuManagerPolicyOptions": {"full-pcpus-only": True}},
            "cpuManagerPolicyOptions.full-pcpus-only: is a boolean",
        ),
        ({"kubeReserved": {"cpu": 1}}, "kubeReserved.cpu: is a number: 1 (expected text; use quotes)"),
        ({"kubeReserved": {"cpu": "x"}}, "kubeReserved.cpu: not a quantity: 'x'"),
        ({"kubeReserved": {"cpu": "-1"}}, "kubeReserved.cpu: negative quantity: '-1'"),
        ({"systemReserved": {"hugepages-2Mi": "2Mi"}}, "systemReserved.hugepages-2Mi: cannot be reserved"),
        ({"reservedSystemCPUs": "0-3, 8"}, "reservedSystemCPUs: not a list of CPUs: '0-3, 8'"),
        ({"reservedSystemCPUs": "3-1"}, "reservedSystemCPUs: range runs backwards"),
        ({"reservedSystemCPUs": 0}, "reservedSystemCPUs: is a number: 0"),
        ({"reservedSystemCPUs": "0", "kubeReservedCgroup": "/k"}, "kubeReservedCgroup: cannot be used with reserved"),
        ({"reservedMemory": [{"limits": {"memory": "0"}}]}, "reservedMemory[0].limits.memory: zero reserved"),
        ({"reservedMemory": [{"limits": {"cpu": 1}}]}, "reservedMemory[0].limits.cpu: not a type of memory"),
        ({"reservedMemory": [{"limits": {"memory": None}}]}, "limits.memory: not a quantity"),
        (
            {"reservedMemory": [{"limits": {"memory": 1}}] * 2},
            "reservedMemory[1].limits.memory: given twice for NUMA node 0",
        ),
        ({"reservedMemory": [{"numaNode": -1}]}, "reservedMemory[0].numaNode: out of range"),
        ({"reservedMemory": {}}, "reservedMemory: is a mapping (expected a list)"),
        ({"maxPods": -1}, "maxPods: out of range"),
        ({"maxPods": "110"}, "maxPods: is text: '110'"),
        ({"podsPerCore": -1}, "podsPerCore: out of range"),
        ({"cpuCFSQuota": "yes"}, "cpuCFSQuota: is text: 'yes' (expected true or false)"),
        ({"featureGates": {"X": "true"}}, "featureGates.X: is text: 'true'"),
        ({"featureGates": []}, "featureGates: is a list"),
        ({"evictionHard": {"memory.free": "1Gi"}}, "evictionHard[memory.free]: unknown eviction signal"),
        ({"evictionHard": {"memory.available": "0"}}, "evictionHard[memory.available]: not above zero"),
        ({"evictionHard": {"memory.available": "101%"}}, "evictionHard[memory.available]: out of range"),
        ({"evictionHard": {"memory.available": "-1%"}}, "out of range"),
        ({"evictionHard": {"nodefs.available": "x%"}}, "evictionHard[nodefs.available]: not a per cent value"),
        ({"evictionHard": {"memory.available": 5}}, "evictionHard[memory.available]: is a number"),
        ({"enforceNodeAllocatable": ["pod"]}, "enforceNodeAllocatable[0]: unknown name: 'pod'"),
        ({"enforceNodeAllocatable": ["pods", "pods"]}, "enforceNodeAllocatable[1]: given twice"),
        ({"enforceNodeAllocatable": ["none", "pods"]}, "enforceNodeAllocatable[0]: beside others"),
        ({"enforceNodeAllocatable": ["kube-reserved"]}, "kubeReservedCgroup: missing"),
        (
            {
                "enforceNodeAllocatable": ["kube-reserved", "kube-reserved-compressible"],
                "kubeReservedCgroup": "/k",
            },
            "both kube-reserved and kube-reserved-compressible",
        ),
        ({"cgroupsPerQOS": False}, "cgroupsPerQOS: false, but enforceNodeAllocatable has pods"),
        ({"cgroupsPerQOS": False, "enforceNodeAllocatable": ["pods"]}, "cgroupsPerQOS: false"),
        ({"kind": "Pod"}, "kind: wrong: 'Pod' (expected KubeletConfiguration)"),
        ({"apiVersion": "kubelet.config.k8s.io/v1"}, "apiVersion: wrong: 'kubelet.config.k8s.io/v1'"),
        ({"apiVersion": None}, "apiVersion: missing"),
        ({"memoryThrottlingFactor": "x"}, "memoryThrottlingFactor: not a number: 'x'"),
        ({"clusterDNS": "10.0.0.1"}, "clusterDNS: is text: '10.0.0.1' (expected a list)"),
    ],
)
def test_what_the_kubelet_refuses(fields: dict[str, Any], said: str) -> None:
    assert said in refused(**fields)


def test_a_file_must_hold_exactly_one() -> None:
    with pytest.raises(InputError, match="0 documents of kind KubeletConfiguration"):
        read_configuration([])
    two = [Document("k", 1, HEADER), Document("k", 2, HEADER)]
    with pytest.raises(InputError, match="k: 2 documents of kind KubeletConfiguration"):
        read_configuration(two)
    with pytest.raises(InputError, match="kind: missing"):
        read_configuration([Document("k", 1, {"cpuManagerPolicy": "static"})])
    with pytest.raises(InputError, match="is a list"):
        read_configuration([Document("k", 1, [])])


def test_an_inline_configuration_needs_no_header_and_errors_name_its_place() -> None:
    place = "document 1: nodes[0].kubeletConfig"
    read = read_inline({"maxPods": 5}, source="c.yaml", place=place)
    assert read.configuration.max_pods == 5
    with pytest.raises(InputError) as caught:
        read_inline({"maxPods": "x"}, source="c.yaml", place=place)
    assert str(caught.value).startswith("c.yaml: document 1: nodes[0].kubeletConfig: maxPods: is text: 'x'")


def test_unknown_fields_are_noted_with_the_nearest_name() -> None:
    read = from_text("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagrPolicy: static\n")
    assert [str(note) for note in read.notes] == [
        "kubelet.yaml: document 1: unknown field cpuManagrPolicy in a KubeletConfiguration is ignored; "
        "did you mean cpuManagerPolicy?"
    ]
    considered = read_configuration([Document("k", 1, {**HEADER, "qosReserved": {"memory": "50%"}})])
    assert [note.name for note in considered.notes] == ["not-considered"]


def test_eviction_defaults_only_where_it_is_absent() -> None:
    assert of(evictionHard={}).eviction_hard == MemoryThreshold()
    assert of(evictionHard={"nodefs.available": "5%"}).eviction_hard == MemoryThreshold()
    merged = of(evictionHard={"nodefs.available": "5%"}, mergeDefaultEvictionSettings=True)
    assert merged.eviction_hard == MemoryThreshold(bytes=100 * MIB)
    assert of(evictionHard={"memory.available": "0%"}).eviction_hard == MemoryThreshold()
    assert of(evictionHard={"memory.available": "500Mi"}).eviction_hard.of(GIB) == 500 * MIB


def test_a_per_cent_threshold_has_the_kubelets_single_precision() -> None:
    # float32(5) / 100 is 0.0500000007450580596923828125, which is 800 bytes more of 1000 GiB than a twentieth.
    assert of(evictionHard={"memory.available": "5%"}).eviction_hard.of(1000 * GIB) == 50 * GIB + 800


def machine() -> Machine:
    """Eight CPUs, two nodes of 16 GiB, 1 GiB of 2Mi pages on each and two 1Gi pages on the first."""
    small = HugepagePool(page_bytes=2 * MIB, count=512)
    return Machine(
        name="m",
        online=CpuSet(range(8)),
        cores=(),
        packages=(),
        nodes=(
            MemoryNode(
                id=0,
                cpus=CpuSet(range(4)),
                memory_bytes=16 * GIB,
                hugepages=(small, HugepagePool(page_bytes=GIB, count=2)),
            ),
            MemoryNode(id=1, cpus=CpuSet(range(4, 8)), memory_bytes=16 * GIB, hugepages=(small,)),
        ),
    )


def test_allocatable_is_capacity_without_reservations_eviction_and_huge_pages() -> None:
    configuration = of(kubeReserved={"cpu": "500m", "memory": "1Gi"}, systemReserved={"cpu": "250m", "memory": "512Mi"})
    assert node_capacity(machine(), configuration) == {
        "cpu": 8000,
        "memory": 32 * GIB,
        "hugepages-2Mi": 2 * GIB,
        "hugepages-1Gi": 2 * GIB,
        "pods": 110,
    }
    assert node_allocatable(machine(), configuration) == {
        "cpu": 7250,
        "memory": 28 * GIB - GIB - 512 * MIB - 100 * MIB,
        "hugepages-2Mi": 2 * GIB,
        "hugepages-1Gi": 2 * GIB,
        "pods": 110,
    }


def test_reserved_cpus_take_the_place_of_reserved_cpu_amounts() -> None:
    configuration = of(kubeReserved={"cpu": "3"}, systemReserved={"cpu": "3"}, reservedSystemCPUs="0,4")
    assert node_allocatable(machine(), configuration)["cpu"] == 6000


def test_allocatable_is_never_below_zero_and_pods_may_be_per_core() -> None:
    configuration = of(kubeReserved={"cpu": "30", "memory": "40Gi"}, podsPerCore=4)
    allocatable = node_allocatable(machine(), configuration)
    assert (allocatable["cpu"], allocatable["memory"], allocatable["pods"]) == (0, 0, 32)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["static", "none", "1Gi", "5%", "0-3", "pods", 10**40, "9" * 60 + "%"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["memory", "cpu", "limits", "numaNode", "memory.available", "hugepages-2Mi"]) | st.text(),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(TYPES)) | st.text(), VALUES, max_size=6))
@settings(max_examples=300, deadline=None)
def test_any_configuration_is_read_or_refused(fields: dict[str, Any]) -> None:
    try:
        configuration = of(**{**HEADER, **fields})
        allocatable = node_allocatable(machine(), configuration)
    except InputError as error:
        assert len(str(error)) < 2000  # noqa: PT017
    else:
        assert all(amount >= 0 for amount in allocatable.values())


@given(VALUES)
@settings(deadline=None)
def test_any_value_in_place_of_a_configuration_is_refused(value: Any) -> None:
    with pytest.raises(InputError):
        read_configuration([Document("k", 1, copy.copy(value))])


WRAPPED = {
    "configz": '{"kubeletconfig": {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0-1"}}',
    "openshift": (
        "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: performance}\n"
        "spec:\n  kubeletConfig:\n    cpuManagerPolicy: static\n    reservedSystemCPUs: 0-1\n"
    ),
    "kubeadm": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kubelet-config}\ndata:\n  kubelet: |\n"
        "    apiVersion: kubelet.config.k8s.io/v1beta1\n    kind: KubeletConfiguration\n"
        "    cpuManagerPolicy: static\n    reservedSystemCPUs: 0-1\n"
    ),
}


@pytest.mark.parametrize("how", WRAPPED)
def test_a_configuration_is_found_where_clusters_keep_it(how: str) -> None:
    configuration = read_configuration(read_documents(WRAPPED[how], "k")).configuration
    assert configuration.cpu_manager_policy == "static"
    assert str(configuration.reserved_system_cpus) == "0-1"


@pytest.mark.parametrize("how", WRAPPED)
def test_what_is_wrong_within_is_named_where_it_stands(how: str) -> None:
    with pytest.raises(InputError) as caught:
        read_configuration(read_documents(WRAPPED[how].replace("0-1", "1-0"), "k"))
    assert "reservedSystemCPUs" in str(caught.value)
    assert str(caught.value).startswith("k: document 1: ")
