"""From settings to the checks that an extender asks; the same from a configuration file and from a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.published.checks import ZoneChecks
from bayplan.fleet.published.doubts import ZoneSettings
from bayplan.fleet.published.kinds import PolicyOf
from bayplan.fleet.scheduling.checks import Check
from bayplan.fleet.scheduling.scheduling import Scheduling
from bayplan.fleet.scheduling.telemetry_check import TelemetryCheck
from bayplan.fleet.scheduling.zones_check import ZonesCheck
from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import TelemetrySettings
from bayplan.resources.plugin import ResourcePlugin

T = TypeVar("T")


class Weights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each check counts among the scores; zero: it only filters."""

    telemetry: int = 1
    zones: int = 1

    def __post_init__(self) -> None:
        """Raises `InputError` for a weight out of range."""
        for name in self.__struct_fields__:
            if not 0 <= getattr(self, name) <= 100:
                raise InputError("out of range", place=name, value=getattr(self, name), expected="0..100")


class SchedulingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """All that answers depend on, but for what happens. `reserve_for_s`: how long a decided pod counts unseen."""

    telemetry: TelemetrySettings = TelemetrySettings()
    zones: ZoneSettings = ZoneSettings()
    weights: Weights = Weights()
    reserve_for_s: float = 60.0


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The checks together, and each for those who look into it."""

    scheduling: Scheduling
    telemetry: TelemetryCheck
    zones: ZonesCheck


def set_up(settings: SchedulingSettings, policies: PolicyOf, plugins: Sequence[ResourcePlugin]) -> Setup:
    """Checks that know nothing yet. `policies` and `plugins` are what nodes' hubs are made of."""
    telemetry = TelemetryCheck(TelemetryEngine(settings.telemetry))
    zones = ZonesCheck(ZoneChecks(settings.zones, policies, plugins), settings.reserve_for_s)
    checks: list[tuple[Check, int]] = [
        (telemetry, settings.weights.telemetry),
        (zones, settings.weights.zones),
    ]
    return Setup(scheduling=Scheduling(checks), telemetry=telemetry, zones=zones)


def read_settings(values: Mapping[str, Any], place: str = "") -> SchedulingSettings:
    """Settings from a document. Raises `InputError` that names the field."""
    return converted(values, SchedulingSettings, place)


def converted(values: object, kind: type[T], place: str) -> T:
    """A part of a document as what it must be. Raises `InputError` that names the field."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).rpartition(" - at `$")
        inner = path.rstrip("`").lstrip(".")
        raise InputError(problem or str(error), place=".".join(part for part in (place, inner) if part)) from error
    except InputError as error:
        raise error.within(place=place) from error


def written(settings: SchedulingSettings) -> dict[str, Any]:
    """Settings as a document, for the first line of a recording."""
    found: dict[str, Any] = msgspec.to_builtins(settings, str_keys=True)
    return found
