"""`bayplan plan --cluster` on what a cluster tells of itself; `bayplan machine layout` writes what a node tells."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(sys.executable).parent / "bayplan")
GPU = "nvidia.com/gpu"
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cpuManagerPolicy": "static",
    "topologyManagerPolicy": "single-numa-node",
    "topologyManagerScope": "pod",
    "reservedSystemCPUs": "0,56",
}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def call(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "NO_COLOR": "1", **changes}
        return subprocess.run(
            [PROGRAM, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return call


@pytest.fixture
def save(tmp_path: Path) -> Callable[[str, Any], str]:
    def write(name: str, value: Any) -> str:
        (tmp_path / name).write_text(value if isinstance(value, str) else json.dumps(value))
        return name

    return write


Save = Callable[[str, Any], str]


def pod(name: str, cpu: int, gpu: int = 0, node: str = "", phase: str = "Running") -> dict[str, Any]:
    limits = {"cpu": str(cpu), "memory": "1Gi", **({GPU: gpu} if gpu else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-12-01T00:00:00Z"},
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "c", "resources": {"limits": limits}}],
        },
        "status": {"phase": phase if node else "Pending"},
    }


def node(name: str, gpus: int, **metadata: Any) -> dict[str, Any]:
    amounts = {"cpu": "222", "memory": "2000Gi", "pods": "110", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        "status": {"allocatable": amounts},
    }


def topology(name: str, available: list[int]) -> dict[str, Any]:
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "pod"},
        ],
        "zones": [
            {
                "name": f"node-{i}",
                "type": "Node",
                "resources": [
                    {"name": "cpu", "capacity": "56", "allocatable": "55", "available": "50"},
                    {"name": GPU, "capacity": "4", "allocatable": "4", "available": str(free)},
                ],
            }
            for i, free in enumerate(available)
        ],
    }


def items(*objects: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def layout_of(run: Run, save: Save, name: str, *pods: dict[str, Any]) -> dict[str, Any]:
    arguments = ["--pods", save(f"on-{name}.json", items(*pods))] if pods else []
    kubelet = save("kubelet.json", KUBELET)
    said = run("machine", "layout", name, "preset:dgx-h100", "-k", kubelet, "--at", "2026-12-03T14:00:00Z", *arguments)
    assert said.returncode == 0, said.stderr
    value: dict[str, Any] = json.loads(said.stdout)
    return value


def test_a_layout_says_what_each_pod_holds(run: Run, save: Save) -> None:
    layout = layout_of(run, save, "a", pod("one", 4, 1, "a"), pod("elsewhere", 4, 1, "b"), pod("any", 2))
    held = {one["name"]: one["grants"][0] for one in layout["status"]["pods"]}
    assert list(held) == ["one", "any"]
    assert held["one"]["exclusive"]
    assert [len(granted["ids"]) for granted in held["one"]["devices"]] == [1]
    assert layout["status"]["heartbeat"] == "2026-12-03T14:00:00+00:00"
    assert layout["metadata"]["name"] == "a"
    assert layout["spec"]["kubeletConfiguration"]["topologyManagerScope"] == "pod"


def test_a_layout_of_a_node_that_refuses_one_of_its_pods_ends_with_3(run: Run, save: Save) -> None:
    save("pods.json", items(pod("five", 4, 5)))
    save("kubelet.json", KUBELET)
    said = run("machine", "layout", "a", "preset:dgx-h100", "-k", "kubelet.json", "--pods", "pods.json")
    assert said.returncode == 3
    assert "default/five: TopologyAffinityError" in said.stderr
    assert json.loads(said.stdout)["status"]["pods"] == []


def test_a_pod_goes_to_the_node_whose_published_grants_leave_it_a_zone(run: Run, save: Save) -> None:
    full = [pod(f"f{i}", 4, 1, "full") for i in range(5)]
    full_layout = layout_of(run, save, "full", *full)
    # One each side stays: three are free on both, and a fourth nowhere.
    keep = {"uid-f0", "uid-f4"}
    full_layout["status"]["pods"] = [one for one in full_layout["status"]["pods"] if one["uid"] in keep]
    free_layout = layout_of(run, save, "free", pod("g", 4, 4, "free"))
    running = [one for one in full if one["metadata"]["uid"] in keep] + [pod("g", 4, 4, "free")]
    dump = items(node("full", 8), node("free", 8), full_layout, free_layout, *running, pod("four", 8, 4))
    save("dump.json", dump)

    planned = json.loads(run("plan", "--cluster", "dump.json", "-o", "json").stdout)
    (placement,) = planned["placements"]
    assert placement["pod"]["name"] == "four"
    assert placement["node"] == "free"
    used = {one["name"]: one["used"][GPU] for one in planned["nodes"]}
    assert used == {"full": 2, "free": 8}

    dump["items"].remove(free_layout)
    dump["items"] = [one for one in dump["items"] if one["metadata"]["name"] not in ("free", "g")]
    save("dump.json", dump)
    refused = run("plan", "--cluster", "dump.json")
    assert refused.returncode == 3
    assert "TopologyAffinityError" in refused.stdout
    assert "blocked by default/f0" in refused.stdout


def test_pods_that_run_and_are_not_published_yet_are_admitted_first(run: Run, save: Save) -> None:
    empty = layout_of(run, save, "a")
    bound = [pod("b0", 4, 4, "a"), pod("b1", 4, 1, "a"), pod("ended", 4, 3, "a", "Succeeded")]
    save("dump.json", items(node("a", 8), empty, *bound))
    save("new.json", items(pod("three", 4, 3), pod("one", 4, 1)))
    planned = json.loads(run("plan", "new.json", "--cluster", "dump.json", "-o", "json").stdout)
    assert [placement["node"] for placement in planned["placements"]] == ["a", None]


def test_numbers_by_zone_do_where_no_agent_tells(run: Run, save: Save) -> None:
    save(
        "dump.json", items(node("a", 8), node("b", 8), topology("a", [3, 3]), topology("b", [0, 4]), pod("four", 8, 4))
    )
    said = run("plan", "--cluster", "dump.json", "-o", "json")
    (placement,) = json.loads(said.stdout)["placements"]
    assert placement["node"] == "b"
    save("one.json", items(node("a", 8), topology("a", [3, 3]), pod("four", 8, 4)))
    assert run("plan", "--cluster", "one.json").returncode == 3


def test_a_machine_that_is_named_counts_before_numbers_by_zone(run: Run, save: Save) -> None:
    annotations = {"bayplan.dev/machine": "preset:dgx-h100", "bayplan.dev/kubelet-config": "kubelet.json"}
    save("kubelet.json", KUBELET)
    bound = [pod("b0", 4, 1, "a"), pod("b1", 4, 4, "a")]
    save("dump.json", items(node("a", 8, annotations=annotations), topology("a", [0, 0]), *bound))
    save("new.json", items(pod("three", 4, 3), pod("one", 4, 1)))
    planned = json.loads(run("plan", "new.json", "--cluster", "dump.json", "-o", "json").stdout)
    assert [placement["node"] for placement in planned["placements"]] == ["a", None]
    assert planned["nodes"][0]["machine"].startswith("dgx-h100")


def test_nodes_that_tell_nothing_are_planned_by_their_sums_and_said_so(run: Run, save: Save) -> None:
    save("dump.json", items(node("a", 2), pod("runs", 4, 1, "a"), pod("away", 4, 1, "gone")))
    save("new.json", items(pod("two", 4, 2), pod("one", 4, 1)))
    said = run("plan", "new.json", "--cluster", "dump.json", "-o", "json")
    assert [one["node"] for one in json.loads(said.stdout)["placements"]] == [None, "a"]
    assert "does not tell its zones" in said.stderr
    assert "pods run on node gone, which is not among the nodes" in said.stderr


def test_a_layout_in_an_annotation_is_as_good(run: Run, save: Save) -> None:
    layout = layout_of(run, save, "a", pod("x", 4, 4, "a"), pod("y", 4, 1, "a"))
    save("dump.json", items(node("a", 8, annotations={"bayplan.dev/layout": json.dumps(layout)}), pod("w", 4, 3)))
    said = run("plan", "--cluster", "dump.json", "-o", "json")
    planned = json.loads(said.stdout)
    assert planned["placements"][0]["node"] == "a"
    assert planned["nodes"][0]["used"][GPU] == 4 + 1 + 3


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        ([pod("p", 1, node="a")], "no nodes"),
        (
            [node("a", 1), {"kind": "NodeLayout", "apiVersion": "bayplan.dev/v1alpha1", "metadata": {"name": "a"}}],
            "machine",
        ),
        ([node("a", 1), topology("a", [1]), topology("a", [1])], "two of node a"),
        ([node("a", 1), {**topology("a", [1]), "zones": []}], "zones"),
        ([node("a", 1, annotations={"bayplan.dev/layout": "{"})], "bayplan.dev/layout"),
        ([node("a", 1), node("a", 1), pod("p", 1, node="a")], "two nodes called a"),
        ([node("a", 1), {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": 7}}], "not a Pod"),
    ],
)
def test_dumps_that_cannot_be_used_are_one_clear_message(run: Run, save: Save, objects: list[Any], told: str) -> None:
    save("dump.json", items(*objects))
    save("new.json", items(pod("q", 1)))
    said = run("plan", "new.json", "--cluster", "dump.json")
    assert said.returncode == 2
    assert told in said.stderr
    assert said.stderr.count("\n") == 1


def test_without_manifests_there_must_be_a_cluster(run: Run) -> None:
    said = run("plan")
    assert said.returncode == 2
    assert "MANIFEST" in said.stderr


@pytest.fixture
def api_server(run: Run, save: Save) -> Iterator[str]:
    """An API server with one node that tells of itself, and one pod that waits."""
    layout = layout_of(run, save, "a", pod("x", 4, 2, "a"))
    lists = {
        "/api/v1/nodes": [node("a", 8)],
        "/api/v1/pods": [pod("x", 4, 2, "a"), pod("waits", 4, 4)],
        "/apis/bayplan.dev/v1alpha1/nodelayouts": [layout],
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = lists.get(self.path.partition("?")[0])
            body = json.dumps({"items": found, "metadata": {}} if found is not None else {"kind": "Status"}).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_live_cluster_is_planned_as_its_dump_is(run: Run, save: Save, api_server: str) -> None:
    save(
        "config",
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": api_server}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        },
    )
    said = run("plan", "--cluster", "live", "-o", "json", KUBECONFIG="config")
    assert said.returncode == 0, said.stderr
    (placement,) = json.loads(said.stdout)["placements"]
    assert (placement["pod"]["name"], placement["node"]) == ("waits", "a")


def test_what_an_extender_would_doubt_is_said_and_planned_all_the_same(run: Run, save: Save) -> None:
    new, old = layout_of(run, save, "new"), layout_of(run, save, "old")
    old["status"]["heartbeat"] = "2026-12-03T13:00:00Z"
    by_hand = topology("hand", [4, 4])
    by_hand["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    save("dump.json", items(new, old, by_hand, node("bare", 0), pod("one", 1, 1)))
    said = run("plan", "--cluster", "dump.json")
    assert said.returncode == 0
    assert "node old: planned all the same: what the node told is 3600 s old" in said.stderr
    assert "node hand: planned all the same: nobody keeps up this NodeResourceTopology" in said.stderr
    assert "node new" not in said.stderr
    assert "node bare: planned" not in said.stderr
