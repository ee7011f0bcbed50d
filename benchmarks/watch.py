"""What it costs to keep the nodes and pods of a large cluster up to date: memory, and CPU per event.

    python benchmarks/watch.py [nodes] [pods] [events]

5,000 nodes, 150,000 pods and 20,000 events each way unless said otherwise. A made API server in a process of its own
lists pods of about 7 KB (managed fields, environment, volumes and status as real ones have them) in pages of 500, then
sends events: as fast as they are read, and one at a time, each in a packet of its own, as a cluster that is not busy
does. The store is a dict. CPU is this process's, connection, HTTP and decoding included; beside it is decoding alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qs, urlsplit

from lightkube.config.kubeconfig import KubeConfig

from bayplan.cluster.api import NODES, PODS, Api, Change, KubernetesObject, Reflector, Resource, Settings
from bayplan.cluster.api.decoding import Codec

T = TypeVar("T", bound=KubernetesObject)
Json = dict[str, Any]

PAUSE_S = 0.001


def made_pod(number: int, version: int, nodes: int) -> Json:
    """A pod of about 7 KB."""
    name = f"train-{number // 50}-worker-{number:06d}"
    labels = {"app": "train", "job-name": f"train-{number // 50}", "pod-template-hash": f"{number % 997:08x}"}
    fields: Json = {f'k:{{"name":"VARIABLE_{i}"}}': {".": {}, "f:name": {}, "f:value": {}} for i in range(25)}
    container = {
        "name": "main",
        "image": "registry.example/train:v1.2.3",
        "command": ["python", "-m", "train", "--shard", str(number)],
        "env": [{"name": f"VARIABLE_{i}", "value": f"value-{i}-{number}"} for i in range(25)],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"memory": "16Gi", "nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": f"volume-{i}", "mountPath": f"/data/{i}", "readOnly": True} for i in range(6)],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-02T03:04:05Z"}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    managed = {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-01-02T03:04:05Z"}
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 40}",
            "uid": f"{number:08x}-0000-4000-8000-{number:012x}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": labels,
            "annotations": {"prometheus.io/scrape": "true", "gas-container-cards": f"card{number % 8}"},
            "managedFields": [{**managed, "fieldsType": "FieldsV1", "fieldsV1": {"f:env": fields}}] * 2,
        },
        "spec": {
            "containers": [container],
            "volumes": [{"name": f"volume-{i}", "configMap": {"name": f"shard-{i}"}} for i in range(6)],
            "nodeName": f"node-{number % nodes:05d}",
            "schedulerName": "default-scheduler",
            "priority": 0,
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}] * 2,
        },
        "status": {"phase": "Running", "conditions": conditions, "podIP": "10.1.2.3", "hostIP": "10.0.0.1"},
    }


def made_node(number: int, version: int, nodes: int) -> Json:
    """A node of about 6 KB, most of it images."""
    amounts = {"cpu": "128", "memory": "1056000000Ki", "pods": "110", "nvidia.com/gpu": "8"}
    images = [{"names": [f"registry.example/image-{i}@sha256:{i:064x}"], "sizeBytes": 10**9} for i in range(30)]
    return {
        "metadata": {
            "name": f"node-{number:05d}",
            "uid": f"{number:08x}-0000-4000-9000-{number:012x}",
            "resourceVersion": str(version),
            "labels": {f"feature.example/{i}": "true" for i in range(25)},
        },
        "spec": {"providerID": f"example://{number}"},
        "status": {"capacity": amounts, "allocatable": amounts, "images": images},
    }


MADE = {"pods": made_pod, "nodes": made_node}


class MadeServer:
    """Lists `count` objects of each resource; a watch gets `events` changes, in one rush or one by one."""

    def __init__(self, counts: dict[str, int], events: int) -> None:
        self.counts = counts
        self.events = events

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                target = urlsplit(head.split(b" ", 2)[1].decode())
                query = {name: values[0] for name, values in parse_qs(target.query).items()}
                plural = target.path.rsplit("/", 1)[1]
                if "watch" in query:
                    await self._watch(writer, plural, query)
                else:
                    await self._page(writer, plural, query)
        writer.close()

    async def _page(self, writer: asyncio.StreamWriter, plural: str, query: dict[str, str]) -> None:
        begin, count, limit = int(query.get("continue", 0)), self.counts[plural], int(query["limit"])
        end = min(count, begin + limit)
        items = [MADE[plural](number, number + 1, self.counts["nodes"]) for number in range(begin, end)]
        meta = {"resourceVersion": str(count), "continue": str(end) if end < count else ""}
        body = json.dumps({"kind": "List", "metadata": meta, "items": items}, separators=(",", ":")).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body)
        await writer.drain()

    async def _watch(self, writer: asyncio.StreamWriter, plural: str, query: dict[str, str]) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        one_by_one = query.get("labelSelector") == "one-by-one"
        for line in self._lines(plural):
            writer.write(b"%x\r\n%s\r\n" % (len(line), line))
            await writer.drain()
            if one_by_one:
                await asyncio.sleep(PAUSE_S)
        await asyncio.sleep(3600)

    def _lines(self, plural: str) -> Iterator[bytes]:
        count, nodes = self.counts[plural], self.counts["nodes"]
        made = [MADE[plural](number * 7919 % count, 0, nodes) for number in range(min(200, count))]
        for number, item in zip(range(self.events), itertools.cycle(made), strict=False):
            item["metadata"]["resourceVersion"] = str(count + number + 1)
            yield json.dumps({"type": "MODIFIED", "object": item}, separators=(",", ":")).encode() + b"\n"


class DictStore(Generic[T]):
    """Objects by namespace and name."""

    def __init__(self) -> None:
        self.items: dict[tuple[str | None, str], T] = {}
        self.applied = 0

    def replace(self, items: Sequence[T]) -> None:
        """All."""
        self.items = {(item.metadata.namespace, item.metadata.name): item for item in items}

    def apply(self, change: Change, item: T) -> None:
        """One."""
        self.applied += 1
        self.items[item.metadata.namespace, item.metadata.name] = item


def resident_mib() -> float:
    """Memory of this process now."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 2**20


