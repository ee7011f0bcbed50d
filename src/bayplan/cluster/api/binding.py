"""Binding a pod to a node, with the annotations that say what it holds there.

One request does both: the API server copies the annotations of a Binding onto the pod in the same write that sets the
node. A patch before the binding, as GAS makes, would leave annotations of a node the pod is not on whenever the second
request fails or the process dies between the two, and would halve the number of binds a second.
Facts: pkg/registry/core/pod/storage/storage.go (`setPodNodeAndMetadata`), core/v1 Binding.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.cluster.api.client import Api
from bayplan.cluster.api.errors import AlreadyBoundError, ApiError, ConflictError, NotFoundError, UnavailableError
from bayplan.cluster.api.limiter import Priority
from bayplan.cluster.api.resource import PODS, ObjectRef
from bayplan.protocols.kubernetes import PodObject, read_pod


async def bind(api: Api, pod: ObjectRef, node: str, annotations: Mapping[str, str] | None = None) -> None:
    """Bind this very pod (its UID is a precondition); annotations it has already are written over.

    A pod that is bound so already is a success, so a call whose answer was lost can be made again. Raises
    `AlreadyBoundError` with what the pod has where that is something else, `NotFoundError` where this pod is gone
    (another one of its name may be there), `UnavailableError` where it is not known whether it was bound.
    """
    wanted = dict(annotations or {})
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid, "annotations": wanted},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    try:
        await api.post(PODS.path(pod.namespace, pod.name, "binding"), binding, priority=Priority.URGENT)
    except (ConflictError, UnavailableError) as error:
        await _accept_if_bound_so(api, pod, node, wanted, error)


async def _accept_if_bound_so(
    api: Api, pod: ObjectRef, node: str, wanted: Mapping[str, str], error: ConflictError | UnavailableError
) -> None:
    found = await _read_again(api, pod, error)
    if pod.uid and found.metadata.uid != pod.uid:
        raise NotFoundError(
            f"{pod} is another pod now, of UID {found.metadata.uid}", status=404, reason="NotFound"
        ) from error
    on = found.spec.node_name or ""
    if not on:
        raise error
    if on != node or any(found.annotations.get(name) != value for name, value in wanted.items()):
        said = f"{pod} is bound to {on} already" + (", with other annotations" if on == node else "")
        raise AlreadyBoundError(said, node=on, annotations=found.annotations) from error


async def _read_again(api: Api, pod: ObjectRef, error: ApiError) -> PodObject:
    try:
        return read_pod(await api.get(PODS.path(pod.namespace, pod.name), priority=Priority.URGENT))
    except NotFoundError:
        raise
    except ApiError:
        raise error from None
