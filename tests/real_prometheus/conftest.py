"""A real Prometheus that scrapes real node-exporters: one for each node, each with a text file of its own.

Each exporter has an address of its own (127.0.0.10, 127.0.0.11, ...), as the nodes of a cluster have.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

PROGRAMS = ("prometheus", "prometheus-node-exporter")
SCRAPES = "200ms"
PATIENCE_S = 60.0


def poll_until(condition: Callable[[], object], what: str) -> None:
    """Wait until something is so."""
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends, f"{what}: not within {PATIENCE_S:g} s"
        time.sleep(0.02)


def free_port(address: str) -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def answers(url: str) -> bool:
    """Whether a GET gets a good answer."""
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


class Program:
    """A process of ours, its output in a file. `url` answers when it is ready."""

    def __init__(self, command: list[str], folder: Path, url: str) -> None:
        self.command = command
        self.folder = folder
        self.url = url
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers."""
        with (self.folder / "output.txt").open("ab") as output:
            self.process = subprocess.Popen(self.command, cwd=self.folder, stdout=output, stderr=output)
        poll_until(self._is_ready, f"{self.command[0]} answers at {self.url}")

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "output.txt").read_text()[-2000:]
        return answers(self.url)

    def send(self, number: signal.Signals) -> None:
        """A signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> None:
        """End it; it may have been ended, or be stopped, already."""
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Exporter(Program):
    """A node-exporter with the text file collector and the load."""

    def __init__(self, node: str, address: str, folder: Path) -> None:
        folder.mkdir()
        self.node = node
        self.address = address
        self.target = f"{address}:{free_port(address)}"
        self.text_file = folder / "node.prom"
        command = [
            PROGRAMS[1],
            "--collector.disable-defaults",
            "--collector.textfile",
            f"--collector.textfile.directory={folder}",
            "--collector.loadavg",
            f"--web.listen-address={self.target}",
            "--web.disable-exporter-metrics",
        ]
        super().__init__(command, folder, f"http://{self.target}/metrics")

    def write(self, text: str) -> None:
        """Put text into the file that is served, whole or not at all."""
        draft = self.text_file.with_suffix(".draft")
        draft.write_text(text)
        draft.rename(self.text_file)

    def date(self, when: float) -> None:
        """Make the file as old as a moment says."""
        os.utime(self.text_file, (when, when))


class Monitoring:
    """A Prometheus and its exporters. `scrape` says which nodes it scrapes, from its next start on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exporters: dict[str, Exporter] = {}
        self.url = f"http://127.0.0.1:{free_port('127.0.0.1')}"
        command = [
            PROGRAMS[0],
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--log.level=warn",
        ]
        self.prometheus = Program(command, folder, f"{self.url}/-/ready")

    def add_node(self, node: str, text: str) -> Exporter:
        """One more node, with a text file."""
        exporter = Exporter(node, f"127.0.0.{10 + len(self.exporters)}", self.folder / node)
        self.exporters[node] = exporter
        exporter.write(text)
        exporter.start()
        return exporter

    def start(self, *nodes: str, node_label: bool = True) -> None:
        """Start Prometheus; it scrapes these nodes, all if none are named, with a label `node` or without."""
        lines = [
            f"global: {{scrape_interval: {SCRAPES}, scrape_timeout: {SCRAPES}}}",
            "scrape_configs:",
            "- job_name: nodes",
            "  static_configs:",
        ]
        for node in nodes or self.exporters:
            labels = f", labels: {{node: {node}}}" if node_label else ""
            lines.append(f"  - {{targets: ['{self.exporters[node].target}']{labels}}}")
        (self.folder / "prometheus.yml").write_text("\n".join(lines) + "\n")
        self.prometheus.start()

    def stop(self) -> None:
        """End all of it."""
        for program in (self.prometheus, *self.exporters.values()):
            program.stop()


@pytest.fixture
def monitoring(tmp_path: Path) -> Iterator[Monitoring]:
    """A Prometheus that is not started yet and has no exporters yet."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; .ci/packages installs them")
    monitoring = Monitoring(tmp_path)
    try:
        yield monitoring
    finally:
        monitoring.stop()


@pytest.fixture
def until() -> Callable[[Callable[[], object], str], Awaitable[None]]:
    """Waits, with the event loop running on, until something is so."""

    async def wait(condition: Callable[[], object], what: str) -> None:
        ends = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < ends, f"{what}: not within {PATIENCE_S:g} s"
            await asyncio.sleep(0.02)

    return wait
