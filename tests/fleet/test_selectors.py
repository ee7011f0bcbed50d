"""Labels against requirements, taints against tolerations: one row a rule."""

from __future__ import annotations

import pytest

from bayplan.fleet.node_fields import Taint
from bayplan.fleet.selectors import meets, node_meets, tolerates, untolerated
from bayplan.workload.model import Selector, Toleration


@pytest.mark.parametrize(
    ("operator", "values", "label", "expected"),
    [
        ("In", ("a", "b"), "b", True),
        ("In", ("a", "b"), "c", False),
        ("In", ("a",), None, False),
        ("NotIn", ("a",), "b", True),
        ("NotIn", ("a",), "a", False),
        ("NotIn", ("a",), None, True),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "x", False),
        ("Gt", ("4",), "5", True),
        ("Gt", ("4",), "4", False),
        ("Gt", ("-4",), "+3", True),
        ("Lt", ("4",), "3", True),
        ("Lt", ("4",), "10", False),
        ("Lt", ("4",), None, False),
        ("Gt", ("4",), "five", False),
        ("Gt", ("x",), "5", False),
        ("Gt", ("1", "2"), "5", False),
        ("Gt", ("1",), "9223372036854775808", False),
        ("Gt", ("1",), "5 ", False),
        ("Lt", ("1",), "٠", False),
        ("Near", ("a",), "a", False),
    ],
)
def test_operators(operator: str, values: tuple[str, ...], label: str | None, expected: bool) -> None:
    assert meets(Selector(key="k", operator=operator, values=values), label) is expected


def test_a_term_needs_all_its_requirements_and_an_empty_one_holds_for_no_node() -> None:
    zone = Selector(key="zone", operator="In", values=("a",))
    name = Selector(key="metadata.name", operator="In", values=("n1",), field=True)
    assert node_meets((zone, name), "n1", {"zone": "a"})
    assert not node_meets((zone, name), "n2", {"zone": "a"})
    assert not node_meets((zone, name), "n1", {"zone": "b", "metadata.name": "n1"})
    assert not node_meets((), "n1", {"zone": "a"})


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="k", value="v", effect="NoSchedule"), True),
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", value="w"), False),
        (Toleration(key="k", value="v", effect="NoExecute"), False),
        (Toleration(key="k", operator="", value="v"), True),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(key="j", operator="Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoSchedule"), True),
        (Toleration(operator="Exists", effect="PreferNoSchedule"), False),
        (Toleration(key="k", operator="Gt", value="v"), False),
    ],
)
def test_tolerations_of_one_taint(toleration: Toleration, expected: bool) -> None:
    assert tolerates(toleration, Taint(key="k", value="v", effect="NoSchedule")) is expected


def test_only_taints_with_the_effects_that_are_asked_about_count() -> None:
    taints = (
        Taint(key="a", effect="PreferNoSchedule"),
        Taint(key="b", effect="NoExecute"),
        Taint(key="c", effect="NoSchedule"),
    )
    left = untolerated(taints, (Toleration(key="c", operator="Exists"),), ("NoSchedule", "NoExecute"))
    assert [taint.key for taint in left] == ["b"]
