"""The cluster of the current kubeconfig, or the one that this runs in, as a document."""

from __future__ import annotations

import asyncio

import msgspec

from bayplan.errors import InputError
from bayplan.workload.documents import Document

SOURCE = "the cluster"


def live_documents() -> list[Document]:
    """One document with all that the API server tells. Raises `InputError`, `ApiError`."""
    try:
        from bayplan.cluster.api import Api, find_config
        from bayplan.cluster.snapshot import snapshot
    except ImportError as error:
        missing = f"{error.name} is not installed"
        raise InputError(missing, source=SOURCE, expected="pip install bayplan[cluster]") from error

    async def told() -> bytes:
        async with Api.connect(find_config()) as api:
            return await snapshot(api)

    return [Document(SOURCE, 1, msgspec.json.decode(asyncio.run(told())))]
