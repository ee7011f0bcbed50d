"""exp and log over arrays that give the same bits on every machine.

numpy's own differ in the last bit between processors (it has variants for AVX-512 and others), which could tip a
choice between two nodes. Here only addition, multiplication, division and scaling by powers of two are used, which
IEEE 754 rounds the same everywhere; within 2 units in the last place of the true value.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayplan.fleet.cards.state import Floats

Powers = NDArray[np.int32]
"""Exponents of two."""
_LN2_HIGH = 6.93147180369123816490e-01
"""The first 32 bits of ln 2, so that a small multiple of it is exact; Cody and Waite's reduction."""
_LN2_LOW = 1.90821492927058770002e-10
_INVERSE_LN2 = 1.44269504088896338700e00
_SQRT_HALF = 0.70710678118654752440
_EXP_TERMS = tuple(1.0 / d for d in (6227020800, 479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2))
"""1/13! to 1/2!: what is left out is below 2**-57 for arguments up to ln(2) / 2."""
_LOG_TERMS = tuple(1.0 / d for d in range(21, 2, -2))


def exp(x: Floats) -> Floats:
    """e to the power of each, for values between -700 and 700."""
    return np.ldexp(*exp_parts(x))


def exp_parts(x: Floats) -> tuple[Floats, Powers]:
    """The same as two factors, the second one as a power of two, for values between -1e6 and 1e6."""
    powers = np.rint(x * _INVERSE_LN2)
    rest = (x - powers * _LN2_HIGH) - powers * _LN2_LOW
    total = np.full_like(rest, _EXP_TERMS[0])
    for term in _EXP_TERMS[1:]:
        total *= rest
        total += term
    total = 1.0 + (rest + rest * rest * total)
    return total, powers.astype(np.int32)


def log(x: Floats) -> Floats:
    """The natural logarithm of each, for positive finite values."""
    return log_of_parts(*np.frexp(x))


def log_of_parts(mantissa: Floats, powers: Powers) -> Floats:
    """That of mantissa x 2**power, for mantissas of at least 0.5 and below 1."""
    small = mantissa < _SQRT_HALF
    mantissa = np.where(small, 2.0 * mantissa, mantissa)
    exponent = powers - small.astype(np.float64)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    total = np.full_like(square, _LOG_TERMS[0])
    for term in _LOG_TERMS[1:]:
        total *= square
        total += term
    total = 2.0 * (ratio + ratio * (square * total))
    return exponent * _LN2_HIGH + (exponent * _LN2_LOW + total)
