"""How long reading takes: `python benchmarks/reading.py [FOLDER_OF_CAPTURES]`.

Prints seconds of one processor, the best of three, for the largest things that are read: a preset, its check and its
zones, captures (where a folder is named), and workloads of ten thousand pods. Tests count work instead, for seconds are
another number on every machine.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bayplan.files import open_tree
from bayplan.files.presets import load_preset
from bayplan.machine import sysfs
from bayplan.machine.check import check
from bayplan.machine.zones import build_zones
from bayplan.workload.documents import read_documents
from bayplan.workload.manifests import read

LARGEST = "superdome-flex-32s"
PODS = 10_000
CAPTURES = ("256ppc-8n8s4t", "32em64t-2n8c+dax+nvme+mic+dimms")
POD = """apiVersion: v1
kind: Pod
metadata: {{name: pod-{}, labels: {{app: web, tier: front}}}}
spec:
  containers:
  - name: main
    image: registry.example.com/app:1.2.3
    resources:
      requests: {{cpu: 500m, memory: 1Gi}}
      limits: {{cpu: "1", memory: 1Gi}}
"""
DEPLOYMENT = f"""{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: {PODS},
  template: {{spec: {{containers: [{{name: main, resources: {{limits: {{cpu: 1}}}}}}]}}}}}}}}"""


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds, the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def _read_capture(path: Path) -> object:
    return sysfs.read(open_tree(path))


def main(folder: str = "") -> None:
    """Measure everything and print a line for each."""
    machine = load_preset(LARGEST)
    as_yaml = "---\n".join(POD.format(i) for i in range(PODS))
    items = [document.value for document in read_documents(as_yaml, "pods.yaml")]
    as_json = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2)
    measured: dict[str, Callable[[], object]] = {
        f"preset {LARGEST}": lambda: load_preset.__wrapped__(LARGEST),
        f"check of {len(machine.online)} CPUs": lambda: check(machine),
        f"zones of {len(machine.online)} CPUs": lambda: build_zones(machine),
        f"{PODS} pods in YAML": lambda: read(read_documents(as_yaml, "pods.yaml")),
        f"{PODS} pods in JSON": lambda: read(read_documents(as_json, "pods.json")),
        f"{PODS} replicas": lambda: read(read_documents(DEPLOYMENT, "web.yaml")),
    }
    for name in CAPTURES if folder else ():
        measured[f"capture {name}"] = partial(_read_capture, Path(folder) / f"{name}.tar.bz2")
    for what, work in measured.items():
        print(f"{seconds(work):8.3f} s  {what}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
