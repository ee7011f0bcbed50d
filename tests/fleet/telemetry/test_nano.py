"""Numbers of billionths are the numbers that quantities stand for."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.fleet.telemetry.nano import exact, format_nano, parse_nano, to_nano
from bayplan.quantity import LARGEST, parse_quantity

QUANTITIES = st.from_regex(
    r"\A[+-]?([0-9]{1,22}(\.[0-9]{0,14})?|\.[0-9]{1,12})(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|[eE][+-]?[0-9]{1,2})?\Z"
)


@given(QUANTITIES | st.text(alphabet="0123456789.-+mkKiEe²１ \n", max_size=20) | st.text(max_size=8))
@example("95500m")
@example("9m")
@example("m")
@example("1.")
@example(".5")
@example("0.123456789")
@example("0.1234567891")
@example("999999999999999999")
@example("９９")
def test_reads_exactly_what_the_parser_of_quantities_reads(text: str) -> None:
    try:
        wanted = parse_quantity(text)
    except InputError:
        with pytest.raises(InputError):
            parse_nano(text)
        return
    found = parse_nano(text)
    assert exact(found) == wanted
    assert isinstance(found, int) == (wanted * 10**9).denominator.__eq__(1)


@given(st.integers(-LARGEST, LARGEST) | st.floats(-1e15, 1e15, allow_nan=False))
def test_reads_numbers_as_yaml_gives_them(number: float) -> None:
    assert exact(parse_nano(number)) == parse_quantity(number)


@given(st.fractions(-LARGEST, LARGEST) | st.decimals(-LARGEST, LARGEST, allow_nan=False, allow_infinity=False))
def test_exact_numbers_stay_exact(number: Fraction | Decimal) -> None:
    assert exact(to_nano(number)) == Fraction(number)


@pytest.mark.parametrize(
    "number", [Decimal("NaN"), Decimal("Infinity"), Decimal("1e400000"), Decimal("1e-400000"), 2**63, Fraction(10**30)]
)
def test_what_no_quantity_can_be_is_refused(number: Decimal | int | Fraction) -> None:
    with pytest.raises(InputError):
        to_nano(number)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("95500m", "95.5"), ("0", "0"), ("-1500m", "-1.5"), ("1n", "0.000000001"), ("2Ki", "2048"), ("1e-12", "1e-12")],
)
def test_numbers_are_shown_plainly(text: str, shown: str) -> None:
    assert format_nano(parse_nano(text)) == shown
