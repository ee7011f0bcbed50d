"""Changing single fields of objects that others write too: labels, annotations and the status of custom resources.

Merge patches, one request per object: they name only what is ours, so nobody else's write is undone, and taking away
what is not there is no error. Facts: RFC 7386, KEP-555.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.cluster.api.client import Api
from bayplan.cluster.api.errors import ConflictError, InvalidError
from bayplan.cluster.api.limiter import Priority
from bayplan.cluster.api.resource import ObjectRef, Resource


async def patch_metadata(
    api: Api,
    resource: Resource[Any],
    ref: ObjectRef,
    *,
    labels: Mapping[str, str | None] | None = None,
    annotations: Mapping[str, str | None] | None = None,
    priority: Priority = Priority.BACKGROUND,
) -> None:
    """Set labels and annotations, take away those whose value is None, leave all others. Nothing said: no request.

    With a UID in `ref` only that very object is changed: `ConflictError` where it is another now. `NotFoundError` where
    there is none; `InvalidError` for names or values that are none.
    """
    metadata: dict[str, Any] = {}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    if not metadata:
        return
    if ref.uid:
        metadata["uid"] = ref.uid
    await _patch(api, resource.path(ref.namespace, ref.name), {"metadata": metadata}, priority)


async def patch_status(
    api: Api,
    resource: Resource[Any],
    ref: ObjectRef,
    status: Mapping[str, Any],
    *,
    resource_version: str = "",
    priority: Priority = Priority.BACKGROUND,
) -> None:
    """Merge `status` into the status subresource. Lists (conditions) are replaced whole.

    With `resource_version`, only if the object has not changed since: `ConflictError` otherwise, as for the UID.
    """
    metadata = {name: value for name, value in (("uid", ref.uid), ("resourceVersion", resource_version)) if value}
    body: dict[str, Any] = {"status": dict(status)} | ({"metadata": metadata} if metadata else {})
    await _patch(api, resource.path(ref.namespace, ref.name, "status"), body, priority)


async def _patch(api: Api, path: str, body: object, priority: Priority) -> None:
    try:
        await api.patch(path, body, "merge", priority=priority)
    except InvalidError as error:
        if not any(cause.field == "metadata.uid" for cause in error.causes):
            raise
        # To the server, naming another UID is an attempt to change it.
        raise ConflictError(error.message, verb="PATCH", path=path, status=409, reason="Conflict") from error
