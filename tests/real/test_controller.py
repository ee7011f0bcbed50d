"""The controller with the rights of its manifests, a real API server, and a real scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.real.api import ApiError, Json
from tests.real.control_plane import ControlPlane
from tests.real.processes import wait_for
from tests.real.stub_extender import stub_extender

from bayplan.cluster.api import (
    Api,
    EventRecorder,
    Leadership,
    LeaseTimes,
    Settings,
    UnavailableError,
    find_config,
)
from bayplan.cluster.controller.controller import Controller
from bayplan.cluster.stores import Sink
from bayplan.fleet.scheduling.events import Measured
from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import MetricKey, Sample
from bayplan.fleet.upkeep.evictions import EvictionSettings
from bayplan.fleet.upkeep.nodes import GENERATION
from bayplan.fleet.upkeep.upkeep import Upkeep, UpkeepSettings
from bayplan.fleet.upkeep.wakes import WakeSettings

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NAMESPACE = "bayplan-system"
PERIOD_S = 0.5
HEAT = "heat"
HOT = {"rules": [{"metricname": HEAT, "operator": "GreaterThan", "target": 80}]}
LABELED = {"rules": [{**HOT["rules"][0], "labels": ["card0=hot"]}]}
LABEL = "telemetry.aware.scheduling.p/card0"
TIMES = LeaseTimes(lease_s=3, renew_deadline_s=2.0, retry_s=0.2)


class Replica:
    """A controller in a thread of its own, fed with `values` (node -> number), until `stop` or `kill`."""

    def __init__(self, kubeconfig: Path, values: Mapping[str, int], settings: UpkeepSettings, identity: str) -> None:
        self.controller: Controller | None = None
        self._api: Api | None = None
        self._kubeconfig = kubeconfig
        self._values = values
        self._settings = settings
        self._identity = identity
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._serve, name=identity or "controller")
        self._thread.start()

    @property
    def is_leading(self) -> bool:
        return self.controller is not None and self.controller.is_leading

    def stop(self) -> None:
        """End as a signal would: the lease is given back."""
        if self._thread.is_alive() and self._task:
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join()

    def kill(self) -> None:
        """End as a crash would, as others see it: nobody is told, the lease is not given back."""

        async def unreachable(path: str, *arguments: Any, **options: Any) -> bytes:
            raise UnavailableError("killed", verb="PUT", path=path)

        assert self._api
        self._api.put = unreachable  # type: ignore[method-assign]
        self.stop()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._run())
        try:
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._task)
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _run(self) -> None:
        rng = random.Random(self._identity)
        settings = Settings(qps=1000, burst=1000)
        async with Api.connect(find_config(self._kubeconfig), settings, rng=rng, trust_env=False) as api:
            self._api = api
            leadership = Leadership(
                api, namespace=NAMESPACE, name="bayplan-controller", identity=self._identity, rng=rng, times=TIMES
            )
            self.controller = Controller(
                api,
                Upkeep(TelemetryEngine(), self._settings),
                self._feed,
                recorder=EventRecorder(api, controller="bayplan.dev/controller", instance="test", rng=rng),
                leadership=leadership if self._identity else None,
                rng=rng,
                now=time.time,
            )
            await self.controller.run()

    async def _feed(self, metrics: Callable[[], frozenset[MetricKey]], sink: Sink) -> None:
        while True:
            now = time.time()
            for metric in metrics():
                samples = {node: Sample.read(value, now) for node, value in dict(self._values).items()}
                sink(Measured(metric=metric, samples=samples))
            await asyncio.sleep(0.1)


@pytest.fixture
def kubeconfig(cluster: ControlPlane, tmp_path: Path) -> Path:
    """The rights that the manifests give, and no others."""
    for file in ("namespace.yaml", "rbac.yaml", "evictions.yaml", "crds/taspolicies.yaml"):
        for document in yaml.safe_load_all((DEPLOY / file).read_text()):
            _apply(cluster, document)
    wait_for("policies are served", lambda: cluster.find("/apis/telemetry.intel.com/v1alpha1/taspolicies"))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/bayplan-controller/token"
    token = json.loads(cluster.call("POST", path, request))["status"]["token"]
    configuration = json.loads(cluster.kubeconfig.read_text())
    configuration["users"][0]["user"] = {"token": token}
    file_ = tmp_path / "kubeconfig"
    file_.write_text(json.dumps(configuration))
    return file_


def _apply(cluster: ControlPlane, document: Json) -> None:
    """Create it for the whole session: a namespace could not be deleted without a controller manager."""
    collection = cluster.collection(document["apiVersion"], document["kind"], NAMESPACE)
    try:
        cluster.call("POST", collection, document)
    except ApiError as error:
        if error.status != 409:
            raise


@pytest.fixture
def values() -> dict[str, int]:
    return {}


@pytest.fixture
def start(kubeconfig: Path, values: dict[str, int]) -> Iterator[Callable[..., Replica]]:
    """Starts a controller; it is stopped after the test."""
    replicas: list[Replica] = []

    def begin(identity: str = "", **settings: Any) -> Replica:
        settings = {"period_s": PERIOD_S, "status_every_s": 0.5, **settings}
        replicas.append(Replica(kubeconfig, values, UpkeepSettings(**settings), identity))
        return replicas[-1]

    yield begin
    for replica in replicas:
        replica.stop()


def policy(cluster: ControlPlane, name: str = "p", **strategies: Any) -> Json:
    return cluster.create(
        {
            "apiVersion": "telemetry.intel.com/v1alpha1",
            "kind": "TASPolicy",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"strategies": strategies},
        }
    )


def labels(cluster: ControlPlane, node: str) -> dict[str, str]:
    found: dict[str, str] = cluster.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
    return {key: value for key, value in found.items() if key != "kubernetes.io/hostname"}


def are_labels(cluster: ControlPlane, node: str, **wanted: str) -> None:
    wait_for(f"labels of {node} are {wanted}", lambda: labels(cluster, node) == wanted)


def test_nodes_are_labelled_and_unlabelled_and_an_api_server_that_restarts_is_outlived(
    cluster: ControlPlane, start: Callable[..., Replica], values: dict[str, int]
) -> None:
    cluster.node("a", {"zone": "x"})
    values["a"] = 95
    policy(cluster, deschedule=HOT, labeling=LABELED)
    replica = start()
    are_labels(cluster, "a", zone="x", p="violating", **{LABEL: "hot"})
    path = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/p"
    status = wait_for(
        "the status says so",
        lambda: (s := cluster.get(path).get("status", {})).get("compliance") == "Violating" and s,
    )
    assert "1 node violates its deschedule rules: a" in status["message"]
    cluster.restart_apiserver()
    values["a"] = 10
    are_labels(cluster, "a", zone="x")
    values["a"] = 95
    are_labels(cluster, "a", zone="x", p="violating", **{LABEL: "hot"})
    replica.stop()
    cluster.delete(path)
    start()
    are_labels(cluster, "a", zone="x")
    assert cluster.get("/api/v1/nodes/a")["metadata"].get("annotations", {}) == {}


@pytest.mark.parametrize("lag_s", [0.0, 1.0], ids=["at once", "an extender that learns it later"])
def test_a_flip_wakes_a_pod_that_waits(
    cluster: ControlPlane, start: Callable[..., Replica], values: dict[str, int], lag_s: float
) -> None:
    cluster.node("a")
    values["a"] = 95
    policy(cluster, dontschedule=HOT)
    cool_at: list[float] = []

    def filter_(body: Json) -> Json:
        if cool_at and time.monotonic() >= cool_at[0] + lag_s:
            return {"NodeNames": body["NodeNames"]}
        return {"NodeNames": [], "FailedNodes": dict.fromkeys(body["NodeNames"], "hot")}

    replica = start(wakes=WakeSettings(again_after_s=2.0))
    wait_for("the controller knows", lambda: replica.is_leading)
    with stub_extender({"filter": filter_}) as stub:
        extender = {"urlPrefix": stub.url, "filterVerb": "filter", "nodeCacheCapable": True}
        with cluster.start_scheduler([extender], podInitialBackoffSeconds=1, podMaxBackoffSeconds=1):
            cluster.pod("w", labels={"telemetry-policy": "p"})
            cluster.refusal("w")
            assert GENERATION not in cluster.get("/api/v1/nodes/a")["metadata"].get("annotations", {})
            cool_at.append(time.monotonic())
            values["a"] = 10
            assert cluster.node_of("w", seconds=30) == "a"
    assert cluster.get("/api/v1/nodes/a")["metadata"]["annotations"][GENERATION].endswith(" default/p")


def test_an_eviction_waits_for_the_disruption_budget(
    cluster: ControlPlane, start: Callable[..., Replica], values: dict[str, int]
) -> None:
    cluster.node("a")
    policy(cluster, deschedule=HOT, dontschedule=HOT)
    budget = cluster.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "v"}}},
        }
    )
    running(cluster, "v", owner="ReplicaSet")
    running(cluster, "daemon", owner="DaemonSet")
    values["a"] = 95
    settings = EvictionSettings(all_policies=True, violation_s=0, budget_pause_s=1)
    replica = start(evictions=settings)
    refused = wait_for("the budget refuses", lambda: told(cluster, "v", "EvictionRefused"))
    assert "a disruption budget refuses" in refused
    assert "deletionTimestamp" not in cluster.get("/api/v1/namespaces/default/pods/v")["metadata"]
    status = {
        "observedGeneration": budget["metadata"]["generation"],
        "disruptionsAllowed": 1,
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    cluster.patch("/apis/policy/v1/namespaces/default/poddisruptionbudgets/keep/status", {"status": status})
    wait_for("it is evicted", lambda: is_going(cluster, "v"))
    assert "node a violates policy default/p, deschedule: heat" in wait_for(
        "it is told", lambda: told(cluster, "v", "Evicted")
    )
    assert not is_going(cluster, "daemon")
    assert replica.controller is not None
    assert replica.controller.upkeep.evictions.counts["evicted"] == 1


def running(cluster: ControlPlane, name: str, *, owner: str) -> None:
    """A pod of policy p that runs on node a. Budgets count only those that run."""
    cluster.pod(name, nodeName="a", labels={"telemetry-policy": "p", "app": name})
    path = f"/api/v1/namespaces/default/pods/{name}"
    reference = {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": f"uid-{name}", "controller": True}
    cluster.patch(path, {"metadata": {"ownerReferences": [reference]}})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    cluster.patch(f"{path}/status", {"status": ready})


def is_going(cluster: ControlPlane, name: str) -> bool:
    found = cluster.find(f"/api/v1/namespaces/default/pods/{name}")
    return found is None or "deletionTimestamp" in found["metadata"]


def told(cluster: ControlPlane, pod: str, reason: str) -> str:
    """The note of an event about a pod, empty where there is none."""
    found = cluster.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    notes = [e["note"] for e in found if e["regarding"]["name"] == pod and e["reason"] == reason]
    return notes[0] if notes else ""


def test_of_two_controllers_one_leads_and_the_other_takes_over_when_it_is_killed(
    cluster: ControlPlane, start: Callable[..., Replica], values: dict[str, int]
) -> None:
    cluster.node("a")
    policy(cluster, deschedule=HOT)
    values["a"] = 95
    first = start("first")
    are_labels(cluster, "a", p="violating")
    second = start("second")
    wait_for("the second knows the cluster", lambda: second.controller and second.controller.is_synced)
    assert first.is_leading
    assert not second.is_leading
    first.kill()
    values["a"] = 10
    wait_for("the second leads", lambda: second.is_leading)
    are_labels(cluster, "a")
    second.stop()
    lease = cluster.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/bayplan-controller")
    assert lease["spec"]["holderIdentity"] == "", "one that is stopped gives the lease back"


@pytest.mark.parametrize("file", sorted((DEPLOY / "scheduler").glob("*.yaml")), ids=lambda file: file.stem)
def test_a_scheduler_takes_the_configuration(cluster: ControlPlane, file: Path) -> None:
    (configuration,) = yaml.safe_load_all(file.read_text())
    for extender in configuration["extenders"]:
        extender["tlsConfig"] = {"insecure": True}
    with cluster.start_scheduler(configuration["extenders"]) as scheduler:
        assert "scheduler_" in cluster.scheduler_metrics(scheduler), "it serves, so it has taken it"


def test_the_manifests_are_what_an_api_server_takes(cluster: ControlPlane, kubeconfig: Path) -> None:
    namespaces = {document["metadata"].get("namespace") for document in _manifests()} - {None, NAMESPACE, "default"}
    for name in namespaces:
        _apply(cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for document in _manifests():
        namespace = document["metadata"].get("namespace", "default")
        collection = cluster.collection(document["apiVersion"], document["kind"], namespace)
        with contextlib.suppress(_AlreadyThere):
            _dry_run(cluster, f"{collection}?dryRun=All&fieldValidation=Strict", document)


class _AlreadyThere(Exception):  # noqa: N818
    """The fixture has made it."""


def _dry_run(cluster: ControlPlane, path: str, document: Json) -> None:
    try:
        cluster.call("POST", path, document)
    except ApiError as error:
        if error.status == 409:
            raise _AlreadyThere from error
        raise


def _manifests() -> list[Json]:
    files = [file for file in sorted(DEPLOY.rglob("*.yaml")) if file.parent.name != "scheduler"]
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]
