"""One of several processes leads, by a Lease that it keeps renewing.

No clock of another machine is believed: a lease is free when it has not *changed* for as long as it is valid, by our
own monotonic clock. The leader stops its work before others may think the lease free: it gives up `renew_deadline_s`
after the start of its last renewal, they wait `lease_s` after they saw it.
Facts: coordination.k8s.io/v1 Lease; client-go tools/leaderelection for the protocol, so that `kubectl` and other
clients' tools read it right.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import structlog

from bayplan.cluster.api.client import Api
from bayplan.cluster.api.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from bayplan.cluster.api.limiter import Priority
from bayplan.cluster.api.moments import micro_time
from bayplan.cluster.api.resource import LEASES

_log = structlog.get_logger("bayplan.cluster.api")

_LONGEST_LEASE_S = 3600
Spec = dict[str, Any]


class LeaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: how long a lease is valid, when its holder gives up renewing it, and between tries."""

    lease_s: int = 15
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        """Raises ValueError unless the holder gives up, after several tries, before the lease ends."""
        if not 0 < self.retry_s < self.renew_deadline_s < self.lease_s:
            raise ValueError(f"not 0 < retry {self.retry_s} < deadline {self.renew_deadline_s} < lease {self.lease_s}")


class Leadership:
    """Takes part in the election of `namespace/name` as `identity`, which must differ between processes.

    holder: who leads as far as is known, empty where nobody does; is_leading: whether we do.
    now:    the wall clock, for the times written into the lease, which nobody decides by.
    """

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        name: str,
        identity: str,
        rng: random.Random,
        times: LeaseTimes | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.identity = identity
        self.holder = ""
        self.is_leading = False
        self._api = api
        self._namespace = namespace
        self._name = name
        self._times = times or LeaseTimes()
        self._rng = rng
        self._now = now
        self._seen: Spec = {}
        self._seen_at = 0.0
        self._renewed_at = 0.0

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work()` whenever, and only while, we lead; return when it returns, raise what it raises.

        It is cancelled when leadership is lost, and started again when it is won again. When `run` is cancelled, work
        ends first and then the lease is given back, so that the next leader need not wait for it to end.
        """
        while True:
            while not await self._try():
                await self._between_tries()
            if await self._lead(work):
                return

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Whether the work was done, rather than leadership lost."""
        self.is_leading = True
        _log.info("leading", lease=self._name, identity=self.identity)
        working = asyncio.ensure_future(_awaited(work))
        renewing = asyncio.create_task(self._renew())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            was_lost = renewing.done()
            # Renewed until the work has really ended, or another would begin while ours still cleans up.
            working.cancel()
            try:
                await asyncio.wait({working})
            finally:
                self.is_leading = False
                renewing.cancel()
            await asyncio.wait({renewing})
            if not was_lost:
                await self._release()
        if was_lost:
            renewing.result()
        if not working.cancelled():
            working.result()
            return True
        return not was_lost

    async def _renew(self) -> None:
        """Return when leadership is lost."""
        while True:
            try:
                async with asyncio.timeout_at(self._renewed_at + self._times.renew_deadline_s):
                    await self._between_tries()
                    while self.holder == self.identity and not await self._try():
                        await self._between_tries()
            except TimeoutError:
                _log.error("leadership lost: the lease could not be renewed in time", lease=self._name)
                return
            if self.holder != self.identity:
                _log.error("leadership lost", lease=self._name, holder=self.holder)
                return

    async def _between_tries(self) -> None:
        await asyncio.sleep(self._times.retry_s * (1 + 0.2 * self._rng.random()))

    async def _try(self) -> bool:
        """One attempt to take or renew the lease."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            lease = await self._read()
            if lease is not None and not self._may_take(lease.get("spec") or {}, clock()):
                return False
            await self._write(lease, self._claim((lease or {}).get("spec") or {}))
        except ConflictError:
            return False
        except ApiError as error:
            _log.warning("lease", lease=self._name, problem=str(error))
            return False
        self._renewed_at = began
        return True

    def _may_take(self, spec: Spec, now: float) -> bool:
        """Whether the lease is ours, nobody's, or has not changed for as long as it is valid."""
        if spec != self._seen:
            self._seen, self._seen_at = spec, now
        self.holder = str(spec.get("holderIdentity") or "")
        if self.holder in ("", self.identity):
            return True
        valid_s = spec.get("leaseDurationSeconds")
        if not isinstance(valid_s, int) or not 0 < valid_s <= _LONGEST_LEASE_S:
            valid_s = self._times.lease_s
        return now >= self._seen_at + valid_s

    def _claim(self, spec: Spec) -> Spec:
        moment = micro_time(self._now())
        transitions = spec.get("leaseTransitions")
        transitions = transitions if isinstance(transitions, int) else 0
        is_ours = spec.get("holderIdentity") == self.identity
        return {
            **spec,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._times.lease_s,
            "acquireTime": (spec.get("acquireTime") if is_ours else None) or moment,
            "renewTime": moment,
            "leaseTransitions": transitions if is_ours or not spec else transitions + 1,
        }

    async def _read(self) -> dict[str, Any] | None:
        try:
            body = await self._api.get(LEASES.path(self._namespace, self._name), priority=Priority.URGENT)
        except NotFoundError:
            return None
        return _object(body)

    async def _write(self, lease: dict[str, Any] | None, spec: Spec) -> None:
        if lease is None:
            meta = {"namespace": self._namespace, "name": self._name}
            made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
            await self._api.post(LEASES.path(self._namespace), made, priority=Priority.URGENT)
        else:
            path = LEASES.path(self._namespace, self._name)
            await self._api.put(path, {**lease, "spec": spec}, priority=Priority.URGENT)
        self.holder = str(spec["holderIdentity"])

    async def _release(self) -> None:
        """Say that nobody holds the lease, if we still do; it ends by itself where that cannot be said."""
        try:
            lease = await self._read()
            spec = (lease or {}).get("spec") or {}
            if lease is None or spec.get("holderIdentity") != self.identity:
                return
            free = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(self._now())}
            await self._write(lease, free)
        except ApiError as error:
            _log.warning("lease not given back", lease=self._name, problem=str(error))


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()


def _object(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnavailableError(f"not a Lease: {error}", verb="GET") from error
