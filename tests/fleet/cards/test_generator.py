"""The generator of random numbers: published words of SplitMix64, and what is promised of the draws made from them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.fleet.cards.generator import WORD, Generator


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (
            1234567,
            [
                6457827717110365317,
                3203168211198807973,
                9817491932198370423,
                4593380528125082431,
                16408922859458223821,
            ],
        ),
        (
            0,
            [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B],
        ),
    ],
)
def test_words_are_those_that_are_published_for_the_seed(seed: int, words: list[int]) -> None:
    generator = Generator(seed)
    assert [generator.word() for _ in words] == words


@given(st.integers(), st.integers(1, WORD))
def test_draws_lie_below_the_bound_and_follow_from_the_seed(seed: int, bound: int) -> None:
    generator, again = Generator(seed), Generator(seed % WORD)
    draws = [generator.below(bound) for _ in range(5)]
    assert draws == [again.below(bound) for _ in range(5)]
    assert all(0 <= draw < bound for draw in draws)


def test_every_number_below_a_bound_is_as_likely() -> None:
    generator = Generator(7)
    counts = Counter(generator.below(6) for _ in range(60_000))
    assert sorted(counts) == list(range(6))
    # Six standard deviations of a binomial with 60,000 draws of one sixth.
    assert all(abs(count - 10_000) < 6 * 92 for count in counts.values())


def test_words_that_would_make_small_numbers_likelier_are_drawn_again() -> None:
    bound = WORD // 2 + 1  # nearly half of all words have to be drawn again
    generator, words = Generator(3), Generator(3)
    drawn = [generator.below(bound) for _ in range(200)]
    products = (words.word() * bound for _ in iter(int, 1))
    kept = (product // WORD for product in products if product % WORD >= WORD % bound)
    assert drawn == [next(kept) for _ in drawn]
    assert generator.word() == words.word()


@pytest.mark.parametrize("bound", [0, -1, WORD + 1])
def test_there_is_nothing_to_draw_below_such_a_bound(bound: int) -> None:
    with pytest.raises(ValueError, match="no number to draw"):
        Generator(1).below(bound)


def test_units_are_the_upper_bits_of_words() -> None:
    generator, words = Generator(11), Generator(11)
    units = [generator.unit() for _ in range(1000)]
    assert units == [(words.word() // 2**11) / 2**53 for _ in units]
    assert all(0 <= unit < 1 for unit in units)


@given(st.integers(), st.integers(0, 60))
def test_a_shuffle_holds_every_position_once(seed: int, count: int) -> None:
    order = Generator(seed).shuffled(count)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(count))


def test_a_shuffle_is_the_one_of_fisher_and_yates() -> None:
    generator = Generator(42)
    expected = list(range(8))
    for last in range(7, 0, -1):
        other = generator.below(last + 1)
        expected[last], expected[other] = expected[other], expected[last]
    assert Generator(42).shuffled(8).tolist() == expected


def test_every_order_is_as_likely() -> None:
    generator = Generator(5)
    counts = Counter(tuple(generator.shuffled(4).tolist()) for _ in range(24_000))
    assert len(counts) == 24
    # Six standard deviations of a binomial with 24,000 draws of one in 24.
    assert all(abs(count - 1000) < 6 * 31 for count in counts.values())
