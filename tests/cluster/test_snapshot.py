"""A cluster read from its API server: pages, kinds that are not installed, versions that the server forgot."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from bayplan.cluster.api.errors import GoneError, NotFoundError
from bayplan.cluster.snapshot import snapshot
from bayplan.errors import InputError

LAYOUTS = "/apis/bayplan.dev/v1alpha1/nodelayouts"


class Server:
    """Gives lists in pages of two, and errors that it is told to give, each once."""

    def __init__(self, lists: Mapping[str, list[dict[str, Any]]], errors: Mapping[str, list[Exception]]) -> None:
        self._lists = lists
        self._errors = {path: list(found) for path, found in errors.items()}
        self.asked: list[str] = []

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        start = int((params or {}).get("continue", "0"))
        self.asked.append(f"{path} {start}")
        if start and self._errors.get(path):
            raise self._errors[path].pop()
        if path not in self._lists:
            raise NotFoundError("the server could not find the requested resource", status=404)
        items = self._lists[path]
        more = str(start + 2) if start + 2 < len(items) else ""
        return msgspec.json.encode({"items": items[start : start + 2], "metadata": {"continue": more}})


def named(*names: str) -> list[dict[str, Any]]:
    return [{"metadata": {"name": name}} for name in names]


def kinds(data: bytes) -> list[tuple[str, str]]:
    return [(item["kind"], item["metadata"]["name"]) for item in msgspec.json.decode(data)["items"]]


def test_all_pages_of_all_kinds_that_are_installed_come_together() -> None:
    server = Server({"/api/v1/nodes": named("a", "b", "c"), "/api/v1/pods": [], LAYOUTS: named("a")}, {})
    told = asyncio.run(snapshot(server))
    assert kinds(told) == [("Node", "a"), ("Node", "b"), ("Node", "c"), ("NodeLayout", "a")]
    assert msgspec.json.decode(told)["items"][3]["apiVersion"] == "bayplan.dev/v1alpha1"


def test_a_list_begins_again_where_the_server_forgot_its_version() -> None:
    lists = {"/api/v1/nodes": named("a", "b", "c"), "/api/v1/pods": []}
    server = Server(lists, {"/api/v1/nodes": [GoneError("expired", status=410)]})
    assert kinds(asyncio.run(snapshot(server))) == [("Node", "a"), ("Node", "b"), ("Node", "c")]
    assert server.asked[:4] == [f"/api/v1/nodes {start}" for start in (0, 2, 0, 2)]


def test_it_is_given_up_where_the_server_never_remembers() -> None:
    gone: list[Exception] = [GoneError("expired", status=410) for _ in range(9)]
    server = Server({"/api/v1/nodes": named("a", "b", "c"), "/api/v1/pods": []}, {"/api/v1/nodes": gone})
    with pytest.raises(GoneError):
        asyncio.run(snapshot(server))


def test_a_server_without_nodes_is_no_cluster() -> None:
    with pytest.raises(NotFoundError):
        asyncio.run(snapshot(Server({}, {})))


@pytest.mark.parametrize("body", [b"<html>", b'{"items": 7}', b"\xff", b'{"items":' + b"[" * 100_000])
def test_what_is_no_list_names_its_path(body: bytes) -> None:
    class Odd(Server):
        async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
            return body

    with pytest.raises(InputError, match="/api/v1/nodes: not a list"):
        asyncio.run(snapshot(Odd({}, {})))
