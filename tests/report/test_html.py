from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from bayplan.fleet.plan import Plan
from bayplan.report.html import page

VOID = {"meta", "rect", "path", "circle", "br"}


class Checker(HTMLParser):
    """Collects tags and attributes, and fails where one is closed that is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(text: str) -> Checker:
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    return checker


def test_the_page_is_well_formed_and_fetches_nothing(plan: Plan) -> None:
    found = checked(page(plan))
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(found.tags)
    names = {name for name, _ in found.attributes}
    assert not {"src", "href", "xlink:href", "srcset", "action"} & names
    assert not [name for name in names if name.startswith("on")]
    ids = [value for name, value in found.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_the_page_can_be_read_without_seeing(small_plan: Plan) -> None:
    text = page(small_plan, title="Tuesday")
    assert '<html lang="en">' in text
    assert "<title>Tuesday</title>" in text
    assert text.count('<th scope="col">') == 9 + 6
    assert text.count("<caption>") == 2
    assert 'role="img"' in text


@pytest.mark.parametrize(
    "part",
    [
        "12 of 13 containers placed",
        "Resources cannot be allocated with Topology locality",
        "ask for at most 24 CPUs",
        "cpu: asked 40 CPUs, free 24 CPUs",
        "<details><summary>default/db-0: worker-1</summary>",
        "<b>kubelet-hangs</b>: this kubelet would walk too many masks",
        "prefers-color-scheme: dark",
    ],
)
def test_the_page_tells(small_plan: Plan, part: str) -> None:
    assert part in page(small_plan)


def test_a_large_fleet_stays_a_page(large_plan: Plan) -> None:
    text = page(large_plan)
    checked(text)
    assert "16 more nodes not drawn" in text
    assert len(re.findall("<svg", text)) == 24
