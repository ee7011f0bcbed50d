"""What a real Prometheus has, and how old it is: flips, series that are gone, series that stand still, restarts."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from bayplan.cluster.sources.access import HttpAccess
from bayplan.cluster.sources.dated import MetricQuery
from bayplan.cluster.sources.feed import FeedSettings, MetricFeed
from bayplan.cluster.sources.nodes import ClusterNodes
from bayplan.cluster.sources.prometheus import PrometheusSettings, PrometheusSource
from bayplan.cluster.sources.source import Polled, SourceError
from bayplan.fleet.scheduling.events import Event, Measured, NotMeasured
from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import MetricKey, Sample, TelemetrySettings
from bayplan.fleet.telemetry.nano import exact
from bayplan.fleet.telemetry.reading import read_policy
from bayplan.protocols.kubernetes import NodeAddress, NodeObject, NodeStatus, ObjectMeta

Until = Callable[[Callable[[], object], str], Awaitable[None]]
HEAT = MetricKey(name="node_heat")
POLICY = b"""
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: cool, namespace: default}
spec:
  strategies:
    dontschedule:
      rules: [{metricname: node_heat, operator: GreaterThan, target: 80}]
"""


class Polling:
    """One source without a feed, and what it says of one metric."""

    def __init__(self, url: str, nodes: ClusterNodes | None = None, **settings: Any) -> None:
        self.source = PrometheusSource(PrometheusSettings(access=HttpAccess(url=url), **settings))
        self.nodes = nodes or ClusterNodes.unknown()

    def poll(self, metric: MetricKey) -> Polled:
        async def once() -> Polled:
            try:
                return await self.source.poll(metric, self.nodes)
            finally:
                await self.source._http.aclose()

        return asyncio.run(once())

    def wait_for(self, metric: MetricKey, good: Callable[[Polled], object]) -> Polled:
        """Poll until the answer is good."""
        ends = time.monotonic() + 60
        last: object = None
        while time.monotonic() < ends:
            try:
                polled = self.poll(metric)
            except SourceError as error:
                last = error
            else:
                last = polled
                if good(polled):
                    return polled
            time.sleep(0.05)
        raise AssertionError(f"never: {last}")


def sample(polled: Polled, node: str) -> Sample:
    found = polled.samples[node]
    assert isinstance(found, Sample)
    return found


def has(*nodes: str) -> Callable[[Polled], bool]:
    return lambda polled: polled.samples.keys() == set(nodes)


def test_values_are_exact_and_dated_by_their_scrapes(monitoring: Any) -> None:
    monitoring.add_node("a", "node_heat 0.1\n")
    monitoring.add_node("b", "node_heat -61.25\n")
    monitoring.start()
    began = time.time()
    polled = Polling(monitoring.url).wait_for(HEAT, has("a", "b"))
    assert exact(sample(polled, "a").nano) == Decimal("0.1")
    assert exact(sample(polled, "b").nano) == Decimal("-61.25")
    assert all(began - 60 < sample(polled, node).at <= time.time() for node in "ab")


def test_nodes_are_known_by_the_addresses_that_are_scraped(monitoring: Any) -> None:
    exporters = [monitoring.add_node(node, f"node_heat {number}\n") for number, node in enumerate("abc")]
    monitoring.start(node_label=False)
    nodes = ClusterNodes.of(
        NodeObject(
            metadata=ObjectMeta(name=exporter.node),
            status=NodeStatus(addresses=(NodeAddress(type="InternalIP", address=exporter.address),)),
        )
        for exporter in exporters[:2]
    )
    both = has("a", "b")
    polled = Polling(monitoring.url, nodes).wait_for(HEAT, lambda polled: both(polled) and polled.left_out.foreign == 1)
    assert exporters[2].address in str(polled.left_out)


def test_each_card_of_a_node_has_its_value(monitoring: Any) -> None:
    monitoring.add_node("a", 'card_heat{card="card0"} 61\ncard_heat{card="card1"} 75.5\n')
    monitoring.add_node("b", 'card_heat{card="card0"} NaN\ncard_heat{card="card1"} 40\n')
    monitoring.start()
    cards = MetricKey(name="card_heat", part="card")
    polled = Polling(monitoring.url).wait_for(cards, has("a", "b"))
    values = {
        node: {card: exact(found.nano) for card, found in parts.items()}
        for node, parts in polled.samples.items()
        if isinstance(parts, Mapping)
    }
    assert values == {"a": {"card0": 61, "card1": Decimal("75.5")}, "b": {"card1": 40}}
    assert polled.left_out.valueless == 1
    as_nodes = Polling(monitoring.url).poll(MetricKey(name="card_heat"))
    assert exact(sample(as_nodes, "a").nano) == Decimal("75.5")
    assert as_nodes.left_out.duplicates == 1


def test_a_node_whose_exporter_is_gone_has_no_value_and_its_rate_neither(monitoring: Any) -> None:
    monitoring.add_node("a", "node_heat 1\n")
    gone = monitoring.add_node("b", "node_heat 2\n")
    monitoring.start()
    polling = Polling(monitoring.url)
    mean = MetricKey(promql="avg_over_time(node_heat[5m])")
    polling.wait_for(mean, has("a", "b"))
    gone.stop()
    polling.wait_for(HEAT, has("a"))
    polled = polling.wait_for(mean, has("a"))
    assert polled.left_out.undated == 1, "Prometheus still has the mean of the last five minutes"
    as_evaluated = Polling(monitoring.url, metric=MetricQuery(time="evaluation"))
    as_evaluated.source.settings.metrics[str(mean)] = MetricQuery(time="evaluation")
    assert as_evaluated.poll(mean).samples.keys() == {"a", "b"}


def test_a_series_that_is_not_scraped_any_more_grows_old_while_prometheus_still_serves_it(monitoring: Any) -> None:
    monitoring.add_node("a", "node_heat 1\n")
    monitoring.add_node("b", "node_heat 2\n")
    monitoring.start()
    polling = Polling(monitoring.url)
    before = polling.wait_for(HEAT, has("a", "b"))
    monitoring.prometheus.stop()
    monitoring.start("a")
    restarted = time.time()
    after = polling.wait_for(HEAT, lambda polled: "a" in polled.samples and sample(polled, "a").at > restarted)
    assert sample(before, "b").at <= sample(after, "b").at < restarted
    assert sample(after, "b").nano == sample(before, "b").nano
    mean = polling.poll(MetricKey(promql="max_over_time(node_heat[5m]) * 2"))
    assert sample(mean, "b").at == sample(after, "b").at


def test_a_text_file_that_nobody_writes_any_more_is_as_old_as_the_file(monitoring: Any) -> None:
    exporter = monitoring.add_node("a", "node_heat 1\n")
    exporter.date(1_700_000_000)
    monitoring.start()
    scraped = Polling(monitoring.url).wait_for(HEAT, has("a"))
    assert sample(scraped, "a").at > time.time() - 60
    how = MetricQuery(time='node_textfile_mtime_seconds{file=~".*/node.prom"}')
    dated = Polling(monitoring.url, metrics={"node_heat": how}).poll(HEAT)
    assert sample(dated, "a").at == pytest.approx(1_700_000_000, abs=0.001)


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (MetricKey(name="no_such_metric"), "no series"),
        (MetricKey(name="no-such-metric"), "no series"),
        (MetricKey(promql="node_heat node_heat"), "bad_data"),
        (MetricKey(promql="scalar(node_heat)"), "expected type instant vector"),
        (MetricKey(promql="sum(node_heat)"), "no known node|without any label"),
    ],
)
def test_what_cannot_be_had_is_said_and_is_not_the_source_s_fault(
    monitoring: Any, metric: MetricKey, said: str
) -> None:
    monitoring.add_node("a", "node_heat 1\n")
    monitoring.start()
    polling = Polling(monitoring.url)
    polling.wait_for(HEAT, has("a"))
    with pytest.raises(SourceError, match=said) as caught:
        polling.poll(metric)
    assert not caught.value.is_down


class Scheduler:
    """A feed and an engine, put together as the extender does."""

    def __init__(self, url: str) -> None:
        self.engine = TelemetryEngine(TelemetrySettings(max_age_s=300))
        self.engine.set_policy(read_policy(POLICY, self.engine.settings), time.time())
        self.events: list[Event] = []
        source = PrometheusSource(PrometheusSettings(access=HttpAccess(url=url)))
        settings = FeedSettings(interval_s=0.1, timeout_s=1, longest_backoff_s=0.5)
        self.feed = MetricFeed(self.engine.metrics, [source], self._take, settings=settings)

    def _take(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Measured):
            self.engine.update(event.metric, event.samples, time.time())
        elif isinstance(event, NotMeasured):
            self.engine.failed(event.metric, event.why, time.time())

    def refused(self, node: str) -> str | None:
        return self.engine.verdict("default", "cool", time.time()).reason(node)

    @asynccontextmanager
    async def running(self) -> Any:
        task = asyncio.create_task(self.feed.run())
        try:
            yield self
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.wait([task])


def test_a_verdict_follows_the_text_file(monitoring: Any, until: Until) -> None:
    hot = monitoring.add_node("a", "node_heat 95.5\n")
    monitoring.add_node("b", "node_heat 20\n")
    monitoring.start()

    async def follow() -> None:
        async with Scheduler(monitoring.url).running() as scheduler:
            await until(lambda: "95.5" in (scheduler.refused("a") or ""), "a is too hot")
            await until(lambda: scheduler.refused("b") is None, "b is cool")
            hot.write("node_heat 80\n")
            await until(lambda: scheduler.refused("a") is None, "a has cooled down")
            hot.write("node_heat 80.1\n")
            await until(lambda: "80.1" in (scheduler.refused("a") or ""), "a is hot again")
            hot.stop()
            await until(
                lambda: "a" not in dict.fromkeys(scheduler.engine.verdict("default", "cool", time.time()).judged),
                "nothing is known of a",
            )
            assert scheduler.refused("a"), "what is not known is refused"
            assert scheduler.refused("b") is None

    asyncio.run(follow())


def test_values_outlive_a_restart_and_a_halt_of_prometheus(monitoring: Any, until: Until) -> None:
    monitoring.add_node("a", "node_heat 95.5\n")
    monitoring.add_node("b", "node_heat 20\n")
    monitoring.start()

    async def live() -> None:
        async with Scheduler(monitoring.url).running() as scheduler:
            await until(lambda: scheduler.refused("b") is None and scheduler.refused("a"), "values came")
            (state,) = scheduler.feed.metrics
            (source,) = scheduler.feed.sources.values()

            await asyncio.to_thread(monitoring.prometheus.stop)
            await until(lambda: source.is_down, "Prometheus is found to be down")
            assert scheduler.refused("b") is None, "what is known is kept"
            assert state.failures > 0
            await asyncio.to_thread(monitoring.start)
            await until(lambda: not source.is_down and not state.why, "Prometheus is back")

            monitoring.prometheus.send(signal.SIGSTOP)
            failed = state.failed_polls
            await until(lambda: state.failed_polls > failed and "within" in state.why, "polls are given up")
            assert scheduler.refused("b") is None
            monitoring.prometheus.send(signal.SIGCONT)
            await until(lambda: not state.why, "Prometheus goes on")

    asyncio.run(live())
