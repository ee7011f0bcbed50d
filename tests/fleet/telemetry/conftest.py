"""Policies and polls in few words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import MetricKey, Policy, Sample, TelemetrySettings
from bayplan.fleet.telemetry.reading import read_policy
from bayplan.fleet.telemetry.verdict import Flip

MakePolicy = Callable[..., Policy]
Poll = Callable[..., tuple[Flip, ...]]


@pytest.fixture(scope="session")
def tas() -> MakePolicy:
    """A TASPolicy of strategies given by name."""

    def make(
        name: str = "p", namespace: str = "default", settings: TelemetrySettings | None = None, **strategies: Any
    ) -> Policy:
        value = {
            "apiVersion": "telemetry.intel.com/v1alpha1",
            "kind": "TASPolicy",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"strategies": strategies},
        }
        return read_policy(value, settings or TelemetrySettings())

    return make


@pytest.fixture(scope="session")
def own() -> MakePolicy:
    """A TelemetryPolicy of strategies given by name; `spec` has what else stands in its spec."""

    def make(
        name: str = "p",
        namespace: str = "default",
        settings: TelemetrySettings | None = None,
        spec: Mapping[str, Any] | None = None,
        **strategies: Any,
    ) -> Policy:
        value = {
            "apiVersion": "bayplan.dev/v1alpha1",
            "kind": "TelemetryPolicy",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {**(spec or {}), "strategies": strategies},
        }
        return read_policy(value, settings or TelemetrySettings())

    return make


@pytest.fixture(scope="session")
def poll() -> Poll:
    """Gives an engine the values of a metric, all measured at one moment (`at`; without it, now)."""

    def give(
        engine: TelemetryEngine, metric: str, values: Mapping[str, Any], now: float, at: float | None = None
    ) -> tuple[Flip, ...]:
        measured = now if at is None else at
        parts = any(isinstance(value, dict) for value in values.values())
        part = next((key.part for key in engine.metrics() if key.name == metric), "")
        assert bool(part) == parts or not values
        samples: dict[str, Any] = {
            node: {each: Sample.read(number, measured) for each, number in value.items()}
            if isinstance(value, dict)
            else Sample.read(value, measured)
            for node, value in values.items()
        }
        return engine.update(MetricKey(name=metric, part=part), samples, now)

    return give
