"""Values from the custom metrics API, through an adapter, as Telemetry Aware Scheduling takes them.

The group's version is asked for once and again after it failed: an adapter may be installed later than we are.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from bayplan.cluster.api.errors import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from bayplan.cluster.sources.gathering import Duplicates, Gathering, Measurement
from bayplan.cluster.sources.nodes import ClusterNodes
from bayplan.cluster.sources.source import Polled, SourceError
from bayplan.fleet.telemetry.model import MetricKey
from bayplan.protocols.custom_metrics import GROUP_PATH, metric_path, read_values, read_version

_DOWN = (UnavailableError, TooManyRequestsError, UnauthorizedError, ForbiddenError)


class ApiReader(Protocol):
    """The API server, as far as it is needed here: `bayplan.cluster.api.client.Api`."""

    async def get(self, path: str) -> bytes:
        """What is at a path. Raises `ApiError`."""
        ...


class CustomMetricsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """`duplicates`: what several items of one node are taken together to."""

    name: str = "custom-metrics"
    duplicates: Duplicates = "max"


class CustomMetricsSource:
    """The custom metrics API of a cluster. `version` is the one that is asked for, once it is known."""

    def __init__(self, api: ApiReader, settings: CustomMetricsSettings | None = None) -> None:
        self.settings = settings or CustomMetricsSettings()
        self.version = ""
        self._api = api

    @property
    def name(self) -> str:
        """What it is called."""
        return self.settings.name

    def serves(self, metric: MetricKey) -> bool:
        """Metrics of nodes by name; it knows neither PromQL nor parts of nodes."""
        return bool(metric.name) and not metric.part

    async def aclose(self) -> None:
        """The API server's connections are somebody else's."""

    async def poll(self, metric: MetricKey, nodes: ClusterNodes) -> Polled:
        """The newest values of all nodes. Raises `SourceError` or `InputError`."""
        try:
            if not self.version:
                self.version = await self._find_version()
            values = read_values(await self._api.get(metric_path(self.version, metric.name)))
        except ApiError as error:
            if isinstance(error, NotFoundError):
                self.version = ""
            raise SourceError(str(error), is_down=isinstance(error, _DOWN)) from error
        gathering = Gathering(self.settings.duplicates, parts=False)
        for found in values.values:
            node = nodes.named(found.node)
            if node is None:
                gathering.leave_out("foreign", f"no node {found.node}")
            else:
                gathering.add(Measurement(node, "", found.value, found.at, found.window_s))
        polled = gathering.polled(values.problems)
        left_out = msgspec.structs.replace(polled.left_out, unreadable=values.unreadable)
        if not polled.samples:
            raise SourceError(f"the custom metrics API has no value of a node: {str(left_out) or 'no items'}")
        return Polled(samples=polled.samples, left_out=left_out)

    async def _find_version(self) -> str:
        try:
            return read_version(await self._api.get(GROUP_PATH))
        except NotFoundError as error:
            raise SourceError("the cluster has no custom metrics API: no adapter is installed", is_down=True) from error
