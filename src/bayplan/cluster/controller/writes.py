"""What upkeep plans, written to the API server; or, on a dry run, only told.

An object that is gone or another one by now needs nothing written: the watch tells what is there instead. What the
server refuses for good is told once and not tried until something changes. Everything else fails the step, so that its
loop waits, and is planned again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from bayplan.cluster.api import (
    NODES,
    Api,
    ApiError,
    BadRequestError,
    ConflictError,
    EventRecorder,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ObjectRef,
    Outcome,
    evict,
    patch_metadata,
    patch_status,
)
from bayplan.cluster.controller.access import PODS, POLICIES
from bayplan.cluster.logs import logger
from bayplan.fleet.upkeep.announcements import Announcement
from bayplan.fleet.upkeep.card_pods import PodPatch
from bayplan.fleet.upkeep.evictions import Eviction, Result
from bayplan.fleet.upkeep.nodes import NodePatch
from bayplan.fleet.upkeep.upkeep import StatusPatch

T = TypeVar("T")
_log = logger("controller")
_AT_ONCE = 16
_GONE = (NotFoundError, ConflictError)
_REFUSED = (BadRequestError, InvalidError)
_RESULTS: dict[Outcome, Result] = {Outcome.EVICTED: "evicted", Outcome.GONE: "gone", Outcome.BUDGET: "budget"}


class Writes:
    """Writes to one API server. `done` counts by what and how it ended (`written`, `gone`, `refused`, `failed`)."""

    def __init__(self, api: Api, recorder: EventRecorder, *, dry_run: bool) -> None:
        self.done: Counter[tuple[str, str]] = Counter()
        self._api = api
        self._recorder = recorder
        self._dry_run = dry_run
        self._told: set[str] = set()

    async def nodes(self, what: str, patches: Sequence[NodePatch]) -> list[NodePatch]:
        """Patch nodes; gives those that are to be tried again, of which the log tells."""
        return await self._each(what, patches, self._node)

    async def pods(self, patches: Sequence[PodPatch]) -> list[PodPatch]:
        """Patch pods; gives those that are to be tried again."""
        return await self._each("pod label", patches, self._pod)

    async def statuses(self, patches: Sequence[StatusPatch]) -> list[StatusPatch]:
        """Patch policies' statuses; gives those that are to be tried again."""
        return await self._each("policy status", patches, self._status)

    async def evict(self, eviction: Eviction, *, dry_run: bool) -> tuple[Result, str]:
        """Evict one pod (`dry_run`: ask whether that would be done); gives what became of it, and details."""
        pod = eviction.pod
        ref = ObjectRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
        try:
            answer = await evict(self._api, ref, dry_run=dry_run or self._dry_run)
        except ApiError as error:
            result, detail = "failed", str(error)
        else:
            result, detail = _RESULTS[answer.outcome], answer.message
        self.done["eviction", result] += 1
        _log.info("eviction", pod=str(ref), node=pod.node, result=result, detail=detail, reason=eviction.reason)
        return result, detail  # type: ignore[return-value]

    def tell(self, announcements: Iterable[Announcement]) -> None:
        """Make events."""
        for each in announcements:
            ref = ObjectRef(namespace=each.namespace, name=each.name, uid=each.uid)
            _log.info("event", regarding=f"{each.kind} {ref}", reason=each.reason, note=each.note)
            if not self._dry_run:
                self._recorder.tell(
                    each.kind,
                    ref,
                    reason=each.reason,
                    action=each.action,
                    note=each.note,
                    is_warning=each.is_warning,
                    api_version=each.api_version,
                )

    async def _node(self, patch: NodePatch) -> None:
        ref = ObjectRef(name=patch.node, uid=patch.uid)
        await patch_metadata(self._api, NODES, ref, labels=patch.labels, annotations=patch.annotations)

    async def _pod(self, patch: PodPatch) -> None:
        ref = ObjectRef(namespace=patch.namespace, name=patch.name, uid=patch.uid)
        await patch_metadata(self._api, PODS, ref, labels=patch.labels)

    async def _status(self, patch: StatusPatch) -> None:
        ref = ObjectRef(namespace=patch.policy.namespace, name=patch.policy.name, uid=patch.uid)
        try:
            await patch_status(self._api, POLICIES[patch.kind], ref, patch.status)
        except ForbiddenError as error:
            # A role that was written for the original has no such right; everything else goes on without.
            self._once(f"status of {patch.kind}", error)

    async def _each(self, what: str, patches: Sequence[T], write: Callable[[T], Awaitable[None]]) -> list[T]:
        """Write all, some at a time; gives those that are to be tried again. Raises nothing of the server's."""
        if self._dry_run:
            for patch in patches:
                _log.info("would write", what=what, patch=str(patch))
            return []
        turns = asyncio.Semaphore(_AT_ONCE)
        failed: list[T] = []

        async def one(patch: T) -> None:
            async with turns:
                if not await self._try(what, patch, write):
                    failed.append(patch)

        async with asyncio.TaskGroup() as tasks:
            for patch in patches:
                tasks.create_task(one(patch))
        return failed

    async def _try(self, what: str, patch: T, write: Callable[[T], Awaitable[None]]) -> bool:
        """Whether nothing is left to be done."""
        try:
            await write(patch)
        except _GONE:
            self.done[what, "gone"] += 1
        except _REFUSED as error:
            self.done[what, "refused"] += 1
            self._once(f"{what} {patch}", error)
        except ApiError as error:
            self.done[what, "failed"] += 1
            _log.warning("not written", what=what, patch=str(patch), problem=str(error))
            return False
        else:
            self.done[what, "written"] += 1
            _log.debug("written", what=what, patch=str(patch))
        return True

    def _once(self, what: str, error: ApiError) -> None:
        if what not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(what)
            _log.error("refused", what=what, problem=str(error))


_MOST_TOLD = 1000
