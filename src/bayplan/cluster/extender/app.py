"""The extender's paths: each request is read, put to the checks, and answered as kube-scheduler takes it.

At the paths of TAS and GAS (`/scheduler/filter`, ...) and at its own (`/filter`, ...) alike. An answer to what is an
extender request is always 200; a missing policy or an unknown node is a reason in it. What is no such request gets a
4xx with a reason.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import TypeVar

import msgspec

from bayplan.cluster.extender.exposition import Exposition
from bayplan.cluster.extender.recent import Recent
from bayplan.cluster.extender.recorder import Recorder
from bayplan.cluster.http import HttpError, Request, Response
from bayplan.cluster.http.messages import Piece
from bayplan.fleet.scheduling import Question, Scheduling
from bayplan.protocols.extender import (
    BindArgs,
    ExtenderArgs,
    FilterAnswer,
    bind_answer,
    filter_answer,
    preempt_answer,
    prioritize_answer,
    read_args,
    read_bind_args,
    read_preempt_args,
)

FORMER = "/scheduler"
"""What TAS and GAS have before the verb."""


Bind = Callable[[BindArgs], Awaitable[str]]
"""Binds a pod; gives an error in words, empty where it is bound."""


class ExtenderApp:
    """`now` is the wall clock in seconds since the epoch. Without `bind`, the verb is refused in words."""

    def __init__(
        self,
        scheduling: Scheduling,
        exposition: Exposition,
        *,
        bind: Bind | None,
        now: Callable[[], float],
        recorder: Recorder | None = None,
    ) -> None:
        self._scheduling = scheduling
        self._exposition = exposition
        self._bind = bind
        self._now = now
        self._recorder = recorder
        self.recent = Recent()
        self._verbs: dict[str, Callable[[Request], Response | Awaitable[Response]]] = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
            "bind": self._binding,
            "explain": self._explain,
            "record": self._record,
        }
        self._paths = {f"{head}/{verb}": verb for verb in self._verbs for head in ("", FORMER)}

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer one request. Raises `HttpError` or `InputError` for what is none of the extender's."""
        verb = self._paths.get(request.path)
        if verb is None:
            expected = ", ".join(f"{FORMER}/{verb}" for verb in self._verbs)
            raise HttpError(HTTPStatus.NOT_FOUND, f"nothing at {request.path[:100]!r} (there is {expected})")
        if request.method != "POST":
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "only POST is answered here", {"allow": "POST"})
        if not request.is_json:
            raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a Content-Type of application/json is needed")
        return self._verbs[verb](request)

    def _filter(self, request: Request) -> Response:
        began = time.perf_counter()
        args = read_args(request.body)
        question, now = _question(args), self._now()
        decision = self._scheduling.filter(question, now)
        pieces = filter_answer(args, FilterAnswer(failed=decision.failed, unresolvable=decision.unresolvable))
        self.recent.filtered(question, decision, now)
        if self._recorder is not None:
            self._recorder.filtered(question, decision, now)
        self._exposition.refused(decision.refused_by)
        return self._answered("filter", began, pieces, len(args.names))

    def _prioritize(self, request: Request) -> Response:
        began = time.perf_counter()
        args = read_args(request.body)
        question, now = _question(args), self._now()
        scores = self._scheduling.prioritize(question, now)
        self.recent.prioritized(question, scores, now)
        if self._recorder is not None:
            self._recorder.prioritized(question, scores, now)
        return self._answered(
            "prioritize", began, prioritize_answer(zip(args.names, scores, strict=False)), len(args.names)
        )

    def _preempt(self, request: Request) -> Response:
        began = time.perf_counter()
        args = read_preempt_args(request.body)
        question = Question(pod=args.pod, pod_json=args.pod_json, names=tuple(args.victims))
        left = self._scheduling.preempt(question, args.victims, self._now())
        victims = {node: (gone.uids, gone.budget_violations) for node, gone in left.items()}
        return self._answered("preempt", began, preempt_answer(victims), len(args.victims))

    async def _binding(self, request: Request) -> Response:
        began = time.perf_counter()
        args = read_bind_args(request.body)
        if self._bind is None:
            error = "this extender does not bind: take bindVerb out of the scheduler's configuration, or turn cards on"
        else:
            error = await self._bind(args)
        self._exposition.bind("refused" if error else "bound")
        return self._answered("bind", began, bind_answer(error))

    def _explain(self, request: Request) -> Response:
        """What was last decided about a pod, and the numbers behind it as they are now."""
        began = time.perf_counter()
        asked = _decoded(request.body, _AskedPod)
        decided = self.recent.of(asked.namespace, asked.name)
        if decided is None:
            raise HttpError(
                HTTPStatus.NOT_FOUND,
                f"nothing was asked lately about pod {asked.namespace}/{asked.name}; "
                "the scheduler asks an extender only about pods that request one of its managedResources",
            )
        numbers = self._scheduling.explain(decided.question, self._now())
        body = msgspec.json.encode({"decided": decided.told, "now": numbers, "at": self._now()})
        return self._answered("explain", began, [body])

    async def _record(self, request: Request) -> Response:
        """The state, and what happens and is asked for a while, as lines of a recording."""
        seconds = _decoded(request.body, _AskedRecording).seconds
        if self._recorder is None:
            raise HttpError(HTTPStatus.NOT_FOUND, "this extender does not record")
        return Response(content_type="application/x-ndjson", pieces=await self._recorder.record(seconds))

    def _answered(self, verb: str, began: float, pieces: Sequence[Piece], nodes: int = 0) -> Response:
        self._exposition.request(verb, HTTPStatus.OK, time.perf_counter() - began, nodes)
        return Response(pieces=[*pieces, b"\n"])


class _AskedPod(msgspec.Struct):
    name: str
    namespace: str = "default"


class _AskedRecording(msgspec.Struct):
    seconds: float


T = TypeVar("T")


def _decoded(body: memoryview, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"not what is expected here: {error}") from error


def _question(args: ExtenderArgs) -> Question:
    return Question(pod=args.pod, pod_json=args.pod_json, names=args.names)
