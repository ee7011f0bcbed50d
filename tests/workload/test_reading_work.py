"""Reading a large workload takes work in proportion to its size; how many seconds: `benchmarks/reading.py`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from bayplan.workload.documents import read_documents
from bayplan.workload.manifests import Workload, read

Calls = Callable[[Callable[[], object]], int]
POD = """apiVersion: v1
kind: Pod
metadata:
  name: pod-{}
  namespace: default
  labels:
    app: web
    tier: "front"
spec:
  containers:
  - name: main
    image: registry.example.com/app:1.2.3
    resources:
      requests:
        cpu: 500m
        memory: 1Gi
      limits:
        cpu: "1"
        memory: 1Gi
  priority: 0
"""


def yaml_pods(count: int) -> str:
    return "---\n".join(POD.format(i) for i in range(count))


def json_pods(count: int) -> str:
    items = [document.value for document in read_documents(yaml_pods(count), "pods.yaml")]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2)


def replicas(count: int) -> str:
    return (
        f"{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: {count}, "
        "template: {spec: {containers: [{name: a, resources: {limits: {cpu: 1}}}]}}}}"
    )


def workload(text: str) -> Workload:
    return read(read_documents(text, "pods.yaml"))


@pytest.mark.parametrize("write", [yaml_pods, json_pods])
def test_twice_the_pods_take_twice_the_work(calls: Calls, write: Callable[[int], str]) -> None:
    one, two = write(200), write(400)
    assert [pod.name for pod in workload(two).pods] == [f"pod-{i}" for i in range(400)]
    assert calls(lambda: workload(two)) < 2.05 * calls(lambda: workload(one))


def test_replicas_are_read_once_and_copied(calls: Calls) -> None:
    one, two = replicas(1_000), replicas(2_000)
    assert len(workload(two).pods) == 2_000
    assert calls(lambda: workload(two)) - calls(lambda: workload(one)) < 12 * 1_000
