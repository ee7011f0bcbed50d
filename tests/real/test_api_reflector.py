"""Lists and watches against a real API server: pages, bookmarks, compaction, restarts, definitions that come and go."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from tests.real.control_plane import ControlPlane

from bayplan.cluster.api import NODES, PODS, AnyObject, Api, Change, Reflector, Resource, Settings, find_config
from bayplan.protocols.kubernetes import NodeObject

pytestmark = pytest.mark.anyio

MANY = 2000
PATIENCE_S = 60


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def api(cluster: ControlPlane) -> AsyncIterator[Api]:
    settings = Settings(qps=10_000, burst=10_000, call_s=30)
    async with Api.connect(find_config(cluster.kubeconfig), settings, rng=random.Random(1), trust_env=False) as api:
        yield api


class Names:
    def __init__(self) -> None:
        self.items: dict[str, Any] = {}
        self.changes: list[Change] = []

    def replace(self, items: Sequence[Any]) -> None:
        self.items = {item.metadata.name: item for item in items}

    def apply(self, change: Change, item: Any) -> None:
        self.changes.append(change)
        if change == "DELETED":
            del self.items[item.metadata.name]
        else:
            self.items[item.metadata.name] = item


async def eventually(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.02)


async def each(call: Callable[[int], Any], count: int = MANY) -> None:
    """`call(number)` for all numbers, some at a time."""
    numbers = iter(range(count))

    async def some() -> None:
        for number in numbers:
            await call(number)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(20):
            tasks.create_task(some())


def reflector_of(api: Api, resource: Resource[Any], store: Names, **more: Any) -> Reflector[Any]:
    return Reflector(api, resource, store, rng=random.Random(1), **more)


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_two_thousand_nodes_and_pods(cluster: ControlPlane, api: Api) -> None:
    def node(number: int) -> Any:
        return api.post(NODES.path(), {"metadata": {"name": f"n{number:04}", "labels": {"v": "1"}}})

    def pod(number: int) -> Any:
        spec = {"containers": [{"name": "c", "image": "registry.invalid/c"}]}
        return api.post(PODS.path("default"), {"metadata": {"name": f"p{number:04}"}, "spec": spec})

    nodes, pods = Names(), Names()
    reflectors = [reflector_of(api, NODES, nodes), reflector_of(api, PODS, pods, namespace="default")]
    try:
        await each(node)
        tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
        await asyncio.gather(*(reflector.synced.wait() for reflector in reflectors))
        assert len(nodes.items) == MANY
        await each(pod)
        await eventually(lambda: len(pods.items) == MANY)
        await each(lambda number: api.patch(NODES.path(None, f"n{number:04}"), {"metadata": {"labels": {"v": "2"}}}))
        await eventually(lambda: len(nodes.changes) >= MANY)
        assert {node.labels["v"] for node in nodes.items.values()} == {"2"}
    finally:
        await api.delete(PODS.path("default"), {"gracePeriodSeconds": 0})
        await api.delete(NODES.path())
    await eventually(lambda: not nodes.items and not pods.items)
    assert [(reflector.counters.lists, reflector.counters.errors) for reflector in reflectors] == [(1, 0), (1, 0)]
    for task in tasks:
        await stop(task)


async def test_a_watch_survives_the_servers_restart(cluster: ControlPlane, api: Api) -> None:
    cluster.node("a")
    store = Names()
    reflector = reflector_of(api, NODES, store)
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    # The control plane's processes end with the thread that starts them, so this blocks ours.
    cluster.restart_apiserver()
    cluster.node("b")
    cluster.delete("/api/v1/nodes/a")
    await eventually(lambda: sorted(store.items) == ["b"])
    assert reflector.counters.errors > 0
    await stop(task)


async def test_a_version_that_was_compacted_is_listed_again(cluster: ControlPlane, api: Api) -> None:
    """A version far in the past is refused by the server as one that etcd has compacted is."""
    cluster.node("a")
    store = Names()
    reflector = reflector_of(api, NODES, store)
    reflector._version = "1"
    task = asyncio.create_task(reflector.run())
    await eventually(lambda: sorted(store.items) == ["a"])
    await stop(task)


async def test_selectors(cluster: ControlPlane, api: Api) -> None:
    cluster.node("a", {"rack": "1"})
    cluster.node("b", {"rack": "2"})
    cluster.node("c", {"rack": "1"})
    store = Names()
    reflector = reflector_of(api, NODES, store, label_selector="rack=1", field_selector="metadata.name!=c")
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    assert sorted(store.items) == ["a"]
    cluster.patch("/api/v1/nodes/a", {"metadata": {"labels": {"rack": "2"}}})
    await eventually(lambda: not store.items)
    assert store.changes[-1] == "DELETED", "what leaves the selection is gone"
    await stop(task)


async def test_pages_are_of_one_version(cluster: ControlPlane, api: Api) -> None:
    for name in "abc":
        cluster.node(name)
    pages = []
    async for page in api.list_pages(NODES, page_objects=1):
        pages.append(page)
        cluster.delete(f"/api/v1/nodes/{'cba'[len(pages) - 1]}")
    assert [item.name for page in pages for item in page.items] == ["a", "b", "c"]
    assert len({page.resource_version for page in pages}) == 1


async def test_a_definition_that_comes_and_goes(cluster: ControlPlane, api: Api) -> None:
    group = "reflected.example.com"
    berths = Resource(group=group, plural="berths", type=AnyObject)
    store = Names()
    reflector = reflector_of(api, berths, store, missing_retry_s=0.2)
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    assert reflector.missing
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "berths", "singular": "berth", "kind": "Berth", "listKind": "BerthList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"berths.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    cluster.create(definition)
    cluster.create({"apiVersion": f"{group}/v1", "kind": "Berth", "metadata": {"name": "b"}})
    await eventually(lambda: sorted(store.items) == ["b"])
    assert not reflector.missing
    cluster.clear()
    await eventually(lambda: reflector.missing and not store.items)
    assert reflector.counters.unreadable == 0
    await stop(task)


async def test_what_the_role_does_not_allow_is_said(cluster: ControlPlane, api: Api) -> None:
    async with Api.connect(find_config(_stranger(cluster)), rng=random.Random(1), trust_env=False) as stranger:
        reflector: Reflector[NodeObject] = reflector_of(stranger, NODES, Names())
        task = asyncio.create_task(reflector.run())
        await eventually(lambda: reflector.counters.errors)
        assert "401 Unauthorized" in reflector.counters.last_error
        assert not reflector.synced.is_set()
        await stop(task)


def _stranger(cluster: ControlPlane) -> Any:
    """The kubeconfig of somebody whom the server does not know."""
    path = cluster.folder / "stranger"
    path.write_text(cluster.kubeconfig.read_text().replace(cluster.token, "nobody"))
    return path
