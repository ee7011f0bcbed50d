"""What of upkeep people set, read from their configuration: the section `controller`.

    controller:
      period: 5s                  # how often metrics are polled
      statusEvery: 10s            # between two writes of one policy's status
      wakes: {interval: 1s, againAfter: 8s, mostNodes: 3}
      evictions:
        policies: [default/hot]   # or `all`; nobody is evicted without
        cards: true               # pods on cards that are to be given up
        perMinute: 10
        perNodePerMinute: 1
        violation: 1m             # how long a node must have violated without a break
        coolDown: 5m              # between two pods of one owner
        budgetPause: 30s          # after a disruption budget refused, doubled each time
        localData: false          # pods whose emptyDir or hostPath would be lost too
        dryRun: false

Every field may be missing; one that does not exist is an error. Lengths of time are as Go writes them.
"""

from __future__ import annotations

from collections.abc import Set

from bayplan.errors import InputError
from bayplan.fleet.upkeep.evictions import EvictionSettings
from bayplan.fleet.upkeep.upkeep import UpkeepSettings
from bayplan.fleet.upkeep.wakes import WakeSettings
from bayplan.workload.fields import Fields
from bayplan.workload.times import parse_length

ALL = "all"
_FIELDS = frozenset({"period", "statusEvery", "wakes", "evictions"})
_WAKES = frozenset({"interval", "againAfter", "mostNodes"})
_EVICTIONS = frozenset(
    {
        "policies",
        "cards",
        "perMinute",
        "perNodePerMinute",
        "violation",
        "coolDown",
        "budgetPause",
        "localData",
        "dryRun",
    }
)
_MOST_A_MINUTE = 100_000


def read_upkeep(section: Fields) -> UpkeepSettings:
    """The section `controller`. Raises `InputError`."""
    _check_known(section, _FIELDS)
    defaults = UpkeepSettings()
    return UpkeepSettings(
        period_s=_seconds(section, "period", defaults.period_s, least=0.1),
        status_every_s=_seconds(section, "statusEvery", defaults.status_every_s),
        wakes=_read_wakes(section.mapping("wakes")),
        evictions=_read_evictions(section.mapping("evictions")),
    )


def _read_wakes(section: Fields) -> WakeSettings:
    _check_known(section, _WAKES)
    defaults = WakeSettings()
    again = section.value.get("againAfter")
    return WakeSettings(
        interval_s=_seconds(section, "interval", defaults.interval_s, least=0.1),
        again_after_s=None if again is None else _seconds(section, "againAfter", 0),
        most_nodes=_or(section.integer("mostNodes", 1, 1000), defaults.most_nodes),
    )


def _read_evictions(section: Fields) -> EvictionSettings:
    _check_known(section, _EVICTIONS)
    defaults = EvictionSettings()
    are_all = section.value.get("policies") == ALL
    return EvictionSettings(
        all_policies=are_all,
        policies=() if are_all else _policies(section),
        cards=section.boolean("cards", defaults.cards),
        per_minute=_or(section.integer("perMinute", 0, _MOST_A_MINUTE), defaults.per_minute),
        per_node_per_minute=_or(section.integer("perNodePerMinute", 0, _MOST_A_MINUTE), defaults.per_node_per_minute),
        violation_s=_seconds(section, "violation", defaults.violation_s),
        cool_down_s=_seconds(section, "coolDown", defaults.cool_down_s),
        budget_pause_s=_seconds(section, "budgetPause", defaults.budget_pause_s, least=1.0),
        local_data=section.boolean("localData", defaults.local_data),
        dry_run=section.boolean("dryRun", defaults.dry_run),
    )


def _policies(section: Fields) -> tuple[str, ...]:
    names = section.texts("policies")
    for number, name in enumerate(names):
        namespace, slash, rest = name.partition("/")
        if not (namespace and slash and rest) or "/" in rest:
            place = f"{section.at('policies')}[{number}]"
            raise InputError("not a policy", place=place, value=name, expected=f"namespace/name, or {ALL} alone")
    return names


def _seconds(section: Fields, name: str, default: float, *, least: float = 0.0) -> float:
    text = section.text(name)
    if not text:
        return default
    try:
        length = parse_length(text)
    except InputError as error:
        raise error.within(place=section.at(name)) from error
    if length < least:
        raise section.error(name, "too short", value=text, expected=f"at least {least:g}s")
    return length


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _check_known(section: Fields, known: Set[str]) -> None:
    for name in section.value:
        if name not in known:
            raise section.error(name, "unknown field", expected=", ".join(sorted(known)))