async def measured(api: Api, kind: Resource[T], count: int, events: int, labels: str) -> tuple[DictStore[T], str]:
    """List, then take all events; the row of figures."""
    store: DictStore[T] = DictStore()
    reflector = Reflector(api, kind, store, rng=random.Random(1), label_selector=labels)
    wall, cpu, memory = time.perf_counter(), time.process_time(), resident_mib()
    run = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    listed = (
        f"{time.perf_counter() - wall:7.1f} s {time.process_time() - cpu:7.1f} s {resident_mib() - memory:7.0f} MiB"
    )
    while not store.applied:
        await asyncio.sleep(0)
    cpu, first = time.process_time(), store.applied
    while store.applied < events:
        await asyncio.sleep(0.05)
    per_event = (time.process_time() - cpu) / max(1, events - first) * 1e6
    run.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await run
    assert len(store.items) == count
    return store, f"{listed} {per_event:9.1f} us"


def decoding_us(kind: Resource[T], nodes: int) -> float:
    """CPU of decoding one event, without the rest."""
    codec = Codec(kind)
    line = json.dumps({"type": "MODIFIED", "object": MADE[kind.plural](12345, 1, nodes)}).encode()
    began = time.process_time()
    for _ in range(5000):
        codec.event(line)
    return (time.process_time() - began) / 5000 * 1e6


async def measure(url: str, nodes: int, pods: int, events: int) -> None:
    """Print the table."""
    print(f"{'':30} {'listing':>9} {'its CPU':>9} {'memory':>11} {'CPU / event':>12} {'decoding':>12}")
    config = KubeConfig.from_server(url).get()
    assert config
    kept: list[object] = []

    async def row(kind: Resource[T], count: int, how: str, labels: str) -> None:
        store, figures = await measured(api, kind, count, events, labels)
        print(f"{count:7,} {kind.plural:5}, {how:14} {figures} {decoding_us(kind, nodes):9.1f} us", flush=True)
        kept.append(store)

    async with Api.connect(config, Settings(qps=10_000, burst=10_000)) as api:
        for how, labels in (("in a rush", ""), ("one by one", "one-by-one")):
            kept.clear()
            await row(NODES, nodes, how, labels)
            await row(PODS, pods, how, labels)
    print(f"\nmost memory at any time: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


async def serve(nodes: int, pods: int, events: int) -> None:
    """Serve until killed; the port is printed."""
    made = MadeServer({"nodes": nodes, "pods": pods}, events)
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


@contextlib.contextmanager
def serving(numbers: Sequence[int]) -> Iterator[str]:
    """The URL of a server in a process of its own."""
    command = [sys.executable, __file__, *map(str, numbers), "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def main() -> None:
    """Measure, or serve."""
    said = [argument for argument in sys.argv[1:] if argument != "--serve"]
    nodes, pods, events = [int(number) for number in said] + [5000, 150_000, 20_000][len(said) :]
    if "--serve" in sys.argv:
        asyncio.run(serve(nodes, pods, events))
        return
    with serving((nodes, pods, events)) as url:
        asyncio.run(measure(url, nodes, pods, events))


if __name__ == "__main__":
    main()
