"""Calls carry what was asked, end in time, and are made again only where the server did not serve them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from bayplan.cluster.api import (
    NODES,
    PODS,
    Api,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    Priority,
    Settings,
    TooManyRequestsError,
    UnavailableError,
)

pytestmark = pytest.mark.anyio

PODS_OF_NS = "/api/v1/namespaces/ns/pods"


async def test_verbs_reach_the_server_as_they_are(emulator: Any, emulated: Api) -> None:
    emulator.resources["v1/pods"] = {}
    path = PODS.path("ns", "p")
    await emulated.post(PODS.path("ns"), {"metadata": {"name": "p"}})
    assert b'"p"' in await emulated.get(path)
    await emulated.patch(path, {"metadata": {"labels": {"a": "b"}}})
    await emulated.patch(path, {"metadata": {"labels": {"c": "d"}}}, "strategic")
    await emulated.delete(path, {"preconditions": {"uid": "u"}})
    with pytest.raises(NotFoundError) as missing:
        await emulated.get(path)
    assert str(missing.value).startswith(f"GET {path}: 404 Object Not Found: The object is not found")
    asked = [(request.method.value, request.headers.get("Content-Type")) for request in emulator]
    assert asked == [
        ("POST", "application/json"),
        ("GET", None),
        ("PATCH", "application/merge-patch+json"),
        ("PATCH", "application/strategic-merge-patch+json"),
        ("DELETE", "application/json"),
        ("GET", None),
    ]
    assert emulator[0].data == {"metadata": {"name": "p"}}
    assert emulator[4].data == {"preconditions": {"uid": "u"}}
    assert {request.headers["User-Agent"] for request in emulator} == {"bayplan/0.1.0"}
    assert {request.headers["Accept-Encoding"] for request in emulator} == {"identity"}


async def test_json_patches(emulated: Api, answer: Any, emulator: Any) -> None:
    answer("patch /x", (200, {}))
    await emulated.patch("/x", [{"op": "remove", "path": "/metadata/labels/x"}], "json")
    assert emulator[0].headers["Content-Type"] == "application/json-patch+json"


def test_names_cannot_leave_their_place_in_a_path() -> None:
    assert PODS.path("a/b", "../c?d") == "/api/v1/namespaces/a%2Fb/pods/..%2Fc%3Fd"
    assert NODES.path(None, "n", "status") == "/api/v1/nodes/n/status"


async def test_pages_and_selectors(emulated: Api, answer: Any, emulator: Any) -> None:
    first = {"metadata": {"resourceVersion": "9", "continue": "t=="}, "items": [{"metadata": {"name": "a"}}]}
    last = {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "b"}}]}
    answer(f"get {PODS_OF_NS}", (200, first), (200, last))
    pages = emulated.list_pages(PODS, namespace="ns", label_selector="a in (b, c)", field_selector="spec.nodeName=n")
    assert [item.metadata.name async for page in pages for item in page.items] == ["a", "b"]
    selectors = {"limit": "500", "labelSelector": "a in (b, c)", "fieldSelector": "spec.nodeName=n"}
    assert [request.params for request in emulator] == [selectors, {**selectors, "continue": "t=="}]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, BadRequestError), (403, ForbiddenError), (409, ConflictError), (410, GoneError), (500, UnavailableError)],
)
async def test_refusals_are_not_repeated(status: int, kind: type, emulated: Api, answer: Any, emulator: Any) -> None:
    answer("post /x", (status, {"kind": "Status", "reason": "Why", "message": "because"}))
    with pytest.raises(kind, match=f"POST /x: {status} Why: because"):
        await emulated.post("/x", {})
    assert len(emulator) == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_what_was_not_served_is_repeated(status: int, emulated: Api, answer: Any, emulator: Any) -> None:
    answer("post /x", *[(status, {}, {"Retry-After": "0"})] * 3, (201, {"done": True}))
    assert await emulated.post("/x", {"a": 1}) == b'{"done": true}'
    assert [request.data for request in emulator] == [{"a": 1}] * 4


async def test_not_for_ever(emulated: Api, answer: Any, emulator: Any) -> None:
    answer("post /x", *[(429, {}, {"Retry-After": "0"})] * 20)
    with pytest.raises(TooManyRequestsError):
        await emulated.post("/x", {})
    assert len(emulator) == 10


async def test_not_when_it_would_come_too_late(emulated: Api, answer: Any, emulator: Any) -> None:
    answer("get /x", (429, {"message": "later"}, {"Retry-After": "60"}))
    with pytest.raises(TooManyRequestsError, match="later") as refused:
        await emulated.get("/x")
    assert refused.value.retry_after_s == 60
    assert len(emulator) == 1


async def test_an_eviction_that_a_budget_refuses_was_served(emulated: Api, answer: Any, emulator: Any) -> None:
    details = {"causes": [{"reason": "DisruptionBudget"}], "retryAfterSeconds": 0}
    answer("post /x", (429, {"kind": "Status", "details": details}))
    with pytest.raises(TooManyRequestsError):
        await emulated.post("/x", {})
    assert len(emulator) == 1


async def test_a_call_ends_in_time(emulator: Any, api_of: Callable[..., Api]) -> None:
    emulator["get /x"] << asyncio.Event().wait
    async with api_of(str(emulator.servers[0].url), Settings(call_s=0.1)) as api:
        with pytest.raises(UnavailableError, match=r"GET /x: no answer within 0\.1 s"):
            await api.get("/x")


async def test_waiting_for_a_turn_counts(emulator: Any, api_of: Callable[..., Api]) -> None:
    emulator["get /x"] << b"{}"
    async with api_of(str(emulator.servers[0].url), Settings(call_s=0.2, qps=0.01, burst=1)) as api:
        await api.get("/x")
        with pytest.raises(UnavailableError, match="no answer within"):
            await api.get("/x", priority=Priority.URGENT)
    assert len(emulator) == 1


async def test_a_server_that_is_not_there(api_of: Callable[..., Api], unused_port: int) -> None:
    async with api_of(f"http://127.0.0.1:{unused_port}") as api:
        with pytest.raises(UnavailableError, match="GET /x: ConnectError"):
            await api.get("/x")
        with pytest.raises(UnavailableError, match="WATCH /api/v1/nodes: ConnectError"):
            await anext(api.watch(NODES, "1"))


async def test_a_watch_says_what_it_wants(emulated: Api, answer: Any, emulator: Any) -> None:
    answer(f"get {PODS_OF_NS}", (410, {"kind": "Status", "reason": "Expired", "message": "too old"}))
    with pytest.raises(GoneError, match=f"WATCH {PODS_OF_NS}: 410 Expired: too old"):
        await anext(emulated.watch(PODS, "7", namespace="ns", label_selector="a=b", field_selector="c=d"))
    params = dict(emulator[0].params)
    assert 300 <= int(params.pop("timeoutSeconds")) <= 600
    selectors = {"labelSelector": "a=b", "fieldSelector": "c=d"}
    assert params == {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "7", **selectors}


async def test_httpx_alone_can_watch_too(server: Any) -> None:
    """Where a proxy is, watches go over httpx2's own transport."""
    async with Api(httpx2.AsyncClient(base_url=server.url, trust_env=False)) as api:
        server.put("a")
        events = api.watch(NODES, "1")
        event = await anext(events)
        await events.aclose()
    assert event.resource_version == "2"
