"""Kinds of nodes by the names that people give them, and fleets with so many of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.fleet.cards.model import CardNode
from bayplan.simulate.node_kinds import Shape, shape_of, shapes_named, with_numbers

GIB = 1 << 30
BIG = Shape(8, "A100", 96_000, 1024 * GIB)
SMALL = Shape(4, "A100", 48_000, 512 * GIB)
PLAIN = Shape(0, "", 64_000, 256 * GIB)
FLEET = (BIG.node("b1"), SMALL.node("s0"), BIG.node("b0"), PLAIN.node("p0"))


def test_a_model_of_the_fleet_stands_for_all_its_shapes_the_most_frequent_first() -> None:
    assert shapes_named("A100", FLEET) == (BIG, SMALL)


def test_a_preset_is_what_its_machine_has() -> None:
    (shape,) = shapes_named("dgx-h100", FLEET)
    assert shape == shapes_named("preset:dgx-h100", FLEET)[0]
    assert (shape.cards, shape.cpu_milli, shape.memory_bytes) == (8, 224_000, 2048 * GIB)
    assert "H100" in shape.model


@pytest.mark.parametrize(
    ("text", "shape"),
    [("8xA100,96cpu,1Ti", BIG), ("4xA100, 48cpu ,512Gi", SMALL), ("64cpu,256Gi", PLAIN)],
)
def test_a_shape_can_be_written_out(text: str, shape: Shape) -> None:
    assert shapes_named(text, FLEET) == (shape,)


@given(
    st.builds(
        Shape,
        st.integers(1, 256),
        st.text("ABC-123", min_size=1),
        st.integers(0, 10**9),
        st.integers(0, 2**50),
    )
)
def test_what_a_shape_is_written_as_is_read_as_the_same(shape: Shape) -> None:
    assert shapes_named(str(shape), ()) == (shape,)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("A10", "no such kind of node: 'A10' (expected A100"),
        ("dgx-h10", "expected dgx-h100"),
        ("zzz", "expected a model of the fleet, a preset"),
        ("8xA100,96,1Ti", "no such kind of node"),
        ("A100,96cpu,1Ti", "no such kind of node"),
        ("999xA100,96cpu,1Ti", "out of range"),
        ("8xA100,-1cpu,1Ti", "8xA100,-1cpu,1Ti: "),
        ("8xA100,96cpu,lots", "not a quantity"),
        (",", "no such kind of node"),
        (",,,,", "no such kind of node"),
    ],
)
def test_what_is_no_kind_is_told(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        shapes_named(text, FLEET)
    assert told in str(caught.value)


def test_the_last_by_name_go_and_new_ones_come_behind_with_names_of_their_own() -> None:
    fewer = with_numbers(FLEET, {BIG: 1})
    assert [node.name for node in fewer] == ["s0", "b0", "p0"]
    more = with_numbers(FLEET, {BIG: 3})
    assert more[:4] == FLEET
    again = with_numbers(more, {BIG: 4})
    assert len({node.name for node in again}) == len(again) == 6
    assert [shape_of(node) for node in again[4:]] == [BIG, BIG]


def test_absurd_numbers_of_nodes_are_refused() -> None:
    with pytest.raises(InputError, match="too many nodes"):
        with_numbers([CardNode(name="a", cpu_milli=1, memory_bytes=1)], {BIG: 10**9})
