"""`bayplan extender` and `bayplan controller` as processes, with a real API server, scheduler and Prometheus."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from tests.real.api import Json
from tests.real.control_plane import ControlPlane
from tests.real.processes import wait_for
from tests.real_prometheus.conftest import Monitoring, monitoring

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PROGRAM = "from bayplan.cli import main; main()"
TELEMETRY = {"telemetry/scheduling": "1"}
__all__ = ["monitoring"]  # a fixture of another folder


class Bayplan:
    """One of its long-running commands. `ports` are those that it said it listens on."""

    def __init__(self, command: str, plane: ControlPlane, folder: Path, *arguments: str) -> None:
        environment = {**os.environ, "POD_NAME": f"{command}-{len(list(folder.glob('*.log')))}"}
        environment["POD_NAMESPACE"] = "default"
        self.log = folder / f"{environment['POD_NAME']}.log"
        self.lines: list[Json] = []
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, command, "--kubeConfig", str(plane.kubeconfig), *arguments],
            stderr=subprocess.PIPE,
            env=environment,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def ports(self) -> tuple[int, int]:
        """For the scheduler, and for whoever watches."""
        told: Json = wait_for(
            "it listens", lambda: next((x for x in self.lines if x.get("event") == "listening"), None)
        )
        return told["port"], told["watch_port"]

    def is_ready(self) -> bool:
        url = f"http://127.0.0.1:{self.ports[1]}/readyz"
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        ended = self.process.wait(30)
        self._reader.join()
        return ended

    def _read(self) -> None:
        assert self.process.stderr
        with self.log.open("wb") as log:
            for line in self.process.stderr:
                log.write(line)
                log.flush()
                with contextlib.suppress(ValueError):
                    self.lines.append(json.loads(line))
        self.process.stderr.close()


class World:
    """The control plane, a Prometheus, and what of Bayplan runs beside them."""

    def __init__(self, plane: ControlPlane, monitoring: Monitoring, folder: Path) -> None:
        self.plane = plane
        self.monitoring = monitoring
        self.folder = folder
        self.running: list[Bayplan] = []
        self.configuration = folder / "bayplan.yaml"
        self.configuration.write_text(
            yaml.safe_dump(
                {
                    "sources": {
                        "prometheus": [{"access": {"url": monitoring.url}}],
                        "polling": {"intervalS": 0.5, "timeoutS": 2},
                    }
                }
            )
        )
        authority = trustme.CA()
        self.ca = folder / "ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        self.server, self.client = folder / "server.pem", folder / "client.pem"
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(self.server)
        authority.issue_cert("scheduler").private_key_and_cert_chain_pem.write_to_path(self.client)

    def extender(self, *arguments: str) -> Bayplan:
        tls = ["--cert", str(self.server), "--key", str(self.server), "--cacert", str(self.ca)]
        return self._start("extender", "--port=0", "--watch-port=0", "--host=127.0.0.1", *tls, *arguments)

    def controller(self) -> Bayplan:
        return self._start("controller", "--host=127.0.0.1", f"--port={_free_port()}")

    def entry(self, extender: Bayplan, **fields: Any) -> Json:
        """How the scheduler is told of it; as shipped by TAS unless told."""
        return {
            "urlPrefix": f"https://127.0.0.1:{extender.ports[0]}",
            "filterVerb": "scheduler/filter",
            "prioritizeVerb": "scheduler/prioritize",
            "weight": 1,
            "enableHTTPS": True,
            "managedResources": [{"name": "telemetry/scheduling", "ignoredByScheduler": True}],
            "ignorable": False,
            "tlsConfig": {"caFile": str(self.ca), "certFile": str(self.client), "keyFile": str(self.client)},
            **fields,
        }

    def _start(self, command: str, *arguments: str) -> Bayplan:
        started = Bayplan(command, self.plane, self.folder, "--config", str(self.configuration), *arguments)
        self.running.append(started)
        return started


@pytest.fixture
def world(cluster: ControlPlane, monitoring: Monitoring, tmp_path: Path) -> Iterator[World]:
    for definition in sorted((DEPLOY / "crds").glob("*.yaml")):
        for document in yaml.safe_load_all(definition.read_text()):
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{document['metadata']['name']}"
            wait_for("the one of an earlier test is gone", partial(_is_gone, cluster, path))
            cluster.create(document)
    folder = tmp_path / "bayplan"
    folder.mkdir()
    world = World(cluster, monitoring, folder)
    try:
        yield world
    finally:
        for each in world.running:
            if each.process.poll() is None:
                each.stop(signal.SIGKILL)


def _is_gone(plane: ControlPlane, path: str) -> bool:
    return plane.find(path) is None


def policy(name: str, **strategies: Json) -> Json:
    return {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"strategies": strategies},
    }


def _rule(metric: str, operator: str, target: int) -> Json:
    return {"rules": [{"metricname": metric, "operator": operator, "target": target}]}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("names", [True, False], ids=["names", "nodes"])
def test_a_policy_is_obeyed_and_a_flip_wakes_the_pod_that_waits(world: World, names: bool) -> None:
    plane, monitoring = world.plane, world.monitoring
    exporters = {node: monitoring.add_node(node, f"heat {heat}\n") for node, heat in (("a", 90), ("b", 50), ("c", 20))}
    monitoring.start()
    for node in exporters:
        plane.node(node)
    plane.create(
        policy("cool", dontschedule=_rule("heat", "GreaterThan", 60), scheduleonmetric=_rule("heat", "LessThan", 0))
    )
    plane.create(policy("none", dontschedule=_rule("heat", "GreaterThan", 10)))
    extender = world.extender("--no-bind")
    world.controller()
    wait_for("the extender is ready", extender.is_ready)

    with plane.start_scheduler([world.entry(extender, nodeCacheCapable=names)]):
        plane.pod("cool", TELEMETRY, labels={"telemetry-policy": "cool"})
        assert plane.node_of("cool") == "c"

        plane.pod("waits", TELEMETRY, labels={"telemetry-policy": "none"})
        refused = plane.refusal("waits")
        assert "policy default/none, dontschedule: heat GreaterThan 10" in refused["message"]

        exporters["b"].write("heat 5\n")
        assert plane.node_of("waits", seconds=30) == "b"

        plane.pod("lost", TELEMETRY, labels={"telemetry-policy": "missing"})
        assert "policy default/missing does not exist" in plane.refusal("lost")["message"]


def test_it_binds_where_it_is_the_binder_and_another_replica_takes_over(world: World) -> None:
    plane = world.plane
    world.monitoring.start(*[])
    for node in ("a", "b"):
        plane.node(node)
    first = world.extender()
    wait_for("the first is ready", first.is_ready)
    second = world.extender()
    wait_for("the second follows", lambda: any("leading" in str(x) or x.get("event") for x in second.lines))
    assert not second.is_ready()

    with plane.start_scheduler([world.entry(first, bindVerb="scheduler/bind", nodeCacheCapable=True)]):
        plane.pod("one", TELEMETRY)
        assert plane.node_of("one") in ("a", "b")
    assert any(line.get("event") == "bound" for line in first.lines)

    assert first.stop() == 0
    wait_for("the second leads", second.is_ready)
    with plane.start_scheduler([world.entry(second, bindVerb="scheduler/bind", nodeCacheCapable=True)]):
        plane.pod("two", TELEMETRY)
        assert plane.node_of("two") in ("a", "b")


def test_a_client_without_a_certificate_is_not_answered(world: World) -> None:
    world.monitoring.start(*[])
    extender = world.extender("--no-bind")
    context = ssl.create_default_context(cafile=str(world.ca))
    with pytest.raises(OSError, match=r"(?i)certificate|reset|closed|EOF"):
        urllib.request.urlopen(f"https://127.0.0.1:{extender.ports[0]}/scheduler/filter", data=b"{}", context=context)
