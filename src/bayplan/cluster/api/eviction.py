"""Asking a pod to go, in a way that respects disruption budgets.

Facts: policy/v1 Eviction; KEP-85; pkg/registry/core/pod/storage/eviction.go (429 with a cause `DisruptionBudget`).
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from bayplan.cluster.api.client import Api
from bayplan.cluster.api.errors import ConflictError, NotFoundError, TooManyRequestsError, UnavailableError
from bayplan.cluster.api.limiter import Priority
from bayplan.cluster.api.resource import PODS, AnyObject, ObjectRef


class Outcome(enum.Enum):
    """What became of an eviction."""

    EVICTED = "evicted"
    GONE = "gone"
    BUDGET = "a disruption budget does not allow it now"


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: `message` is the server's, `retry_after_s` when it may be asked again where it said so."""

    outcome: Outcome
    message: str = ""
    retry_after_s: float | None = None


async def evict(api: Api, pod: ObjectRef, *, grace_s: int | None = None, dry_run: bool = False) -> Eviction:
    """Evict this very pod (its UID is a precondition). `dry_run`: ask the server, change nothing.

    Raises `ApiError` for everything that is neither done nor refused by a budget.
    """
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if pod.uid:
        options["preconditions"] = {"uid": pod.uid}
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    if dry_run:
        options["dryRun"] = ["All"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": pod.namespace, "name": pod.name},
        "deleteOptions": options,
    }
    try:
        await api.post(PODS.path(pod.namespace, pod.name, "eviction"), body, priority=Priority.BACKGROUND)
    except NotFoundError as error:
        return Eviction(outcome=Outcome.GONE, message=error.message)
    except TooManyRequestsError as error:
        if not error.is_disruption_budget:
            raise
        said = " ".join(part for part in (error.message, *(cause.message for cause in error.causes)) if part)
        return Eviction(outcome=Outcome.BUDGET, message=said, retry_after_s=error.retry_after_s)
    except (ConflictError, UnavailableError) as error:
        # For a pod of another UID the server tries for ten seconds before it gives up, which may be our limit too.
        if await _is_there(api, pod):
            raise
        return Eviction(outcome=Outcome.GONE, message=error.message)
    return Eviction(outcome=Outcome.EVICTED)


async def _is_there(api: Api, pod: ObjectRef) -> bool:
    """Whether this very pod is, rather than another one of its name or none."""
    try:
        body = await api.get(PODS.path(pod.namespace, pod.name), priority=Priority.BACKGROUND)
    except NotFoundError:
        return False
    return msgspec.json.decode(body, type=AnyObject).metadata.uid == pod.uid
