"""What a plan computes, in plain Python: the oracle of the native core's tests."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import reduce
from operator import and_, or_, xor
from typing import Any

Row = tuple[Any, ...]
BITS = {"bit_and": and_, "bit_or": or_, "bit_xor": xor}
_WIDE = Context(prec=100, rounding=ROUND_HALF_UP)


@dataclass(frozen=True)
class Query:
    """A plan. `columns` are (type name, nullable) of columns 1..n; aggregates are (function, column or None)."""

    size: int
    slide: int
    offset: int = 0
    columns: tuple[tuple[str, bool], ...] = ()
    keys: tuple[int, ...] = ()
    aggregates: tuple[tuple[str, int | None], ...] = (("count", None),)
    ansi: bool = False

    @property
    def text(self) -> str:
        """As the driver would send it."""
        lines = ["pyslash-plan 1", f"window {self.size} {self.slide} {self.offset}"]
        lines += [f"column {name} {int(nullable)}" for name, nullable in self.columns]
        lines += [f"key {column}" for column in self.keys]
        lines += [
            f"aggregate {function} {'-' if column is None else column} {int(self.ansi)}"
            for function, column in self.aggregates
        ]
        return "".join(line + "\n" for line in lines)

    @property
    def pane(self) -> int:
        """Width of a pane."""
        return math.gcd(self.size, self.slide)

    def windows_of(self, time: int) -> list[int]:
        """Starts of the windows that contain a time."""
        last = (time - self.offset) // self.slide * self.slide + self.offset
        return [start for start in range(last, last - self.size, -self.slide) if start + self.size > time]

    def is_late(self, time: int, watermark: int) -> bool:
        """Whether all windows of a time ended at or before the watermark."""
        return max(self.windows_of(time)) + self.size <= watermark


@dataclass(frozen=True)
class Functions(Query):
    """A query whose aggregates are given as they stand in the plan."""

    lines: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        head = [line for line in super().text.splitlines() if not line.startswith("aggregate")]
        return "".join(f"{line}\n" for line in [*head, *(f"aggregate {line}" for line in self.lines)])


def key_of(value: Any) -> Any:
    """A key as Spark groups it: one NaN, one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def evaluate(query: Query, rows: Iterable[Row], watermark: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """{(window start, window end, keys ...): aggregates} over rows of (event time, column 1, ...)."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row[0] is None or query.is_late(row[0], watermark):
            continue
        keys = tuple(key_of(row[column]) for column in query.keys)
        for start in query.windows_of(row[0]):
            groups.setdefault((start, start + query.size, *keys), []).append(row)
    return {
        group: tuple(_aggregate(query, function, column, members) for function, column in query.aggregates)
        for group, members in groups.items()
    }


def _aggregate(query: Query, function: str, column: int | None, rows: list[Row]) -> Any:
    if column is None:
        return len(rows)
    values = [row[column] for row in rows if row[column] is not None]
    if function == "count":
        return len(values)
    if not values:
        return None
    type_name = query.columns[column - 1][0]
    if function in ("min", "max"):
        return key_of((min if function == "min" else max)(values, key=_order))
    if function in BITS:
        return reduce(BITS[function], values)
    if type_name.startswith("decimal"):
        return _decimal(function, type_name, values)
    total = sum(values)
    if function == "avg":
        return key_of(float(total) / len(values))  # Spark divides doubles: a sum beyond 2^53 is rounded before
    return key_of(total) if isinstance(total, float) else (total + 2**63) % 2**64 - 2**63


def _decimal(function: str, type_name: str, values: list[Decimal]) -> Decimal | None:
    precision, scale = map(int, type_name[len("decimal(") : -1].split(","))
    total = Decimal(0)
    for value in values:
        total = _WIDE.add(total, value)
    if function == "avg":
        precision, scale = min(38, precision + 4), min(38, scale + 4)
        total = _WIDE.divide(total, Decimal(len(values)))
    else:
        precision = min(38, precision + 10)
    result = total.quantize(Decimal(1).scaleb(-scale, _WIDE), context=_WIDE)
    return result if _WIDE.abs(result.scaleb(scale, _WIDE)) < 10**precision else None


def _order(value: Any) -> Any:
    """Spark's order: NaN is the greatest, strings by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value
