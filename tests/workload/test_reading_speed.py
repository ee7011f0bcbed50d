"""How long a large workload takes to read: processor seconds on one core, with much room for slow machines."""

from __future__ import annotations

import json
import time

import pytest

from bayplan.workload.documents import read_documents
from bayplan.workload.manifests import read

PODS = 10_000
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


@pytest.mark.long
def test_ten_thousand_pods_of_twenty_lines() -> None:
    text = "---\n".join(POD.format(i) for i in range(PODS))
    start = time.process_time()
    documents = read_documents(text, "pods.yaml")
    yaml_seconds = time.process_time() - start
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": [d.value for d in documents]}, indent=2)
    start = time.process_time()
    listed = read(read_documents(items, "pods.json"))
    json_seconds = time.process_time() - start
    assert [pod.name for pod in listed.pods] == [f"pod-{i}" for i in range(PODS)]
    assert yaml_seconds < 12
    assert json_seconds < 4


@pytest.mark.long
def test_ten_thousand_replicas_are_made_at_once() -> None:
    documents = read_documents(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 10000, "
        "template: {spec: {containers: [{name: a, resources: {limits: {cpu: 1}}}]}}}}",
        "web.yaml",
    )
    start = time.process_time()
    assert len(read(documents).pods) == PODS
    assert time.process_time() - start < 2
