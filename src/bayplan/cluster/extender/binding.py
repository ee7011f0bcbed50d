"""The bind verb: decide cards, promise them, tell the API server, and keep or take back the promise.

Nothing is awaited between the look at what is free and the promise, so sixteen binds at a time cannot be promised one
card twice. No lock is held while the API server answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from bayplan.cluster.api import UnavailableError
from bayplan.cluster.logs import logger
from bayplan.errors import BayplanError
from bayplan.fleet.scheduling.events import Assumed, Event, Unassumed
from bayplan.fleet.scheduling.scheduling import Scheduling
from bayplan.protocols.extender import BindArgs
from bayplan.protocols.kubernetes import PodObject

_log = logger("bind")


class Binding(Protocol):
    """Binds pods at the API server. Raises `BayplanError` where it does not."""

    async def pod(self, namespace: str, name: str) -> PodObject:
        """The pod as it is."""
        ...

    async def bind(self, pod: PodObject, node: str, annotations: Mapping[str, str]) -> None:
        """Bind it, with annotations."""
        ...


class Binder:
    """Answers bind. `may_bind` tells why not, where another replica leads; empty: this one may.

    `told` is told of promises made and taken back, for a recording.
    """

    def __init__(
        self,
        scheduling: Scheduling,
        api: Binding,
        told: Callable[[Event, float], None],
        *,
        now: Callable[[], float],
        may_bind: Callable[[], str],
    ) -> None:
        self._scheduling = scheduling
        self._api = api
        self._told = told
        self._now = now
        self._may_bind = may_bind

    async def __call__(self, args: BindArgs) -> str:
        """Bind a pod; gives what is wrong in words, empty where it is bound."""
        refused = self._may_bind()
        if refused:
            return refused
        try:
            pod = await self._api.pod(args.pod_namespace, args.pod_name)
        except BayplanError as error:
            return f"pod {args.pod_namespace}/{args.pod_name} cannot be read: {error}"
        if pod.metadata.uid != args.pod_uid:
            return f"pod {pod.full_name} is another one by now: its UID is {pod.metadata.uid}, not {args.pod_uid}"
        now = self._now()
        promise = self._scheduling.promise(pod, args.node, now)
        if promise.refused:
            return promise.refused
        self._told(Assumed(pod=pod, node=args.node), now)
        return await self._kept(pod, args.node, promise.annotations)

    async def _kept(self, pod: PodObject, node: str, annotations: Mapping[str, str]) -> str:
        try:
            await self._api.bind(pod, node, annotations)
        except UnavailableError as error:
            # Nobody knows whether it was bound: the promise stands until it is seen, or runs out.
            _log.warning("perhaps not bound", pod=pod.full_name, node=node, error=str(error))
            return f"pod {pod.full_name} may not be bound to {node}: {error}"
        except BayplanError as error:
            now, broken = self._now(), Unassumed(uid=pod.metadata.uid or "")
            self._scheduling.apply(broken, now)
            self._told(broken, now)
            _log.warning("not bound", pod=pod.full_name, node=node, error=str(error))
            return f"pod {pod.full_name} is not bound to {node}: {error}"
        _log.info("bound", pod=pod.full_name, node=node, **dict(annotations))
        return ""
