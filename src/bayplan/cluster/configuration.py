"""The configuration of extender and controller: one file with a section for each part, so that both obey the same.

    telemetry: {missingPolicy: deny, maxAgeS: 300}
    sources:
      prometheus:
      - access: {url: "http://prometheus.monitoring:9090"}
      customMetrics: {}
      polling: {intervalS: 5}
    zones: {missing: skip, stale: skip}
    weights: {telemetry: 1, zones: 1}
    reserveForS: 60
    server: {bodyBytes: 134217728}
    controller: {evictions: {policies: all}}

Every section and every field may be missing; one that does not exist is an error that names it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.cluster.http import Limits
from bayplan.cluster.sources.custom_metrics import ApiReader, CustomMetricsSettings, CustomMetricsSource
from bayplan.cluster.sources.feed import FeedSettings
from bayplan.cluster.sources.prometheus import PrometheusSettings, PrometheusSource
from bayplan.cluster.sources.source import Source
from bayplan.errors import InputError
from bayplan.files.documents import read_bytes
from bayplan.fleet.scheduling.setup import SchedulingSettings, converted
from bayplan.fleet.upkeep.configuration import read_upkeep
from bayplan.fleet.upkeep.upkeep import UpkeepSettings
from bayplan.workload.documents import read_documents
from bayplan.workload.fields import Fields, as_fields

_SCHEDULING = ("telemetry", "zones", "weights", "reserveForS")
SECTIONS = (*_SCHEDULING, "controller", "server", "sources")


class SourcesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Where values come from: the custom metrics API where it is named, and where nothing else is."""

    prometheus: tuple[PrometheusSettings, ...] = ()
    custom_metrics: CustomMetricsSettings | None = None
    polling: FeedSettings = FeedSettings()

    def make(self, api: ApiReader) -> list[Source]:
        """The sources, those that are asked first in front."""
        found: list[Source] = [PrometheusSource(settings) for settings in self.prometheus]
        if self.custom_metrics is not None or not found:
            found.append(CustomMetricsSource(api, self.custom_metrics))
        return found


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """All sections."""

    scheduling: SchedulingSettings = SchedulingSettings()
    sources: SourcesSettings = SourcesSettings()
    upkeep: UpkeepSettings = UpkeepSettings()
    limits: Limits = Limits()


def read_configuration(path: str) -> Configuration:
    """The configuration in a file; an empty path is one that says nothing. Raises `InputError` that names the field."""
    if not path:
        return Configuration()
    documents = read_documents(read_bytes(path), path)
    if len(documents) != 1:
        raise InputError(f"{len(documents)} documents", source=path, expected="one")
    try:
        return _read(as_fields(documents[0].value, ""))
    except InputError as error:
        raise error.within(source=path) from error


def _read(fields: Fields) -> Configuration:
    for name in fields.value:
        if name not in SECTIONS:
            raise fields.error(name, "unknown section", expected=", ".join(SECTIONS))
    scheduling: dict[str, Any] = {
        name: fields.value[name] for name in _SCHEDULING if fields.value.get(name) is not None
    }
    return Configuration(
        scheduling=converted(scheduling, SchedulingSettings, ""),
        sources=converted(fields.mapping("sources").value, SourcesSettings, "sources"),
        upkeep=read_upkeep(fields.mapping("controller")),
        limits=converted(fields.mapping("server").value, Limits, "server"),
    )
