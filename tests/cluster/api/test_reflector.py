"""Whatever the server does, the store ends up as the server has it, and nothing is listed again without need."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from bayplan.cluster.api import NODES, Api, Change, ObjectRef, Reflector, Resource, Settings
from bayplan.errors import InputError
from bayplan.protocols.kubernetes import NodeObject, ObjectMeta

pytestmark = pytest.mark.anyio

FAST = Settings(qps=10_000, burst=10_000, page_objects=3, call_s=2.0, watch_idle_s=0.2)
EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


class Names:
    """A store that keeps what every name's label `v` is."""

    def __init__(self, refuses: str = "") -> None:
        self.items: dict[str, str] = {}
        self.calls: list[str] = []
        self.refuses = refuses

    def replace(self, items: Sequence[NodeObject]) -> None:
        self.calls.append("replace")
        self.items = {item.name: item.labels.get("v", "") for item in items}

    def apply(self, change: Change, item: NodeObject) -> None:
        if item.name == self.refuses:
            raise InputError("not a node of ours", place="metadata.name", value=item.name)
        self.calls.append(f"{change} {item.name}")
        if change == "DELETED":
            self.items.pop(item.name, None)
        else:
            self.items[item.name] = item.labels.get("v", "")


class Strict(msgspec.Struct, frozen=True):
    """An object whose `size` must be a number."""

    metadata: ObjectMeta
    size: int


class Sizes:
    def __init__(self) -> None:
        self.items: dict[str, int] = {}

    def replace(self, items: Sequence[Strict]) -> None:
        self.items = {item.metadata.name: item.size for item in items}

    def apply(self, change: Change, item: Strict) -> None:
        self.items[item.metadata.name] = item.size


STRICT = Resource(group="example.com", plural="berths", type=Strict)


@pytest.fixture
async def reflect(server: Any, api_of: Callable[..., Api]) -> AsyncIterator[Callable[..., Reflector[Any]]]:
    """A reflector of the made server."""

    def make(store: Any, resource: Resource[Any] = NODES, **more: Any) -> Reflector[Any]:
        return Reflector(api, resource, store, rng=random.Random(1), **more)

    async with api_of(server.url, FAST) as api:
        yield make


def same(server: Any, store: Names) -> bool:
    return store.items == {
        name: item["metadata"].get("labels", {}).get("v", "") for name, item in server.objects.items()
    }


async def test_it_lists_in_pages_and_then_watches(server: Any, reflect: Any, running: Any, eventually: Any) -> None:
    for number in range(7):
        server.put(f"n{number}")
    store = Names()
    reflector = reflect(store)
    async with running(reflector.run()):
        await reflector.synced.wait()
        assert sorted(store.items) == [f"n{number}" for number in range(7)]
        server.put("n7")
        server.remove("n0")
        server.put("n1")
        await eventually(lambda: len(store.calls) == 4)
    assert store.calls == ["replace", "ADDED n7", "DELETED n0", "MODIFIED n1"]
    assert server.log == ["LIST", "LIST", "LIST", "WATCH 8"]
    counters = reflector.counters
    assert (counters.lists, counters.relists, counters.watches, counters.events, counters.errors) == (1, 0, 1, 3, 0)
    assert counters.last_event_at is not None
    assert counters.last_event_at == counters.last_contact_at
    assert reflector.resource_version == "11"


async def test_a_broken_watch_goes_on_where_it_was(server: Any, reflect: Any, running: Any, eventually: Any) -> None:
    store = Names()
    reflector = reflect(store)
    async with running(reflector.run()):
        await eventually(lambda: "WATCH 1" in server.log)
        server.put("a")
        await eventually(lambda: "a" in store.items)
        server.break_connections()
        server.put("b")
        await eventually(lambda: "b" in store.items)
    assert server.log == ["LIST", "WATCH 1", "WATCH 2"]
    assert store.calls == ["replace", "ADDED a", "ADDED b"]
    assert reflector.counters.errors == 1
    assert reflector.counters.relists == 0


async def test_a_hung_watch_is_given_up(server: Any, reflect: Any, running: Any, eventually: Any) -> None:
    server.is_hung = True
    store = Names()
    reflector = reflect(store)
    async with running(reflector.run()):
        await eventually(lambda: "WATCH 1" in server.log)
        server.put("a")
        await eventually(lambda: reflector.counters.errors)
        assert "nothing came for 0.2 s" in reflector.counters.last_error
        server.is_hung = False
        await eventually(lambda: "a" in store.items)
    assert reflector.counters.relists == 0


