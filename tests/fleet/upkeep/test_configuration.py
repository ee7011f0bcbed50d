"""The section `controller` of a configuration."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.errors import InputError
from bayplan.fleet.upkeep.configuration import read_upkeep
from bayplan.fleet.upkeep.evictions import EvictionSettings
from bayplan.fleet.upkeep.upkeep import UpkeepSettings
from bayplan.fleet.upkeep.wakes import WakeSettings
from bayplan.workload.fields import Fields


def read(**section: Any) -> UpkeepSettings:
    return read_upkeep(Fields(section, "controller"))


def test_nothing_said_is_what_is_meant_anyhow() -> None:
    assert read() == UpkeepSettings()
    assert read(wakes=None, evictions={}) == UpkeepSettings()
    assert not read().evictions.evicts


def test_everything_said() -> None:
    found = read(
        period="2s",
        statusEvery="1m",
        wakes={"interval": "500ms", "againAfter": "0s", "mostNodes": 1},
        evictions={
            "policies": ["default/hot"],
            "cards": True,
            "perMinute": 0,
            "perNodePerMinute": 2,
            "violation": "1h30m",
            "coolDown": "90",
            "budgetPause": "1s",
            "localData": True,
            "dryRun": True,
        },
    )
    assert found == UpkeepSettings(
        period_s=2.0,
        status_every_s=60.0,
        wakes=WakeSettings(interval_s=0.5, again_after_s=0.0, most_nodes=1),
        evictions=EvictionSettings(
            policies=("default/hot",),
            cards=True,
            per_minute=0,
            per_node_per_minute=2,
            violation_s=5400.0,
            cool_down_s=90.0,
            budget_pause_s=1.0,
            local_data=True,
            dry_run=True,
        ),
    )
    assert read(evictions={"policies": "all"}).evictions.all_policies


@pytest.mark.parametrize(
    ("section", "error"),
    [
        ({"periods": "1s"}, "controller.periods: unknown field (expected evictions, period, statusEvery, wakes)"),
        ({"period": "0s"}, "controller.period: too short: '0s' (expected at least 0.1s)"),
        ({"period": "soon"}, "controller.period: not a length of time: 'soon' (expected like 1h30m, or seconds)"),
        ({"period": 5}, "controller.period: is a number: 5 (expected text; use quotes)"),
        ({"wakes": {"mostNodes": 0}}, "controller.wakes.mostNodes: out of range: 0 (expected 1..1000)"),
        ({"wakes": []}, "controller.wakes: is a list (expected a mapping)"),
        (
            {"evictions": {"policies": ["hot"]}},
            "controller.evictions.policies[0]: not a policy: 'hot' (expected namespace/name, or all alone)",
        ),
        ({"evictions": {"policies": "hot"}}, "controller.evictions.policies: is text: 'hot' (expected a list)"),
        ({"evictions": {"perMinute": -1}}, "controller.evictions.perMinute: out of range: -1 (expected 0..100000)"),
        ({"evictions": {"cards": "yes"}}, "controller.evictions.cards: is text: 'yes' (expected true or false)"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(section: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError) as wrong:
        read(**section)
    assert str(wrong.value) == error
