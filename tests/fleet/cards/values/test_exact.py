"""exp and log that have the same bits everywhere."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bayplan.fleet.cards.values.exact import exp, log


@given(st.floats(-699, 699))
def test_exp_is_within_two_units_in_the_last_place(x: float) -> None:
    found = float(exp(np.array([x]))[0])
    assert abs(found - math.exp(x)) <= 2 * math.ulp(math.exp(x))


@given(st.floats(1e-300, 1e300))
def test_log_is_within_two_units_in_the_last_place(x: float) -> None:
    found = float(log(np.array([x]))[0])
    assert abs(found - math.log(x)) <= 2 * max(math.ulp(math.log(x)), 2.0**-60)


def test_the_bits_are_pinned() -> None:
    x = np.array([-321.5, -1.0, 1e-9, 0.1, 1.0, 99.87])
    assert [v.hex() for v in exp(x).tolist()] == EXP
    assert [v.hex() for v in log(np.array([1e-9, 0.1, 0.7072, 3.0, 1e43])).tolist()] == LOG


EXP = [
    "0x1.20b93267e8023p-464",
    "0x1.78b56362cef38p-2",
    "0x1.000000044b830p+0",
    "0x1.1aec7b35a00d4p+0",
    "0x1.5bf0a8b14576ap+1",
    "0x1.0ef69bd4fd37fp+144",
]
LOG = [
    "-0x1.4b927f32bffb8p+4",
    "-0x1.26bb1bbb55515p+1",
    "-0x1.62c1a17840100p-2",
    "0x1.193ea7aad030bp+0",
    "0x1.8c0b6d43baa55p+6",
]
