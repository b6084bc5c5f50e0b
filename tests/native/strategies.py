"""Random queries and rows for the property tests."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.native.model import BITS, Query, Row

# Floats that add up exactly in any order, and the special ones.
_EXACT = st.integers(-(2**20), 2**20).map(lambda n: n / 4)
_FLOATS = st.one_of(_EXACT, st.sampled_from([0.0, -0.0, float("nan"), float("inf"), 1e300, -5e-324]))
_FLOATS32 = st.one_of(_EXACT.map(lambda x: x / 16), st.sampled_from([0.0, -0.0, float("nan"), float("-inf")]))


def _integers(bits: int) -> st.SearchStrategy[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.one_of(st.integers(-3, 3), st.integers(low, high), st.sampled_from([low, high]))


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    bound = 10**precision - 1
    unscaled = st.one_of(st.integers(-3, 3), st.integers(-bound, bound))
    return unscaled.map(lambda n: Decimal(f"{n}e-{scale}"))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int8": _integers(8),
    "int16": _integers(16),
    "int32": _integers(32),
    "int64": _integers(64),
    "float32": _FLOATS32,
    "float64": _FLOATS,
    "date": _integers(32),
    "timestamp": st.integers(-(2**40), 2**40),
    "timestamp_ntz": st.integers(-(2**40), 2**40),
    "decimal(7,2)": _decimals(7, 2),
    "decimal(18,0)": _decimals(18, 0),
    "decimal(22,5)": _decimals(22, 5),
    "decimal(38,10)": _decimals(38, 10),
    "string": st.text("aé\U0001f600\0", max_size=5) | st.text(max_size=30),
    "binary": st.binary(max_size=20),
}
_SUMMABLE = ("int", "float", "decimal")
_FLOATING = ("float32", "float64")

_WINDOWS = [(10, 10), (10, 5), (12, 8), (10, 1), (7, 3), (60, 20), (100, 99)]


@dataclass(frozen=True)
class Case:
    """Rows of several blocks, and how to merge them."""

    query: Query
    blocks: list[list[Row]]
    watermark: int
    cuts: list[int]  # hash prefixes at which the merge is cut, ascending, with both ends
    max_rows: int
    large: bool

    @property
    def rows(self) -> list[Row]:
        """All of them."""
        return [row for block in self.blocks for row in block]

    @property
    def windows(self) -> list[int]:
        """All windows of any row, and one of none."""
        starts = {start for row in self.rows if row[0] is not None for start in self.query.windows_of(row[0])}
        return [*starts, self.query.offset + 1000 * self.query.slide]


def _aggregates(column: int, name: str) -> list[tuple[str, int | None]]:
    functions = ["count", "min", "max"]
    if name.startswith(_SUMMABLE):
        functions += ["sum", "avg"]
    if name.startswith("int"):
        functions += BITS
    return [(function, column) for function in functions]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to three keys and two values of any types, in up to four blocks."""
    size, slide = draw(st.sampled_from(_WINDOWS))
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=5))
    columns = tuple((name, draw(st.booleans())) for name in names)
    n_keys = draw(st.integers(0, min(3, len(columns))))
    possible: list[tuple[str, int | None]] = [("count", None)]
    for i, (name, _) in enumerate(columns, 1):
        possible += _aggregates(i, name)
    aggregates = draw(st.lists(st.sampled_from(possible), min_size=1, max_size=6))
    query = Query(size, slide, draw(st.integers(0, slide - 1)), columns, tuple(range(1, n_keys + 1)), tuple(aggregates))
    # Few distinct values a column, or hardly any two rows would share a group.
    domains = [draw(st.lists(VALUES[name], min_size=1, max_size=4)) for name in names]
    row = st.tuples(
        st.none() | st.integers(-50, 150),
        *(
            st.sampled_from(domain) | st.none() if nullable else st.sampled_from(domain)
            for domain, (_, nullable) in zip(domains, columns, strict=True)
        ),
    )
    blocks = draw(st.lists(st.lists(row, max_size=40), min_size=1, max_size=4))
    cuts = sorted({0, 1 << 32, *draw(st.lists(st.integers(1, (1 << 32) - 1), max_size=3))})
    watermark = draw(st.sampled_from([-(1 << 60), 0, 40]))
    return Case(query, blocks, watermark, cuts, draw(st.sampled_from([1, 7, 65536])), draw(st.booleans()))
