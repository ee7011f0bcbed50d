"""Share patterns: the best one at given prices, against all there are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.fleet.cards.bound.patterns import best_patterns, filled, first_patterns
from bayplan.fleet.cards.model import WHOLE


def maximal(sizes: list[int], left: int = WHOLE) -> Iterator[tuple[int, ...]]:
    """All ways to cut a card, in parts of these sizes (ascending), with no room for one more."""
    if not sizes:
        yield ()
        return
    *smaller, largest = sizes
    for count in range(left // largest + 1):
        for begun in maximal(smaller, left - count * largest):
            rest = left - count * largest - sum(c * s for c, s in zip(begun, smaller, strict=True))
            if rest < sizes[0] and rest < largest:
                yield (*begun, count)


def test_the_pattern_that_earns_most_is_found() -> None:
    sizes = np.array([190, 400, 810])
    earned, patterns = best_patterns(sizes, np.array([[1.0, 3.0, 5.0], [0.0, 0.0, 0.0], [5.0, 0.0, 1.0]]))
    assert earned.tolist() == [7.0, 0.0, 25.0]
    assert patterns[0] == (1, 2, 0)
    assert patterns[2] == (5, 0, 0)


@given(
    st.sets(st.integers(min_value=60, max_value=999), min_size=1, max_size=4),
    st.lists(st.integers(min_value=0, max_value=50), min_size=4, max_size=4),
)
def test_no_pattern_earns_more_than_the_best(sizes: set[int], values: list[int]) -> None:
    ascending = sorted(sizes)
    price = np.array([values[: len(ascending)]], np.float64)
    earned, (pattern,) = best_patterns(np.array(ascending), price)
    most = max(float(np.dot(cut, price[0])) for cut in maximal(ascending))
    assert earned[0] == pytest.approx(most)
    assert float(np.dot(pattern, price[0])) == pytest.approx(most)
    assert sum(count * size for count, size in zip(pattern, ascending, strict=True)) <= WHOLE


def test_a_pattern_is_filled_with_what_still_fits() -> None:
    sizes = np.array([50, 190, 400])
    assert filled(sizes, [1, 4]) == (1, 5, 0)
    assert filled(sizes, []) == (0, 1, 2)
    assert first_patterns(sizes) == [(0, 1, 2), (1, 5, 0), (20, 0, 0)]
