"""Measured values as exact numbers that are cheap to compare: billionths, an int wherever that is exact.

`bayplan.quantity.parse_quantity` is what a quantity means; the shapes that sources write thousands of (`95500m`, `42`,
`0.25`) are read here without making a Fraction of each, with the same result. int and Fraction compare exactly.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from bayplan.errors import InputError
from bayplan.quantity import LARGEST, parse_quantity

Nano = int | Fraction
"""Billionths of the unit; a Fraction only for what a billionth is too coarse for."""
ONE = 10**9
_MILLI = 10**6
_MOST_DIGITS = 18
_PLACES = 9
_TENS: tuple[int, ...] = tuple(10**power for power in range(_PLACES + 1))


def parse_nano(value: object) -> Nano:
    """The number that a quantity (text, int or float) stands for. Raises `InputError`."""
    if isinstance(value, str) and len(value) <= _MOST_DIGITS and value.isascii():
        if value.isdigit():
            return int(value) * ONE
        if value.endswith("m") and value[:-1].isdigit():
            return int(value[:-1]) * _MILLI
        whole, _, part = value.partition(".")
        if whole.isdigit() and part.isdigit() and len(part) <= _PLACES:
            return int(whole + part) * _TENS[_PLACES - len(part)]
    return to_nano(parse_quantity(value))


def to_nano(number: Fraction | Decimal | int) -> Nano:
    """An exact number in billionths. Raises `InputError` for what no quantity can be: not finite, beyond 63 bits."""
    if isinstance(number, Decimal):
        if not number.is_finite():
            raise InputError("not a value", value=str(number), expected="a finite number")
        if number.adjusted() > _MOST_DIGITS or number.adjusted() < -400:
            number = Fraction(0) if number == 0 else _refused(number)
        number = Fraction(number)
    if not -LARGEST <= number <= LARGEST:
        raise InputError("value too large", value=str(number)[:80], expected=f"at most {LARGEST}")
    whole, rest = divmod(number.numerator * ONE, number.denominator)
    return Fraction(number.numerator * ONE, number.denominator) if rest else whole


def exact(nano: Nano) -> Fraction:
    """The number itself."""
    return Fraction(nano) / ONE


def format_nano(nano: Nano) -> str:
    """The number for people: `95.5`, `-3`, `0.000000001`; finer than a billionth, six digits of it."""
    if isinstance(nano, Fraction):
        return f"{float(nano) / ONE:.6g}"
    whole, part = divmod(abs(nano), ONE)
    digits = f"{part:09d}".rstrip("0")
    return f"{'-' if nano < 0 else ''}{whole}{'.' if digits else ''}{digits}"


def _refused(number: Decimal) -> Fraction:
    raise InputError("value out of range", value=str(number)[:80], expected=f"at most {LARGEST} in size")
