"""Manifests as arrivals: pods with what they ask of cards, when they came and when they ended."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bayplan.errors import InputError
from bayplan.fleet.cards.model import CardRequest
from bayplan.simulate.kubernetes import ManifestPods, read_manifests
from bayplan.workload.documents import Document


def pod(name: str, limits: dict[str, Any], metadata: dict[str, Any] | None = None, **other: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "resources": {"limits": limits}}], **other.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(metadata or {})}, "spec": spec, **other}


def read(*objects: dict[str, Any]) -> ManifestPods:
    return read_manifests([Document("pods.yaml", i, value) for i, value in enumerate(objects, 1)], ["A10", "T4"])


def test_pods_come_and_go_as_they_did() -> None:
    ended = {
        "phase": "Succeeded",
        "containerStatuses": [{"state": {"terminated": {"finishedAt": "1970-01-01T00:01:00Z"}}}],
    }
    pods = read(
        pod("a", {"nvidia.com/gpu": 1, "cpu": 2}, {"creationTimestamp": "1970-01-01T00:00:10Z"}),
        pod("b", {"nvidia.com/gpu": 1, "cpu": 2}, {"creationTimestamp": "1970-01-01T00:00:20Z"}, status=ended),
    ).pods
    assert pods.names == ["default/a", "default/b"]
    assert pods.requests == (CardRequest(cpu_milli=2000, memory_bytes=0, cards=1, milli=1000),)
    assert pods.arrives_s is not None
    assert pods.leaves_s is not None
    assert pods.arrives_s.tolist() == [10, 20]
    assert pods.leaves_s.tolist() == [math.inf, 60]


def test_copies_have_the_times_of_their_template() -> None:
    template = pod("x", {"cpu": 1}, {"annotations": {"bayplan.dev/arrives": "5", "bayplan.dev/runs-for": "1m"}})
    pods = read(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"replicas": 2, "template": {"metadata": template["metadata"], "spec": template["spec"]}},
        }
    ).pods
    assert pods.names == ["default/d-0", "default/d-1"]
    assert pods.leaves_s is not None
    assert pods.leaves_s.tolist() == [65, 65]


def test_what_does_not_count_is_told() -> None:
    found = read(
        pod("a", {"nvidia.com/gpu": 1}, spec={"nodeName": "n", "nodeSelector": {"nvidia.com/gpu.product": "T4"}}),
        pod("b", {}, spec={"nodeSelector": {"zone": "a"}}),
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "d"},
            "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}},
        },
    )
    assert found.pods.names == ["default/a", "default/b"]
    assert [(note.name, note.count) for note in found.notes] == [
        ("node-selector-not-considered", 1),
        ("node-name-not-considered", 1),
        ("daemonset-left-out", 1),
    ]


def test_some_pods_with_times_and_some_without_are_no_trace() -> None:
    with pytest.raises(InputError, match="without a time of arrival among others with one: 'default/b'"):
        read(pod("a", {}, {"creationTimestamp": "2026-01-01T00:00:00Z"}), pod("b", {}))


def test_a_pod_that_cannot_be_is_named_with_its_document() -> None:
    with pytest.raises(InputError) as caught:
        read(pod("a", {"nvidia.com/gpu": 1, "amd.com/gpu": 1}))
    assert "pod default/a: cards of two kinds in one pod" in str(caught.value)
