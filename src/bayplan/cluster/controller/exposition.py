"""What the controller tells of itself over HTTP: /metrics for Prometheus, /healthz and /readyz for the kubelet.

Numbers are read when they are asked for; nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bayplan.cluster.controller.controller import Controller
from bayplan.cluster.http import HttpError, Request, Response

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "bayplan_controller"


class Exposition:
    """Answers GET of one controller."""

    def __init__(self, controller: Controller, now: Callable[[], float]) -> None:
        self._controller = controller
        self._registry = CollectorRegistry()
        self._registry.register(_Numbers(controller, now))

    def handle(self, request: Request) -> Response:
        """The answer to a request. Raises `HttpError`."""
        if request.method != "GET":
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered here", {"allow": "GET"})
        match request.path:
            case "/metrics":
                return Response(content_type=CONTENT_TYPE, pieces=[generate_latest(self._registry)])
            case "/healthz":
                return _said(HTTPStatus.OK, "ok")
            case "/readyz":
                return self._readiness()
        raise HttpError(HTTPStatus.NOT_FOUND, "there is /metrics, /healthz and /readyz")

    def _readiness(self) -> Response:
        missing = [name for name, each in self._controller.reflectors.items() if not each.synced.is_set()]
        if missing:
            return _said(HTTPStatus.SERVICE_UNAVAILABLE, f"not known yet: {', '.join(missing)}")
        return _said(HTTPStatus.OK, "leading" if self._controller.is_leading else "ready to lead")


class _Numbers(Collector):
    def __init__(self, controller: Controller, now: Callable[[], float]) -> None:
        self._controller = controller
        self._now = now

    def collect(self) -> Iterable[Metric]:
        controller, upkeep = self._controller, self._controller.upkeep
        yield _gauge("leader", "Whether this replica leads.", {(): float(controller.is_leading)})
        yield _gauge(
            "objects",
            "Objects that are known.",
            {("nodes",): len(upkeep.nodes), ("pods",): len(upkeep.pods), ("pods waiting",): len(upkeep.pods.waiting)},
            "kind",
        )
        yield _counter("writes", "Writes by how they ended.", controller.writes.done, "what", "result")
        yield _counter("wakes", "Times that nodes were touched to wake pods.", {(): upkeep.wakes.count})
        evictions = {(result,): count for result, count in upkeep.evictions.counts.items()}
        yield _counter("evictions", "Evictions by how they ended.", evictions, "result")
        yield from self._loops()
        yield from self._sources()

    def _loops(self) -> Iterable[Metric]:
        loops = {loop.name: loop.counters for loop in self._controller.loops}
        yield _counter("loop_steps", "Steps of a loop.", {(name,): c.steps for name, c in loops.items()}, "loop")
        yield _counter(
            "loop_failures", "Steps that failed.", {(name,): c.failures for name, c in loops.items()}, "loop"
        )
        yield _gauge(
            "loop_last_success_timestamp_seconds",
            "When a step last worked.",
            {(name,): c.last_ok_at for name, c in loops.items() if c.last_ok_at is not None},
            "loop",
        )

    def _sources(self) -> Iterable[Metric]:
        engine, now = self._controller.upkeep.engine, self._now()
        yield _gauge(
            "watch_age_seconds",
            "How long ago the API server last said anything of a resource.",
            {
                (name,): now - each.counters.last_contact_at
                for name, each in self._controller.reflectors.items()
                if each.counters.last_contact_at is not None
            },
            "resource",
        )
        ages = {(str(age.metric),): age.oldest_s for age in engine.ages(now) if age.oldest_s is not None}
        yield _gauge("metric_age_seconds", "Age of the oldest value of a metric.", ages, "metric")
        violating = {(key.namespace, key.name): len(nodes) for key, nodes in engine.deschedule(now).items()}
        yield _gauge("violating_nodes", "Nodes that violate a policy.", violating, "namespace", "policy")
        foreign = len(self._controller.upkeep.nodes.foreign)
        yield _gauge("labels_taken", "Labels of others in the places of ours.", {(): foreign})


def _gauge(name: str, text: str, values: Mapping[Any, float], *labels: str) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family


def _counter(name: str, text: str, values: Mapping[Any, float], *labels: str) -> CounterMetricFamily:
    family = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family


def _said(status: HTTPStatus, text: str) -> Response:
    return Response(status=status, content_type="text/plain; charset=utf-8", pieces=[text.encode(), b"\n"])
