"""A Kubernetes control plane for tests: etcd, kube-apiserver and, while a block runs, kube-scheduler.

The binaries come from the folder that KUBEBUILDER_ASSETS names, as with the other users of that variable. There is no
controller manager and no kubelet: nodes and pods are objects only, nothing makes service accounts, replicas or claims
from templates, nothing taints nodes, and a pod is deleted without anyone's leave. Everything listens on the loopback
interface, keeps its files in one temporary folder, and dies with the process of the tests.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import trustme
from tests.real.api import Api, ApiError, Json
from tests.real.processes import Process, free_ports, running

BINARIES = ("etcd", "kube-apiserver", "kube-scheduler")
# These need the controller manager: the one refuses pods of namespaces without a service account, the other taints
# every new node until the node controller says that it is ready.
WITHOUT_CONTROLLERS = "ServiceAccount,TaintNodesByCondition"


class MissingError(Exception):
    """The control plane cannot be started here; the text says what is missing and where to put it."""


def binaries() -> dict[str, str]:
    """The paths of the programs; MissingError where one is not there."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    if not named:
        raise MissingError("KUBEBUILDER_ASSETS does not name a folder with " + ", ".join(BINARIES))
    paths = {name: Path(named, name) for name in BINARIES}
    for name, path in paths.items():
        if not os.access(path, os.X_OK):
            raise MissingError(f"no {name} that can be run in {named}, the folder that KUBEBUILDER_ASSETS names")
    if not shutil.which("setpriv"):
        raise MissingError("setpriv, of util-linux, is needed to start the control plane")
    return {name: str(path) for name, path in paths.items()}


