"""Lists and watches: what is wanted is read, an odd object is named and takes no others with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.cluster.api import NODES, PODS, Bookmark, GoneError, UnavailableError, Unreadable, WatchEvent
from bayplan.cluster.api.decoding import Codec

NODE_CODEC = Codec(NODES)


def line(change: str, item: Any) -> bytes:
    return json.dumps({"type": change, "object": item}).encode()


def test_a_page() -> None:
    meta = {"resourceVersion": "7", "continue": "more", "remainingItemCount": 1}
    page = NODE_CODEC.page(json.dumps({"metadata": meta, "items": [{"metadata": {"name": "a"}}]}).encode())
    assert [item.name for item in page.items] == ["a"]
    assert (page.resource_version, page.next, page.unreadable) == ("7", "more", ())


def test_a_page_without_items() -> None:
    assert NODE_CODEC.page(b'{"metadata": {"resourceVersion": "7"}, "items": null}').items == []


def test_an_odd_object_of_a_page_is_named() -> None:
    items = [
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "b", "namespace": "ns", "resourceVersion": "5", "labels": {"x": 1}}},
        {"metadata": "odd"},
        7,
    ]
    page = NODE_CODEC.page(json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode())
    assert [item.name for item in page.items] == ["a"]
    assert [str(item) for item in page.unreadable] == ["ns/b", "", ""]
    assert page.unreadable[0].resource_version == "5"
    assert page.unreadable[0].problem.startswith("Expected `str`, got `int`")


@pytest.mark.parametrize("change", ["ADDED", "MODIFIED", "DELETED"])
def test_a_change(change: str) -> None:
    event = NODE_CODEC.event(line(change, {"metadata": {"name": "a", "resourceVersion": "7"}, "spec": {"more": []}}))
    assert isinstance(event, WatchEvent)
    assert (event.change, event.item.name, event.resource_version) == (change, "a", "7")


def test_a_bookmark() -> None:
    event = NODE_CODEC.event(line("BOOKMARK", {"kind": "Node", "metadata": {"resourceVersion": "9"}}))
    assert event == Bookmark(resource_version="9")


def test_an_error() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (5)"}
    with pytest.raises(GoneError, match="too old resource version") as gone:
        NODE_CODEC.event(line("ERROR", {**status, "metadata": {}, "status": "Failure"}))
    assert str(gone.value) == "WATCH /api/v1/nodes: 410 Expired: too old resource version: 1 (5)"


def test_an_odd_object_of_a_watch_is_named() -> None:
    event = NODE_CODEC.event(line("DELETED", {"metadata": {"name": "b", "resourceVersion": "5", "labels": 3}}))
    assert isinstance(event, Unreadable)
    assert (event.name, event.change, event.resource_version) == ("b", "DELETED", "5")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"type": "ADDED"}', b"\xff", b'{"type":"NEWS","object":{}}'])
def test_what_is_no_event(data: bytes) -> None:
    with pytest.raises(UnavailableError, match="watch event"):
        NODE_CODEC.event(data)


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b'{"items": 3}', b"\xff", b"[" * 100_000])
def test_what_is_no_list(data: bytes) -> None:
    with pytest.raises(UnavailableError, match="not a list"):
        NODE_CODEC.page(data)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["type", "object", "metadata", "name", "labels", "spec", "containers"]), inner
            )
        ),
    )
)
def test_any_document_is_an_event_or_refused(document: Any) -> None:
    try:
        event = Codec(PODS).event(json.dumps(document).encode())
    except UnavailableError:
        return
    assert isinstance(event, WatchEvent | Unreadable)
