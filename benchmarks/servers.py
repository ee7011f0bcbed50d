"""What receiving and answering a large request costs: `python benchmarks/servers.py [--quick] [--requests N]`.

The same POST of 5,000 whole nodes (37 MB), over loopback and one kept connection, to this project's server and, side by
side in one run, to those of libraries that are installed. Two rows each: `take` receives the body and answers its
length; `filter` also reads it and answers with four nodes of five, whole, as an extender does. Printed are milliseconds
of the server's processor for each request (its process's, from /proc) and the median time that the client waited, and
how many times ours that is.
The body is one recorded in the shared data if that is there, and else a made one of the same shape.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import importlib.util
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bayplan.cluster.http import HttpServer, Request, Response
from bayplan.protocols.extender import FilterAnswer, filter_answer, read_args

REPOSITORY = Path(__file__).resolve().parent.parent
RECORDED = "extender-bodies/bodies/tas_full_5000.json.gz"
NODES = 5_000
MOST_BODY_BYTES = 1 << 30
TICKS = os.sysconf("SC_CLK_TCK")
WORK = ("take", "filter")


def made_body(nodes: int) -> bytes:
    """A filter's body of that many nodes, 7 KB each, as kube-scheduler writes them."""
    images = [
        {"names": [f"registry.example.com/team/service-{i}@sha256:{i:064x}"], "sizeBytes": 10**8 + i} for i in range(42)
    ]
    labels = {f"example.com/label-{i}": f"value-{i}" for i in range(20)}
    items = [
        {
            "metadata": {"name": f"node-{i:05d}", "uid": f"{i:036x}", "resourceVersion": str(i), "labels": labels},
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}, "images": images},
        }
        for i in range(nodes)
    ]
    pod = {"metadata": {"name": "web", "namespace": "default", "uid": "1"}, "spec": {"containers": [{"name": "main"}]}}
    args = {"Pod": pod, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}
    return json.dumps(args, separators=(",", ":")).encode()


def body_of(nodes: int) -> bytes:
    shared = Path(os.environ.get("BAYPLAN_SHARED_DATA") or REPOSITORY.parent / "shared" / "data")
    if nodes == NODES and (shared / RECORDED).is_file():
        return gzip.decompress((shared / RECORDED).read_bytes())
    return made_body(nodes)


def answered(work: str, body: bytes | memoryview) -> Sequence[bytes | bytearray | memoryview]:
    """The pieces of the answer: the same work behind every server."""
    if work == "take":
        return [b"%d" % len(body)]
    args = read_args(body)
    return filter_answer(args, FilterAnswer(failed=dict.fromkeys(args.names[::5], "full")))


async def serve_bayplan(work: str) -> None:
    def handler(request: Request) -> Response:
        return Response(pieces=answered(work, request.body))

    def failed(error: BaseException) -> None:
        raise error

    server = HttpServer(handler, failed=failed)
    await server.start("127.0.0.1", 0)
    _tell(server.port)
    await asyncio.Event().wait()


async def serve_aiohttp(work: str) -> None:
    from aiohttp import web

    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=b"".join(answered(work, await request.read())), content_type="application/json")

    application = web.Application(client_max_size=MOST_BODY_BYTES)
    application.router.add_post("/", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    _tell(runner.addresses[0][1])
    await asyncio.Event().wait()


SERVERS: dict[str, Callable[[str], object]] = {
    "bayplan": lambda work: asyncio.run(serve_bayplan(work)),
    "aiohttp": lambda work: asyncio.run(serve_aiohttp(work)),
}


def _tell(port: int) -> None:
    print(port, flush=True)


def cpu_ms(pid: int) -> float:
    """What a process has used so far; counted in ticks of (mostly) 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / TICKS


def post(connection: socket.socket, body: bytes) -> int:
    """One request and its answer, whose length is returned."""
    connection.sendall(
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        % len(body)
    )
    connection.sendall(body)
    got = bytearray(connection.recv(1 << 20))
    while b"\r\n\r\n" not in got:
        got += connection.recv(1 << 20)
    head, _, _ = bytes(got).partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise SystemExit(head.decode("latin-1"))
    lengths = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    length = int(lengths[0])
    left = len(head) + 4 + length - len(got)
    sink = bytearray(1 << 20)
    while left:
        left -= connection.recv_into(sink)
    return length


def measure(server: str, work: str, body: bytes, requests: int) -> tuple[float, float]:
    """CPU milliseconds for each request, and the median of the client's waiting, also in milliseconds."""
    command = [sys.executable, __file__, "--serve", server, "--work", work]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            with socket.create_connection(("127.0.0.1", port)) as connection:
                post(connection, body)
                before, waited = cpu_ms(process.pid), []
                for _ in range(requests):
                    start = time.perf_counter()
                    post(connection, body)
                    waited.append(1000 * (time.perf_counter() - start))
                return (cpu_ms(process.pid) - before) / requests, statistics.median(waited)
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="100 nodes, few requests: shows only that it runs")
    parser.add_argument("--requests", type=int, default=30)
    parser.add_argument("--serve", choices=SERVERS, help=argparse.SUPPRESS)
    parser.add_argument("--work", choices=WORK, default="take", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        SERVERS[arguments.serve](arguments.work)
        return
    body = body_of(100 if arguments.quick else NODES)
    requests = 3 if arguments.quick else arguments.requests
    print(f"a body of {len(body) / 1e6:.1f} MB, {requests} requests")
    print(f"{'server':<10} {'work':<8} {'CPU ms':>8} {'p50 ms':>8} {'CPU':>7} {'p50':>7}")
    for work in WORK:
        ours: tuple[float, float] | None = None
        for server in SERVERS:
            if importlib.util.find_spec(server) is None:
                print(f"{server:<10} {work:<8} is not installed")
                continue
            cpu, waited = measure(server, work, body, requests)
            ours = ours or (cpu, waited)
            # A quick run may be over within one tick of the processor's clock.
            times = f"{cpu / ours[0]:>6.1f}x" if ours[0] else f"{'-':>7}"
            print(f"{server:<10} {work:<8} {cpu:>8.1f} {waited:>8.1f} {times} {waited / ours[1]:>6.1f}x", flush=True)


if __name__ == "__main__":
    main()
