"""Drawing with given shares."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np


@cache
def zipf(ranks: int, exponent: float) -> np.ndarray:
    """Cumulative probabilities of the ranks 1..ranks, falling by their power of `exponent`; 0: all alike."""
    return cumulative(np.arange(1, ranks + 1, dtype=np.float64) ** -exponent)


def cumulative(shares: Sequence[float] | np.ndarray) -> np.ndarray:
    """Cumulative probabilities of shares of any sum."""
    sums = np.cumsum(np.asarray(shares, dtype=np.float64))
    return sums / sums[-1]


def draw(generator: np.random.Generator, probabilities: np.ndarray, size: int) -> np.ndarray:
    """`size` indices (int64) by cumulative probabilities."""
    return np.searchsorted(probabilities, generator.random(size)).astype(np.int64)
