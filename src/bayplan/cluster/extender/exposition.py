"""What the extender tells of itself, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Exposition:
    """The extender's metrics. `request` is called for each answer, the rest is asked for when it is scraped."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "bayplan_extender_request_seconds",
            "From a request that has come whole to its answer.",
            ("verb",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._requests = Counter(
            "bayplan_extender_requests", "Requests answered.", ("verb", "status"), registry=self._registry
        )
        self._nodes = Counter(
            "bayplan_extender_nodes", "Nodes that were asked about.", ("verb",), registry=self._registry
        )
        self._refused = Counter(
            "bayplan_extender_nodes_refused", "Nodes that a check refused.", ("check",), registry=self._registry
        )
        self._binds = Counter(
            "bayplan_extender_binds", "Binds by how they ended.", ("result",), registry=self._registry
        )
        self._errors = Counter(
            "bayplan_extender_errors", "Errors of the extender's own, which its log tells of.", registry=self._registry
        )

    def request(self, verb: str, status: int, seconds: float, nodes: int = 0) -> None:
        """A request was answered."""
        self._seconds.labels(verb).observe(seconds)
        self._requests.labels(verb, str(status)).inc()
        if nodes:
            self._nodes.labels(verb).inc(nodes)

    def refused(self, refused_by: Mapping[str, int]) -> None:
        """Nodes were refused by checks."""
        for check, count in refused_by.items():
            self._refused.labels(check).inc(count)

    def bind(self, result: str) -> None:
        """A bind ended."""
        self._binds.labels(result).inc()

    def error(self) -> None:
        """Something went wrong that should not have."""
        self._errors.inc()

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A number that is read when it is scraped."""
        Gauge(name, text, registry=self._registry).set_function(read)

    def gauges(self, name: str, text: str, label: str, read: Callable[[], Iterable[tuple[str, float]]]) -> None:
        """A number for each value of a label, all read when they are scraped."""
        self._registry.register(_Labelled(name, text, label, read))

    def text(self) -> bytes:
        """All of it."""
        return generate_latest(self._registry)


class _Labelled(Collector):
    def __init__(self, name: str, text: str, label: str, read: Callable[[], Iterable[tuple[str, float]]]) -> None:
        self._family = (name, text, label)
        self._read = read

    def collect(self) -> Iterable[GaugeMetricFamily]:
        name, text, label = self._family
        family = GaugeMetricFamily(name, text, labels=(label,))
        for value, number in self._read():
            family.add_metric((value,), number)
        yield family