class Scheduler:
    """A running kube-scheduler: `url` serves /metrics, /readyz and the like to anyone, `log` is what it said."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self.log = log


class ControlPlane(Api):
    """etcd and kube-apiserver, running from `start` to `stop`, with all rights for `token`.

    kubeconfig: a file that kubectl and every client library take.
    folder:     where everything is kept, the logs (`*.log`) too.
    """

    def __init__(self, folder: Path, programs: dict[str, str]) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self._programs = programs
        self._etcd_port, self._etcd_peer_port, self._port = free_ports(3)
        self._etcd: Process | None = None
        self._apiserver: Process | None = None
        authority = trustme.CA()
        ca = folder / "ca.crt"
        authority.cert_pem.write_to_path(ca)
        self._serving = folder / "serving.pem"
        authority.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(self._serving)
        trustme.CA().private_key_pem.write_to_path(folder / "service-accounts.key")
        super().__init__(f"https://127.0.0.1:{self._port}", secrets.token_hex(16), ca)
        (folder / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')
        self._write_kubeconfig()

    @property
    def logs(self) -> list[Path]:
        """What each program said, in the order of their names."""
        return sorted(self.folder.glob("*.log"))

    @property
    def pids(self) -> dict[str, int]:
        """The programs that run from `start` to `stop`."""
        processes = {"etcd": self._etcd, "kube-apiserver": self._apiserver}
        return {name: process.pid for name, process in processes.items() if process}

    def start(self) -> None:
        """Start both programs and wait until the API is ready; RuntimeError with the log's end where it never is."""
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._etcd_peer_port}"
        argv = [self._programs["etcd"], "--data-dir", str(self.folder / "etcd"), "--name", "default"]
        argv += ["--listen-client-urls", client, "--advertise-client-urls", client]
        argv += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        argv += ["--initial-cluster", f"default={peer}"]
        self._etcd = Process(argv, self.folder / "etcd.log")
        self._etcd.wait_ready(lambda: _healthy(f"{client}/health"))
        self._start_apiserver()

    def stop(self) -> None:
        """Kill both programs."""
        for process in (self._apiserver, self._etcd):
            if process:
                process.stop()

    def restart_apiserver(self) -> None:
        """Kill the API server, as a crash would, and start it again on the same port with the same state."""
        assert self._apiserver, "not started"
        self._apiserver.stop()
        self._start_apiserver()

    @contextlib.contextmanager
    def apiserver_down(self) -> Iterator[None]:
        """No API server while the block runs."""
        assert self._apiserver, "not started"
        self._apiserver.stop()
        try:
            yield
        finally:
            self._start_apiserver()

    @contextlib.contextmanager
    def start_scheduler(
        self, extenders: list[Json] | None = None, *, flags: Sequence[str] = (), **options: Any
    ) -> Iterator[Scheduler]:
        """kube-scheduler while the block runs, with these entries of `extenders` in its configuration.

        options: other fields of KubeSchedulerConfiguration, such as `podInitialBackoffSeconds` or `profiles`.
        flags:   more of the command line, such as `--v=5`.
        """
        name = f"kube-scheduler-{len(list(self.folder.glob('kube-scheduler-*.json')))}"
        configuration = self.folder / f"{name}.json"
        configuration.write_text(json.dumps(self._scheduler_configuration(extenders or [], options)))
        (port,) = free_ports(1)
        url = f"https://127.0.0.1:{port}"
        argv = [self._programs["kube-scheduler"], f"--config={configuration}", "--bind-address=127.0.0.1"]
        argv += [f"--secure-port={port}", f"--tls-cert-file={self._serving}", f"--tls-private-key-file={self._serving}"]
        argv += ["--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics", *flags]
        with running(argv, self.folder / f"{name}.log") as process:
            process.wait_ready(lambda: self._healthy_with_tls(f"{url}/readyz"))
            yield Scheduler(url, process.log)

    def scheduler_metrics(self, scheduler: Scheduler) -> str:
        """The scheduler's own measurements, in Prometheus' text form."""
        with urllib.request.urlopen(f"{scheduler.url}/metrics", context=self._tls, timeout=10) as answer:
            return str(answer.read().decode())

    def _start_apiserver(self) -> None:
        keys = self.folder / "service-accounts.key"
        options = {
            "etcd-servers": f"http://127.0.0.1:{self._etcd_port}",
            "bind-address": "127.0.0.1",
            "secure-port": self._port,
            "tls-cert-file": self._serving,
            "tls-private-key-file": self._serving,
            "token-auth-file": self.folder / "tokens.csv",
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": keys,
            "service-account-signing-key-file": keys,
            "service-cluster-ip-range": "10.0.0.0/24",
            "endpoint-reconciler-type": "none",
            "disable-admission-plugins": WITHOUT_CONTROLLERS,
            "allow-privileged": "true",
        }
        argv = [self._programs["kube-apiserver"], *(f"--{name}={value}" for name, value in options.items())]
        self._apiserver = Process(argv, self.folder / "kube-apiserver.log")
        self._apiserver.wait_ready(self._ready)

    def _ready(self) -> bool:
        try:
            self.call("GET", "/readyz")
            return self.find("/api/v1/namespaces/default") is not None
        except (ApiError, OSError, http.client.HTTPException):
            return False

    def _healthy_with_tls(self, url: str) -> bool:
        try:
            with urllib.request.urlopen(url, context=self._tls, timeout=2) as answer:
                return bool(answer.status == http.HTTPStatus.OK)
        except (urllib.error.URLError, OSError, http.client.HTTPException):
            return False

    def _scheduler_configuration(self, extenders: list[Json], options: Json) -> Json:
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.kubeconfig), "qps": 1000, "burst": 1000},
            "extenders": extenders,
            **options,
        }

    def _write_kubeconfig(self) -> None:
        cluster = {"server": self.url, "certificate-authority": str(self.ca)}
        configuration = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        }
        self.kubeconfig.write_text(json.dumps(configuration))


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == http.HTTPStatus.OK)
    except (urllib.error.URLError, OSError, http.client.HTTPException):
        return False
