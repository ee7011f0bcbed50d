"""Fleets as they would be: nodes added, removed, drained."""

from __future__ import annotations

import pytest

from bayplan.errors import InputError
from bayplan.fleet.cards.model import CardNode
from bayplan.simulate.what_if import changed


def node(name: str, model: str = "T4", cards: int = 2) -> CardNode:
    return CardNode(name=name, cpu_milli=8000, memory_bytes=1 << 33, cards=cards, model=model)


FLEET = (node("a", cards=4), node("c"), node("b"), node("g", "G2"))


def names(*changes: str) -> list[str]:
    return [each.name for each in changed(FLEET, changes)]


def test_nothing_asked_changes_nothing() -> None:
    assert changed(FLEET, ()) == FLEET


def test_added_nodes_are_like_those_of_the_model_that_are_most() -> None:
    after = changed(FLEET, ["add 2 x T4"])
    assert after[:4] == FLEET
    assert [(each.cards, each.model) for each in after[4:]] == [(2, "T4"), (2, "T4")]


def test_nodes_of_a_model_go_whatever_their_shape_the_last_by_name_first() -> None:
    assert names("remove 1 x T4") == ["a", "b", "g"]
    assert names("remove 2*T4") == ["a", "g"]
    assert names("remove 3 × T4") == ["g"]


def test_changes_are_made_one_after_the_other() -> None:
    assert names("drain c", "remove 1 x T4", "add 1 x G2")[:2] == ["a", "g"]
    assert len(names("drain g", "add 1 x 8xA100,96cpu,1Ti", "remove 1 x A100")) == 3


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("", "no such change (expected 'add 20 x KIND'"),
        ("grow", "no such change"),
        ("add x T4", "no such change"),
        ("add -1 x T4", "no such change"),
        ("add 0 x T4", "not a number of nodes: 0"),
        ("add 999999 x T4", "not a number of nodes"),
        ("add 1 x T5", "no such kind of node: 'T5' (expected T4"),
        ("remove 4 x T4", "not so many nodes of the kind: 4 (expected at most 3)"),
        ("drain h", "no such node: 'h'"),
    ],
)
def test_what_cannot_be_is_told_with_the_change(change: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        names(change)
    assert str(caught.value).startswith(f"--what-if {change!r}: ")
    assert told in str(caught.value)


def test_a_fleet_cannot_be_changed_to_none() -> None:
    with pytest.raises(InputError, match="no nodes left"):
        names("remove 3 x T4", "drain g")
