"""What a struck query has emitted against what Spark's batch query gives: rows lost, duplicated and wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Row = tuple[Any, ...]


def plain(row: Any) -> Row:
    """A result row as JSON can hold it: a window by its start, times in seconds, bytes in hex."""
    return tuple(map(_plain, row))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "start"):
        value = value.start
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return value.timestamp() if isinstance(value, datetime) else value


@dataclass(frozen=True)
class Tally:
    """Counters of one query. `rows_in` are input rows; the others but `struck` are groups of its result."""

    name: str
    rows_in: int
    emitted: int
    lost: int
    duplicated: int
    wrong: int
    struck: int = 0  # faults that have struck

    @property
    def exact(self) -> bool:
        """Whether every group was emitted once, with the values that it must have."""
        return self.lost == self.duplicated == self.wrong == 0


def tally(
    name: str, rows_in: int, found: Iterable[Row], expected: Iterable[Row], keys: int = 2, struck: int = 0
) -> Tally:
    """Compare two results whose rows begin with `keys` columns that name the group.

    >>> tally("", 9, [(1, "a", 5), (1, "a", 5), (2, "a", 0), (4, "a", 1)], [(1, "a", 5), (2, "a", 3), (3, "a", 1)])
    Tally(name='', rows_in=9, emitted=4, lost=1, duplicated=1, wrong=2, struck=0)
    """
    groups: dict[Row, list[Row]] = defaultdict(list)
    emitted = 0
    for row in found:
        groups[row[:keys]].append(row[keys:])
        emitted += 1
    wanted = {row[:keys]: row[keys:] for row in expected}
    return Tally(
        name,
        rows_in,
        emitted,
        lost=len(wanted.keys() - groups.keys()),
        duplicated=sum(len(values) - 1 for values in groups.values()),
        wrong=sum(values[0] != wanted.get(group) for group, values in groups.items()),
        struck=struck,
    )


def table(tallies: Iterable[Tally]) -> str:
    """Lines of text, one a name, below a heading and above the sums."""
    columns = ("struck", "rows_in", "emitted", "lost", "duplicated", "wrong")
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * len(columns))
    for one in tallies:
        for i, column in enumerate(columns):
            sums[one.name][i] += getattr(one, column)
    rows = [(name, *values) for name, values in sums.items()]
    total = ("in all", *(sum(row[i + 1] for row in rows) for i in range(len(columns))))
    width = max(len(row[0]) for row in [*rows, total])
    lines = [f"{'':{width}}" + "".join(f"{column.replace('_', ' '):>12}" for column in columns)]
    lines += [f"{row[0]:{width}}" + "".join(f"{value:12}" for value in row[1:]) for row in [*rows, total]]
    return "\n".join(lines)