async def test_bookmarks_spare_a_new_list(server: Any, reflect: Any, running: Any, eventually: Any) -> None:
    server.sends_bookmarks = True
    store = Names()
    reflector = reflect(store)
    async with running(reflector.run()):
        await eventually(lambda: "WATCH 1" in server.log)
        server.version = 40
        await eventually(lambda: reflector.resource_version == "40")
        server.compact()
        server.break_connections()
        await eventually(lambda: "WATCH 40" in server.log)
    assert reflector.counters.bookmarks == 1
    assert reflector.counters.events == 0
    assert reflector.counters.relists == 0


@pytest.mark.parametrize("as_status", [True, False], ids=["as the answer", "as an event"])
async def test_what_the_server_forgot_is_listed_again(
    as_status: bool, server: Any, reflect: Any, running: Any, eventually: Any
) -> None:
    server.put("a")
    server.put("b")
    store = Names()
    reflector = reflect(store)
    async with running(reflector.run()):
        await eventually(lambda: "WATCH 3" in server.log)
        server.remove("a")
        server.put("c")
        server.compact()
        if as_status:
            server.refusals.append((410, EXPIRED, ""))
        server.break_connections()
        await eventually(lambda: sorted(store.items) == ["b", "c"])
    assert store.calls == ["replace", "replace"]
    assert reflector.counters.relists == 1


async def test_a_list_that_is_too_slow_begins_again_with_larger_pages(
    server: Any, reflect: Any, running: Any, eventually: Any
) -> None:
    for number in range(7):
        server.put(f"n{number}")

    def first_page_only() -> None:
        if server.log.count("LIST") == 2:
            server.put("n8")
            server.compact()

    server.before_page = first_page_only
    store = Names()
    reflector = reflect(store)
    async with running(reflector.run()):
        await reflector.synced.wait()
    assert len(store.items) == 8
    assert server.log[:3] == ["LIST", "LIST", "LIST"], "the third has all that is left in one page"
    assert reflector.counters.lists == 1


async def test_a_server_that_restarts_is_awaited(server: Any, reflect: Any, running: Any, eventually: Any) -> None:
    store = Names()
    reflector = reflect(store)
    async with running(reflector.run()):
        await reflector.synced.wait()
        await server.stop()
        server.put("a")
        await eventually(lambda: reflector.counters.errors >= 2)
        await server.start()
        await eventually(lambda: "a" in store.items)
    assert reflector.counters.relists == 0


async def test_refusals_are_repeated_more_and_more_slowly(server: Any, reflect: Any, running: Any) -> None:
    server.refusals = [(500, {"message": "etcd is away"}, "")] * 3 + [(403, {"reason": "Forbidden"}, "")]
    store = Names()
    reflector = reflect(store)
    waits: list[float] = []
    reflector._backoff._first_s = reflector._backoff._next_s = 0.01
    next_wait = reflector._backoff.next

    def noted() -> float:
        waits.append(next_wait())
        return waits[-1]

    reflector._backoff.next = noted
    async with running(reflector.run()):
        await reflector.synced.wait()
    assert reflector.counters.errors == 4
    assert all(0.5 <= wait / (0.01 * 2**number) <= 1 for number, wait in enumerate(waits))


async def test_throttling_is_obeyed(server: Any, reflect: Any, running: Any) -> None:
    server.refusals = [(429, {"message": "slow down"}, "Retry-After: 1\r\n")]
    reflector = reflect(Names())
    began = asyncio.get_running_loop().time()
    async with running(reflector.run()):
        await reflector.synced.wait()
    assert asyncio.get_running_loop().time() - began >= 1.0
    assert reflector.counters.errors == 0, "the call was made again, not the list"


async def test_a_definition_that_is_not_installed_is_like_no_objects(
    server: Any, reflect: Any, running: Any, eventually: Any
) -> None:
    server.put("a")
    server.refusals = [(404, {"kind": "Status", "reason": "NotFound", "message": "no such resource"}, "")] * 2
    store = Names()
    reflector = reflect(store, missing_retry_s=0.01)
    with capture_logs() as logs:
        async with running(reflector.run()):
            await reflector.synced.wait()
            assert reflector.missing
            assert store.items == {}
            await eventually(lambda: "a" in store.items)
    assert not reflector.missing
    assert reflector.counters.errors == 0
    assert [entry["event"] for entry in logs] == ["resource is not installed"]
    assert store.calls == ["replace", "replace"]


