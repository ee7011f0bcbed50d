"""A small generator of random numbers, the same on every machine and in every version of Python and numpy.

SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014): the state grows by a
fixed odd number, and a mix of it is the next word. Numbers below a bound by multiplying and rejecting (Lemire: "Fast
random integer generation in an interval", 2019), shuffles by Fisher and Yates, from the last place to the first. Each
is written out in the methods, so that anyone can have the same numbers from the same seed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WORD = 1 << 64
STEP = 0x9E3779B97F4A7C15
FIRST_FACTOR = 0xBF58476D1CE4E5B9
SECOND_FACTOR = 0x94D049BB133111EB
UNIT_BITS = 53


class Generator:
    """Draws that follow from `seed` (any integer; equal modulo 2**64 means equal draws) and from nothing else."""

    def __init__(self, seed: int) -> None:
        self._state = seed % WORD

    def word(self) -> int:
        """The next 64 bits."""
        self._state = state = (self._state + STEP) % WORD
        state = (state ^ (state >> 30)) * FIRST_FACTOR % WORD
        state = (state ^ (state >> 27)) * SECOND_FACTOR % WORD
        return state ^ (state >> 31)

    def below(self, bound: int) -> int:
        """One of 0 to `bound` - 1, each as likely as the others. A bound not in 1 to 2**64 raises `ValueError`.

        The upper half of word times bound; words whose lower half lies below 2**64 modulo `bound` are drawn again.
        """
        if not 1 <= bound <= WORD:
            raise ValueError(f"no number to draw below {bound}")
        product = self.word() * bound
        if product % WORD < bound:
            uneven = WORD % bound
            while product % WORD < uneven:
                product = self.word() * bound
        return product // WORD

    def unit(self) -> float:
        """A number from 0 up to, not including, 1: the upper 53 bits of the next word."""
        return (self.word() >> (64 - UNIT_BITS)) / (1 << UNIT_BITS)

    def shuffled(self, count: int) -> NDArray[np.int64]:
        """0 to `count` - 1, every order as likely: for i from the last down to 1, i and below(i + 1) change places."""
        order = list(range(count))
        for i in range(count - 1, 0, -1):
            j = self.below(i + 1)
            order[i], order[j] = order[j], order[i]
        return np.array(order, np.int64)
