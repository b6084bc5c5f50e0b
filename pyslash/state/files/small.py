"""Which of many are folded into one, so that each byte is rewritten a logarithmic number of times."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

_DOMINANCE = 2

T = TypeVar("T")


def not_dwarfing(those: Iterable[T], size: Callable[[T], int]) -> list[T]:
    """Those without the large ones: to rewrite one that is twice as large as all smaller ones costs more than it folds.

    >>> not_dwarfing([100, 3, 40, 2, 1, 4], lambda size: size)
    [4, 3, 2, 1]
    """
    by_size = sorted(those, key=lambda one: -size(one))
    rest = sum(map(size, by_size))
    while by_size and size(by_size[0]) > _DOMINANCE * (rest - size(by_size[0])):
        rest -= size(by_size.pop(0))
    return by_size