async def test_an_object_that_cannot_be_read_does_not_stop_the_others(
    server: Any, reflect: Any, running: Any, eventually: Any
) -> None:
    server.put("bad", size="large")
    server.put("good", size=1)
    store = Sizes()
    reflector = reflect(store, STRICT)
    with capture_logs() as logs:
        async with running(reflector.run()):
            await eventually(lambda: "WATCH 3" in server.log)
            assert store.items == {"good": 1}
            server.put("bad", size=None)
            server.put("other", size=2)
            await eventually(lambda: "other" in store.items)
            assert reflector.resource_version == "5"
            server.put("bad", size=3)
            await eventually(lambda: store.items.get("bad") == 3)
    assert reflector.counters.unreadable == 2
    assert [(entry["event"], entry["object"]) for entry in logs] == [("object skipped", "bad")], "said once"
    assert "`str`" in logs[0]["problem"]


async def test_an_unreadable_object_that_goes_is_taken_out_by_a_list(
    server: Any, reflect: Any, running: Any, eventually: Any
) -> None:
    server.put("a", size=1)
    store = Sizes()
    reflector = reflect(store, STRICT)
    async with running(reflector.run()):
        await eventually(lambda: "WATCH 2" in server.log)
        server.objects["a"]["size"] = "odd"
        server.remove("a")
        await eventually(lambda: store.items == {})
    assert reflector.counters.relists == 1


async def test_what_the_store_refuses_is_skipped(server: Any, reflect: Any, running: Any, eventually: Any) -> None:
    store = Names(refuses="odd")
    reflector = reflect(store)
    with capture_logs() as logs:
        async with running(reflector.run()):
            await eventually(lambda: "WATCH 1" in server.log)
            server.put("odd")
            server.put("even")
            await eventually(lambda: "even" in store.items)
    assert reflector.counters.unreadable == 1
    assert "not a node of ours" in logs[0]["problem"]


async def test_what_else_the_store_raises_is_a_fault(server: Any, reflect: Any) -> None:
    class Broken(Names):
        def replace(self, items: Sequence[NodeObject]) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await reflect(Broken()).run()


@pytest.mark.parametrize("seed", range(4))
async def test_after_any_trouble_the_store_is_as_the_server(
    seed: int, server: Any, reflect: Any, running: Any, eventually: Any
) -> None:
    rng = random.Random(seed)
    store = Names()
    reflector = reflect(store)
    reflector._backoff._first_s = reflector._backoff._next_s = 0.001
    reflector._backoff._longest_s = 0.01

    async def restart() -> None:
        await server.stop()
        await server.start()

    troubles: list[Callable[[], Any]] = [server.compact, server.break_connections, restart]
    async with running(reflector.run()):
        for step in range(60):
            name = f"n{rng.randrange(12)}"
            if name in server.objects and rng.random() < 0.4:
                server.remove(name)
            else:
                server.put(name)
                server.objects[name]["metadata"]["labels"] = {"v": str(step)}
            if rng.random() < 0.3:
                trouble = rng.choice(troubles)()
                if trouble is not None:
                    await trouble
            if rng.random() < 0.2:
                server.refusals.append((rng.choice((410, 500, 503)), EXPIRED, ""))
            await asyncio.sleep(rng.choice((0, 0, 0.01)))
        await eventually(lambda: same(server, store) and reflector.resource_version == str(server.version))


async def test_kmocks_emulation_is_followed(emulator: Any, emulated: Api, running: Any, eventually: Any) -> None:
    emulator.resources["v1/nodes"] = {}
    path = NODES.path
    await emulated.post(path(), {"metadata": {"name": "a"}})
    store = Names()
    reflector = Reflector(emulated, NODES, store, rng=random.Random(1))
    async with running(reflector.run()):
        await reflector.synced.wait()
        assert list(store.items) == ["a"]
        await emulated.post(path(), {"metadata": {"name": "b"}})
        await emulated.patch(path(None, "a"), {"metadata": {"labels": {"v": "2"}}})
        await eventually(lambda: store.items == {"a": "2", "b": ""})
        await emulated.delete(path(None, "b"))
        await eventually(lambda: store.items == {"a": "2"})


def test_a_reference_names_the_object() -> None:
    meta = ObjectMeta(name="p", namespace="ns", uid="u")
    assert ObjectRef.of(NodeObject(metadata=meta)) == ObjectRef(namespace="ns", name="p", uid="u")
    assert str(ObjectRef(namespace="ns", name="p")) == "ns/p"
    assert str(ObjectRef(name="p")) == "p"
