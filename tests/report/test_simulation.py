"""Simulations as tables, documents and pictures: the same bytes for the same runs."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import msgspec
import pytest

from bayplan.errors import InputError
from bayplan.report import simulation_chart
from bayplan.report.simulation import as_json, load_columns
from bayplan.report.simulation_text import as_text
from bayplan.simulate.result import RunResult
from bayplan.simulate.summary import summary


def run(policy: str, seed: int, highest: int = 130, **other: object) -> RunResult:
    loads = {str(load): load * 0.9 + seed for load in range(highest + 1)}
    made = RunResult(
        policy=policy,
        seed=seed,
        nodes=3,
        cards=24,
        arrivals=1000,
        failed=1200 + seed,
        refused={"shared": 1000, "1-card": 200 + seed},
        refused_by_cause={"cpu": 1200 + seed},
        final_allocation_percent=95.5,
        final_unallocated_cards=1.1,
        allocation_percent=loads,
        fragmentation_percent=loads,
        fragmentation_ratio=loads,
        power_kw=loads,
        by_cause={"satisfied": 4.5},
    )
    return msgspec.structs.replace(made, **other)


def text(*runs: RunResult, width: int = 120, unicode: bool = True) -> str:
    return as_text(runs, width=width, color=False, unicode=unicode)


def test_one_run_is_an_object_and_several_have_a_mean() -> None:
    alone = json.loads(as_json([run("fgd", 1)]))
    assert (alone["policy"], alone["seed"], alone["allocation_percent"]["100"]) == ("fgd", 1, 91.0)
    several = json.loads(as_json([run("fgd", 1), run("fgd", 3)]))
    assert [each["seed"] for each in several["runs"]] == [1, 3]
    assert several["mean"]["fgd"]["allocation_percent"]["100"] == 92.0


def test_policies_stand_under_each_other_and_loads_beside() -> None:
    lines = text(run("fgd", 0), run("best-fit", 1)).splitlines()
    assert lines[0] == "3 nodes, 24 cards, 2 seeds"
    assert lines[2].startswith("Allocated")
    assert lines[3].split() == ["policy", "20", "50", "80", "90", "95", "100", "110", "120", "130"]
    assert lines[4].split()[:3] == ["fgd", "18.00", "45.00"]
    assert lines[5].split()[:3] == ["best-fit", "19.00", "46.00"]
    assert "1,200" in text(run("fgd", 0))


def test_several_seeds_have_their_spread() -> None:
    assert "91.00±1.41" in text(run("fgd", 0), run("fgd", 2))
    assert "91.00+-1.41" in text(run("fgd", 0), run("fgd", 2), unicode=False)


def test_a_run_that_ends_early_has_the_loads_that_it_reached() -> None:
    head = text(run("fgd", 0, highest=7)).splitlines()[3].split()
    assert head == ["policy", "0", "1", "2", "3", "4", "5", "6", "7"]
    assert text(run("fgd", 0, highest=600)).splitlines()[3].split()[-1] == "600"


def test_bounds_stand_below_what_was_allocated_and_the_second_only_where_it_says_more() -> None:
    bound: dict[str, float | None] = {"100": 96.914, "130": 99.88}
    same = run("fgd", 0, bound_percent=bound, bound_percent_all_cpu_only=bound)
    lines = text(same, run("pwr", 0)).splitlines()
    assert lines[6].startswith("no policy above")
    assert lines[6].split()[3:] == ["96.91", "99.88"]
    assert lines[7] == ""
    assert "no policy above" in simulation_chart.as_svg([same])
    other = text(run("fgd", 0, bound_percent=bound, bound_percent_all_cpu_only={**bound, "130": None}))
    assert "... refusing no CPU-only pod" in other
    assert other.splitlines()[6].split()[-2:] == ["96.91", "-"]
    assert "no policy above" not in text(run("fgd", 0))


def test_means_of_bounds_are_unknown_where_one_is() -> None:
    first = run("fgd", 0, bound_percent={"100": 90.0}, bound_percent_all_cpu_only={"100": None, "130": 80.0})
    second = run("fgd", 1, bound_percent={"100": 92.0}, bound_percent_all_cpu_only={"100": 90.0, "130": 81.0})
    mean = summary([first, second]).mean["fgd"]
    assert mean.bound_percent == {"100": 91.0}
    assert mean.bound_percent_all_cpu_only == {"100": None, "130": 80.5}
    assert load_columns([first])["bound_percent"][99:101] == [None, 90.0]
    assert "bound_percent" not in load_columns([run("fgd", 0)])


def test_energy_is_told_where_there_is_any() -> None:
    assert "energy" not in text(run("fgd", 0))
    assert "1,234.5" in text(run("fgd", 0, energy_kwh=1234.5, mean_allocation_percent=50.0))


def test_a_policy_whose_name_is_hostile_does_no_harm() -> None:
    hostile = run("x\x1b[2J:$a_b$<b>", 1)
    assert "\x1b" not in text(hostile)
    ElementTree.fromstring(simulation_chart.as_svg([hostile]))


def test_a_row_for_each_policy_seed_and_load() -> None:
    columns = load_columns([run("fgd", 1, highest=1), run("pwr", 2, highest=0)])
    assert columns["policy"] == ["fgd", "fgd", "pwr"]
    assert columns["seed"] == [1, 1, 2]
    assert columns["load"] == [0, 1, 0]
    assert columns["power_kw"] == [1.0, 1.9, 2.0]


def test_the_picture_has_a_line_for_each_policy_and_is_the_same_every_time() -> None:
    runs = [run(policy, seed) for policy in ("fgd", "pwr", *"abcdefgh") for seed in (1, 2)]
    picture = simulation_chart.as_svg(runs)
    assert picture == simulation_chart.as_svg(runs)
    words = {element.text for element in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")}
    assert {"fgd", "pwr", "h", "power, kW"} <= words
    assert "20" + "26-" not in picture  # no date


def test_a_picture_without_matplotlib_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation_chart, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="a picture needs matplotlib"):
        simulation_chart.as_svg([run("fgd", 1)])
