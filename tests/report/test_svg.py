from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree.ElementTree import Element

import defusedxml.ElementTree
import msgspec

from bayplan.fleet.plan import Plan
from bayplan.machine import Machine
from bayplan.report.seating import by_node, seating
from bayplan.report.svg import MOST_NODES, WIDTH, draw_machine, draw_node, draw_plan

SVG = "{http://www.w3.org/2000/svg}"


def parse(text: str) -> Element:
    root: Element = defusedxml.ElementTree.fromstring(text)
    return root


def cpus_in_tooltips(root: Element) -> list[int]:
    tips = [title.text or "" for title in root.iter(f"{SVG}title")]
    return sorted(int(cpu) for tip in tips if tip.startswith("Core") for cpu in re.findall(r"CPU (\d+):", tip))


def test_every_cpu_has_one_place_with_a_tooltip(machine: Machine, plan: Plan) -> None:
    assert cpus_in_tooltips(parse(draw_machine(machine))) == list(machine.online)
    assert cpus_in_tooltips(parse(draw_plan(plan))) == list(machine.online)


def test_the_tooltip_of_a_core_names_who_sits_there(small_plan: Plan) -> None:
    tips = [title.text for title in parse(draw_plan(small_plan)).iter(f"{SVG}title")]
    assert "Core, CPU 1: default/db-0/app; CPU 33: default/db-0/app" in tips
    assert "Core, CPU 0: reserved for the system; CPU 32: reserved for the system" in tips
    assert "Core, CPU 14: not handed out, isolated; CPU 46: not handed out, isolated" in tips


def test_the_legend_names_every_container_and_pattern(plan: Plan) -> None:
    texts = [text.text for text in parse(draw_plan(plan)).iter(f"{SVG}text")]
    seats = seating(plan.nodes[0], by_node(plan)[plan.nodes[0].name])
    for seat in seats.seats:
        assert f"{seat.pod}/{seat.container}" in texts
        assert texts.count(seat.code) >= 2
    assert "reserved for the system" in texts
    assert any(text and text.startswith("shared pool") for text in texts)


def test_everything_lies_within_the_picture(machine: Machine, plan: Plan) -> None:
    for text in (draw_plan(plan), draw_machine(machine)):
        root = parse(text)
        height = float(root.attrib["height"])
        for rect in root.iter(f"{SVG}rect"):
            x, y = float(rect.get("x", "0")), float(rect.get("y", "0"))
            assert x >= 0
            assert x + float(rect.attrib["width"]) <= WIDTH + 0.5
            assert y + float(rect.attrib["height"]) <= height + 0.5


def test_cores_do_not_overlap(plan: Plan) -> None:
    places = set()
    for group in parse(draw_plan(plan)).iter(f"{SVG}g"):
        title = group.find(f"{SVG}title")
        if title is not None and (title.text or "").startswith("Core"):
            outline = group.findall(f"{SVG}rect")[-1]
            places.add((outline.get("x"), outline.get("y")))
    assert len(places) == len(plan.nodes[0].machine.cores)


def test_the_background_is_set_and_nothing_is_fetched(small_plan: Plan) -> None:
    text = draw_plan(small_plan)
    ground = parse(text).find(f"{SVG}rect")
    assert ground is not None
    assert ground.attrib["fill"] == "#ffffff"
    assert ground.attrib["width"] == "1000"
    assert "href" not in text
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]


def test_equal_plans_give_equal_bytes(small_plan: Plan) -> None:
    copy = msgspec.convert(msgspec.structs.astuple(small_plan)[0], type=tuple, from_attributes=True)
    again = msgspec.structs.replace(small_plan, nodes=tuple(copy))
    assert draw_plan(small_plan) == draw_plan(again)


def test_ids_are_unique_and_can_be_told_apart_on_a_page(small_plan: Plan) -> None:
    node = small_plan.nodes[0]
    pages = draw_node(node, small_plan.placements, prefix="a-") + draw_node(node, small_plan.placements, prefix="b-")
    ids = re.findall(r' id="([^"]+)"', pages)
    assert len(ids) == len(set(ids)) > 0
    used = set(re.findall(r"url\(#([^)]+)\)", pages))
    assert used
    assert used <= set(ids)


def test_a_large_fleet_is_drawn_in_part_and_says_so(large_plan: Plan) -> None:
    text = draw_plan(large_plan)
    assert f"{len(large_plan.nodes) - MOST_NODES} more nodes not drawn" in text
    assert len(text) < 1_000_000


def test_a_core_whose_threads_differ_shows_both(
    make_machine: dict[str, Callable[[], Machine]], small_plan: Plan
) -> None:
    first = small_plan.placements[0]
    assert first.decision is not None
    grant = msgspec.structs.replace(first.decision.grants[0], exclusive=type(first.decision.grants[0].exclusive)([33]))
    split = msgspec.structs.replace(first, decision=msgspec.structs.replace(first.decision, grants=(grant,)))
    text = draw_plan(msgspec.structs.replace(small_plan, placements=(split,)))
    assert "CPU 1: not handed out; CPU 33: default/db-0/app" in text
