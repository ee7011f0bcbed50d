"""Whatever stands in a manifest or a machine, no picture carries an escape sequence or markup of it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import defusedxml.ElementTree
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.fleet.plan import Plan
from bayplan.machine import Machine
from bayplan.report import explain, html, svg, text
from bayplan.report.document import plan_json, plan_yaml, read_plan
from bayplan.report.plain import columns

HOSTILE = [
    "</svg><script>alert(1)</script>",
    "</title></style><img src=x onerror=alert(1)>",
    '"><a href="javascript:alert(1)">',
    "' onload='alert(1)",
    "]]><!--",
    "&lt;&amp;&#60;script&#62;",
    "\x1b[31mred\x1b]0;title\x07\x9b31m",
    "a\x00b\rc\nd\x85e\u2028f",
    "\u202eevil\u2066\u200f\u05d0\ufeff",
    "\ud800\udfff\ufffe\uffff",
    "x" * 10_000,
    "🚢船" * 3000,
    "",
    " " * 5000,
    "{{7*7}} %s %d \\",
]
SGR = re.compile(r"\x1b\[[0-9;]*m")


def poisoned(value: Any, word: str) -> Any:
    """The value with every free text in it replaced."""
    if isinstance(value, msgspec.Struct):
        changes = {
            field.name: word if field.type is str else poisoned(getattr(value, field.name), word)
            for field in msgspec.structs.fields(type(value))
        }
        return msgspec.structs.replace(value, **changes)
    if isinstance(value, tuple):
        return tuple(word if isinstance(item, str) else poisoned(item, word) for item in value)
    if isinstance(value, dict):
        return {word if isinstance(key, str) else key: word if isinstance(v, str) else v for key, v in value.items()}
    return value


def poisoned_plan(plan: Plan, word: str) -> Plan:
    made: Plan = poisoned(plan, word)
    placements = tuple(
        msgspec.structs.replace(new, node=None if old.node is None else word)
        for old, new in zip(plan.placements, made.placements, strict=True)
    )
    return msgspec.structs.replace(made, placements=placements)


def parsed(page: str) -> tuple[set[str], set[str]]:
    """Names of the tags and of the attributes that a browser would see."""
    tags: set[str] = set()
    attributes: set[str] = set()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.add(tag)
            attributes.update(name for name, _ in attrs)

    Reader().feed(page)
    return tags, attributes


def check(plan: Plan, word: str) -> None:
    bad = poisoned_plan(plan, word)
    machine: Machine = bad.nodes[0].machine
    for drawn in (text.draw_plan(bad, width=80), text.draw_machine(machine, width=80)):
        assert all(line.isprintable() for line in drawn.split("\n"))
        assert max(columns(line) for line in drawn.splitlines()) <= 80
    coloured = text.draw_plan(bad, color=True)
    assert SGR.sub("", coloured).replace("\n", "").isprintable()
    assert text.draw_plan(bad, unicode=False).isascii()
    told = explain.explain(bad, bad.placements[0].pod.name)
    assert told.replace("\n", "").isprintable()
    for picture in (svg.draw_plan(bad), svg.draw_machine(machine)):
        root = defusedxml.ElementTree.fromstring(picture)
        tags = {element.tag.partition("}")[2] for element in root.iter()}
        assert tags <= {"svg", "title", "desc", "defs", "pattern", "path", "circle", "rect", "text", "g"}
        assert picture.replace("\n", "").isprintable()
    page = html.page(bad, title=word)
    assert page.replace("\n", "").isprintable()
    tags, attributes = parsed(page)
    assert not {"script", "img", "a", "iframe", "object", "link"} & tags
    assert not [name for name in attributes if name.startswith("on") or name in ("src", "href")]
    assert len(page) < 2_000_000


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_harmless_everywhere(small_plan: Plan, word: str) -> None:
    check(small_plan, word)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(word=st.text(max_size=40))
def test_any_name_is_harmless_everywhere(small_plan: Plan, word: str) -> None:
    check(small_plan, word)


@pytest.mark.long
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(word=st.text(alphabet=st.sampled_from("<>&\"'/=\x1b[]()\u202e\ud800\x00 aß🚢\\;:%{}!-"), max_size=400))
def test_many_nasty_names_are_harmless_everywhere(small_plan: Plan, word: str) -> None:
    check(small_plan, word)


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
def test_a_plan_with_hostile_names_can_be_saved_and_read(small_plan: Plan, word: str) -> None:
    bad = poisoned_plan(small_plan, word)
    back = read_plan(plan_json(bad))
    assert read_plan(plan_yaml(bad)) == back
    assert plan_json(bad).encode()
    if word.isprintable() and word:
        assert back == bad
