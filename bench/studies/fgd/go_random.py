"""Go's math/rand: the published runs are reproduced with the random numbers that they used.

The generator is an additive lagged Fibonacci generator, y(n) = y(n − 607) + y(n − 273) modulo 2^64. Go seeds it with a
linear congruential generator, combined with a table: the state after 7.8·10^12 steps from seed 1. The table is computed
here instead of listed: y is linear, so a step of any width is a power of x modulo x^607 − x^334 − 1.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Words = NDArray[np.uint64]

LENGTH, TAP = 607, 273
START = LENGTH - TAP  # the entry before which the first number is written; numbers are written downwards
SEED_MODULUS = (1 << 31) - 1
TABLE_STEPS = 7_800_000_000_000
WORD = (1 << 64) - 1


class GoRandom:
    """A source of random numbers with Go's functions."""

    def __init__(self, seed: int) -> None:
        self._state = [word ^ mixed for word, mixed in zip(_seeded(seed, 40, 20), _table(), strict=True)]
        self._tap, self._feed = 0, START

    def int63(self) -> int:
        self._tap = (self._tap - 1) % LENGTH
        self._feed = (self._feed - 1) % LENGTH
        word = (self._state[self._feed] + self._state[self._tap]) & WORD
        self._state[self._feed] = word
        return word & (WORD >> 1)

    def below(self, bound: int) -> int:
        """Intn: a number from 0 to bound − 1."""
        if not bound & (bound - 1):
            return (self.int63() >> 32) & (bound - 1)
        largest = (1 << 31) - 1 - (1 << 31) % bound
        while (number := self.int63() >> 32) > largest:
            pass
        return number % bound

    def permutation(self, size: int) -> list[int]:
        """Perm."""
        found = [0] * size
        for i in range(size):
            j = self.below(i + 1)
            found[i] = found[j]
            found[j] = i
        return found

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Shuffle: it draws by multiplication instead of division."""
        for i in range(len(items) - 1, 0, -1):
            j = self._scaled(i + 1)
            items[i], items[j] = items[j], items[i]

    def _scaled(self, bound: int) -> int:
        product = (self.int63() >> 31) * bound
        if product & 0xFFFFFFFF < bound:
            while product & 0xFFFFFFFF < ((1 << 32) - bound) % bound:
                product = (self.int63() >> 31) * bound
        return product >> 32


def _seeded(seed: int, high: int, middle: int) -> list[int]:
    """Returns the words that the linear congruential generator gives; three numbers make one word."""
    x = seed % SEED_MODULUS or 89482311
    numbers: list[int] = []
    for _ in range(20 + 3 * LENGTH):
        x = x * 48271 % SEED_MODULUS
        numbers.append(x)
    drawn = numbers[20:]
    return [(a << high ^ b << middle ^ c) & WORD for a, b, c in zip(drawn[::3], drawn[1::3], drawn[2::3], strict=True)]


@cache
@np.errstate(over="ignore")
def _table() -> list[int]:
    """Returns the state after `TABLE_STEPS` numbers from seed 1."""
    first = _seeded(1, 20, 10)
    words = np.zeros(2 * LENGTH, np.uint64)  # in the order in which they were written
    words[:LENGTH] = [first[(START - 1 - i) % LENGTH] for i in range(LENGTH)]
    for i in range(LENGTH, 2 * LENGTH):
        words[i] = words[i - LENGTH] + words[i - TAP]
    jump = _power_of_x(TABLE_STEPS)
    table = [0] * LENGTH
    for i in range(LENGTH):
        table[(START - 1 - TABLE_STEPS - i) % LENGTH] = int((jump * words[i : i + LENGTH]).sum(dtype=np.uint64))
    return table


def _power_of_x(exponent: int) -> Words:
    """Returns x^exponent modulo x^607 − x^334 − 1, with coefficients modulo 2^64."""
    power = np.zeros(LENGTH, np.uint64)
    power[0] = 1
    for bit in f"{exponent:b}":
        square = np.zeros(2 * LENGTH, np.uint64)
        for i in np.flatnonzero(power):
            square[i : i + LENGTH] += power[i] * power
        power = _reduced(square)
        if bit == "1":
            power = _reduced(np.concatenate([np.zeros(1, np.uint64), power]))
    return power


def _reduced(polynomial: Words) -> Words:
    for i in range(len(polynomial) - 1, LENGTH - 1, -1):
        polynomial[i - LENGTH] += polynomial[i]
        polynomial[i - TAP] += polynomial[i]
    return polynomial[:LENGTH].copy()
