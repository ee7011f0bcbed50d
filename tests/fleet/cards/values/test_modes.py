"""What can be named after `values:`."""

from __future__ import annotations

from itertools import permutations

import pytest

from bayplan.errors import InputError
from bayplan.fleet.cards.values.modes import Modes, modes


def test_nothing_named_is_nothing_on() -> None:
    assert modes("") == Modes(power=False, learning=False, admission=False)


@pytest.mark.parametrize("name", ["power", "learning", "admission"])
def test_a_mode_that_is_named_is_on_and_no_other(name: str) -> None:
    assert modes(name) == Modes(**{name: True})


def test_modes_may_be_named_in_any_order() -> None:
    for names in permutations(("power", "learning", "admission")):
        assert modes(",".join(names)) == Modes(power=True, learning=True, admission=True)


@pytest.mark.parametrize("option", ["Power", " power", "power, learning", ",power", "power,,learning", "power,power"])
def test_anything_else_is_refused_and_told(option: str) -> None:
    with pytest.raises(InputError) as caught:
        modes(option)
    assert caught.value.place == "values"
    assert caught.value.value == option
    assert "admission, learning, power" in str(caught.value)
