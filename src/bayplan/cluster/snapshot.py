"""A cluster as its API server tells it now: what `kubectl get ... -o json` would print, in one document.

Nodes, pods, and the documents of nodes where their kinds are installed. Lists are read page by page, each of one
version; between lists time passes, so a pod may have come or gone in between, as in any dump.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from bayplan.cluster.api.errors import GoneError, NotFoundError
from bayplan.errors import InputError

PAGE = 500
_ATTEMPTS = 3
_KINDS: tuple[tuple[str, str, str], ...] = (
    ("/api/v1/nodes", "v1", "Node"),
    ("/api/v1/pods", "v1", "Pod"),
    ("/apis/bayplan.dev/v1alpha1/nodelayouts", "bayplan.dev/v1alpha1", "NodeLayout"),
    (
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
        "topology.node.k8s.io/v1alpha2",
        "NodeResourceTopology",
    ),
)
"""Path, apiVersion and kind. Those outside the core group may not be installed."""


class Getter(Protocol):
    """What is asked: `Api.get`."""

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """The body of an answer."""
        ...


class _ListMeta(msgspec.Struct):
    next: str | None = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    items: list[dict[str, Any]] | None = None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


_PAGE = msgspec.json.Decoder(_Page)


async def snapshot(api: Getter) -> bytes:
    """A `List` of all that is there, as JSON. Raises `ApiError`, `InputError` for what is no list."""
    items: list[dict[str, Any]] = []
    for path, version, kind in _KINDS:
        try:
            found = await _all(api, path)
        except NotFoundError:
            if version == "v1":
                raise
            continue  # the kind is not installed here
        items += [{"apiVersion": version, "kind": kind, **item} for item in found]
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})


async def _all(api: Getter, path: str) -> list[dict[str, Any]]:
    """All objects of a list; from the beginning again where the server forgot the version between two pages."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await _pages(api, path)
        except GoneError:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


async def _pages(api: Getter, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    token = ""
    while True:
        params = {"limit": str(PAGE), **({"continue": token} if token else {})}
        body = await api.get(path, params)
        try:
            page = _PAGE.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"not a list: {error}", source=path) from error
        items += page.items or []
        token = page.metadata.next or ""
        if not token:
            return items
