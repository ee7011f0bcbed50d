"""What is written to a real API server, and what it refuses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.real.control_plane import ControlPlane

from bayplan.cluster.api import (
    NODES,
    PODS,
    AlreadyBoundError,
    Api,
    ConflictError,
    EventRecorder,
    InvalidError,
    Leadership,
    LeaseTimes,
    NotFoundError,
    ObjectRef,
    Outcome,
    Settings,
    bind,
    evict,
    find_config,
    patch_metadata,
    patch_status,
)

pytestmark = pytest.mark.anyio

CARDS = {"gas-container-cards": "card0,card1", "gas-ts": "1"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def api(cluster: ControlPlane) -> AsyncIterator[Api]:
    async with Api.connect(
        find_config(cluster.kubeconfig), Settings(call_s=30), rng=random.Random(1), trust_env=False
    ) as api:
        yield api


def ref(item: dict[str, Any]) -> ObjectRef:
    meta = item["metadata"]
    return ObjectRef(namespace=meta.get("namespace", ""), name=meta["name"], uid=meta["uid"])


def path(pod: ObjectRef) -> str:
    return PODS.path(pod.namespace, pod.name)


async def test_a_bind_carries_the_annotations(cluster: ControlPlane, api: Api) -> None:
    cluster.node("a")
    pod = ref(cluster.pod("p", annotations={"mine": "kept", "gas-ts": "0"}))
    await bind(api, pod, "a", CARDS)
    found = cluster.get(path(pod))
    assert found["spec"]["nodeName"] == "a"
    assert found["metadata"]["annotations"] == {"mine": "kept", **CARDS}
    version = found["metadata"]["resourceVersion"]
    await bind(api, pod, "a", CARDS)
    assert cluster.get(path(pod))["metadata"]["resourceVersion"] == version, "asked again, nothing happens"


async def test_a_pod_that_is_bound_otherwise_is_left_alone(cluster: ControlPlane, api: Api) -> None:
    pod = ref(cluster.pod("p"))
    await bind(api, pod, "a", CARDS)
    for node, cards in (("b", CARDS), ("a", {**CARDS, "gas-container-cards": "card7"})):
        with pytest.raises(AlreadyBoundError, match="default/p is bound to a already") as already:
            await bind(api, pod, node, cards)
        assert already.value.node == "a"
        assert already.value.annotations == CARDS


async def test_a_bind_of_another_pod_of_the_name_is_refused(cluster: ControlPlane, api: Api) -> None:
    pod = ref(cluster.pod("p"))
    cluster.delete(path(pod))
    with pytest.raises(NotFoundError):
        await bind(api, pod, "a", CARDS)
    new = ref(cluster.pod("p"))
    with pytest.raises(NotFoundError, match=f"default/p is another pod now, of UID {new.uid}"):
        await bind(api, pod, "a", CARDS)
    found = cluster.get(path(pod))
    assert "nodeName" not in found["spec"]
    assert "annotations" not in found["metadata"]


async def test_of_many_binds_of_one_pod_one_wins(cluster: ControlPlane, api: Api) -> None:
    pod = ref(cluster.pod("p"))
    tries = [bind(api, pod, f"n{number}", {"gas-container-cards": f"card{number}"}) for number in range(16)]
    errors = [error for error in await asyncio.gather(*tries, return_exceptions=True) if error]
    assert [type(error) for error in errors] == [AlreadyBoundError] * 15
    found = cluster.get(path(pod))
    number = found["spec"]["nodeName"].removeprefix("n")
    assert found["metadata"]["annotations"] == {"gas-container-cards": f"card{number}"}, "node and cards of one bind"


async def test_a_budget_refuses_an_eviction(cluster: ControlPlane, api: Api) -> None:
    pod = ref(cluster.pod("p", labels={"app": "x"}))
    await bind(api, pod, "a")
    ready = [{"type": "Ready", "status": "True"}]
    cluster.patch(f"{path(pod)}/status", {"status": {"phase": "Running", "conditions": ready}})
    selector = {"matchLabels": {"app": "x"}}
    budget = cluster.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": selector},
        }
    )
    said = await evict(api, pod)
    assert said.outcome is Outcome.BUDGET
    assert "still being processed" in said.message
    budget_path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b/status"
    status: dict[str, Any] = {"observedGeneration": budget["metadata"]["generation"], "disruptionsAllowed": 0}
    status |= {"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    cluster.patch(budget_path, {"status": status})
    said = await evict(api, pod)
    assert said.outcome is Outcome.BUDGET
    assert "The disruption budget b needs 1 healthy pods and has 1 currently" in said.message
    assert "deletionTimestamp" not in cluster.get(path(pod))["metadata"]
    cluster.patch(budget_path, {"status": {"disruptionsAllowed": 1}})
    assert (await evict(api, pod, dry_run=True)).outcome is Outcome.EVICTED
    assert cluster.find(path(pod)), "only asked"
    assert (await evict(api, pod, grace_s=0)).outcome is Outcome.EVICTED
    assert cluster.find(path(pod)) is None
    assert (await evict(api, pod)).outcome is Outcome.GONE


async def test_another_pod_of_the_name_is_not_evicted(cluster: ControlPlane, api: Api) -> None:
    pod = ref(cluster.pod("p"))
    cluster.delete(path(pod))
    new = cluster.pod("p")
    assert (await evict(api, pod)).outcome is Outcome.GONE
    assert cluster.get(path(pod))["metadata"]["uid"] == new["metadata"]["uid"]
    assert "deletionTimestamp" not in cluster.get(path(pod))["metadata"]


async def test_labels_and_annotations(cluster: ControlPlane, api: Api) -> None:
    node = ref(cluster.node("a", {"old": "1"}))
    await patch_metadata(api, NODES, node, labels={"new": "2", "old": None, "never": None}, annotations={"why": "hot"})
    meta = cluster.get("/api/v1/nodes/a")["metadata"]
    assert meta["labels"] == {"kubernetes.io/hostname": "a", "new": "2"}
    assert meta["annotations"] == {"why": "hot"}
    with pytest.raises(InvalidError, match="labels"):
        await patch_metadata(api, NODES, node, labels={"no label": "x"})
    with pytest.raises(ConflictError):
        await patch_metadata(api, NODES, ObjectRef(name="a", uid="another"), labels={"new": "3"})
    with pytest.raises(NotFoundError):
        await patch_metadata(api, NODES, ObjectRef(name="b"), labels={"new": "3"})
    assert cluster.get("/api/v1/nodes/a")["metadata"]["labels"]["new"] == "2"


async def test_the_status_subresource(cluster: ControlPlane, api: Api) -> None:
    pod = ref(cluster.pod("p"))
    version = cluster.get(path(pod))["metadata"]["resourceVersion"]
    await patch_status(api, PODS, pod, {"message": "hello"}, resource_version=version)
    assert cluster.get(path(pod))["status"]["message"] == "hello"
    with pytest.raises(ConflictError):
        await patch_status(api, PODS, pod, {"message": "again"}, resource_version=version)


async def test_events_are_accepted_and_counted(cluster: ControlPlane, api: Api) -> None:
    pod = cluster.pod("p")
    node = cluster.node("a")
    recorder = EventRecorder(api, controller="bayplan.dev/extender", instance="extender-0", rng=random.Random(1))
    for _ in range(3):
        recorder.tell("Pod", ref(pod), reason="Refused", action="Filter", note="load 95.5 > 80", is_warning=True)
    recorder.tell("Node", ref(node), reason="Labelled", action="Label", note="too hot")
    await recorder.flush()
    assert (recorder.counters.sent, recorder.counters.failed) == (2, 0)
    (event,) = cluster.events(pod)
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Refused", "load 95.5 > 80")
    assert event["series"]["count"] == 3
    for item in cluster.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]:
        cluster.delete(f"/apis/events.k8s.io/v1/namespaces/default/events/{item['metadata']['name']}")


async def test_an_election(cluster: ControlPlane, api: Api) -> None:
    leaders: list[str] = []
    times = LeaseTimes(lease_s=2, renew_deadline_s=1.5, retry_s=0.1)

    def candidate(name: str) -> tuple[Leadership, asyncio.Task[None]]:
        async def work() -> None:
            leaders.append(name)
            await asyncio.Event().wait()

        leadership = Leadership(
            api, namespace="default", name="election", identity=name, rng=random.Random(name), times=times
        )
        return leadership, asyncio.create_task(leadership.run(work))

    async def led_by(*names: str) -> None:
        async with asyncio.timeout(30):
            while leaders != list(names):
                await asyncio.sleep(0.02)

    first, task = candidate("a")
    await led_by("a")
    second, other = candidate("b")
    async with asyncio.timeout(30):
        while second.holder != "a":
            await asyncio.sleep(0.02)
    task.cancel()
    await led_by("a", "b")
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/election"
    spec = cluster.get(lease)["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)
    assert (first.is_leading, second.is_leading) == (False, True)
    other.cancel()
    await asyncio.wait({task, other})
    assert cluster.get(lease)["spec"].get("holderIdentity", "") == ""
    cluster.delete(lease)
