"""Functions that are more than a sum or an extreme: of rows in any blocks, merged in any order, compacted or not."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from functools import reduce
from operator import and_, or_, xor
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyslash import _native
from pyslash.errors import ArithmeticOverflowError, InvalidInputError, InvalidPlanError
from tests.native.arrow import to_batch, to_values
from tests.native.blocks import LONG_AGO, QUERY, merged, new_arena, sealed_rows
from tests.native.model import Functions, Row, key_of
from tests.native.strategies import VALUES

Block = tuple[int, int, list[Row]]
"""Epoch, partition, rows in their order."""

NULL = None
PAIR = (("int64", False), ("float64", True), ("float64", True))
_MOMENTS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp", "skewness", "kurtosis")
_COMOMENTS = ("covar_pop", "covar_samp", "corr", "regr_sxy", "regr_slope", "regr_intercept", "regr_r2")


def query(columns: tuple[tuple[str, bool], ...], *lines: str) -> Functions:
    """Over windows of two panes, keyed by the first column."""
    return Functions(10, 5, 0, columns, (1,), lines=lines)


def evaluate(asked: Functions, blocks: list[Block], order: list[int]) -> list[dict[tuple[Any, ...], tuple[Any, ...]]]:
    """Groups' results: of all blocks, added in this order; of the first of them compacted and the others; of one."""
    plan = _native.Plan(asked.text)
    windows = sorted({start for _, _, rows in blocks for row in rows for start in asked.windows_of(row[0])})
    results = []
    with new_arena(8 << 20) as arena:
        sealed = []
        for epoch, partition, rows in blocks:
            accumulator = _native.Accumulator(plan, LONG_AGO, epoch, partition)
            for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
                accumulator.add(to_batch(asked, half))
            sealed.append(accumulator.seal(arena, QUERY, epoch, partition))
        sealed = [sealed[place] for place in order if _native.Head(sealed[place]).length]

        def compacted(raws: list[bytes]) -> bytes:
            offsets = [_native.Head(raw).arena_offset for raw in raws]
            return _native.compact(plan, arena, offsets, LONG_AGO, QUERY, 2**63 - 1)

        half = len(sealed) // 2
        forms = [sealed, [compacted(sealed[half:]), *sealed[:half]], [compacted(sealed)]] if sealed else []
        for raws in forms:
            rows = to_values(merged(asked, arena, raws, windows))
            results.append({row[:3]: row[3:] for row in rows})
            assert len(results[-1]) == len(rows)
    return results


def groups(asked: Functions, blocks: list[Block]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each group, in the order of their positions."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for _, _, rows in sorted(blocks, key=lambda block: block[:2]):
        for row in rows:
            for start in asked.windows_of(row[0]):
                found.setdefault((start, start + asked.size, row[1]), []).append(row)
    return found


@st.composite
def blocks_of(draw: st.DrawFn, *kinds: str) -> tuple[list[Block], list[int]]:
    """Blocks of rows of a time, a key, and nullable values of these types; and an order of the blocks."""
    domains = [draw(st.lists(VALUES[kind], min_size=1, max_size=4)) for kind in kinds]
    values = [st.none() | st.sampled_from(domain) for domain in domains]
    rows = st.lists(st.tuples(st.integers(0, 24), st.integers(0, 2), *values), max_size=12)
    places = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=5, unique=True))
    return [(*place, draw(rows)) for place in places], draw(st.permutations(range(len(places))))


def rank(value: Any) -> Any:
    """Spark's order: NaN is the greatest, strings by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def chosen(line: str, rows: list[Row]) -> Any:
    """The oracle of first, last, max_by and min_by."""
    if line.startswith("first"):
        return next((row[2] for row in rows if row[2] is not None or "ignore" not in line), NULL)
    if line.startswith("last"):
        return chosen(line.replace("last", "first"), rows[::-1])
    ordered = [row for row in rows if row[3] is not None]
    if not ordered:
        return NULL
    best = (max if line.startswith("max") else min)(rank(row[3]) for row in ordered)
    return [row[2] for row in ordered if rank(row[3]) == best][-1]


CHOSEN = ("first 2 0", "first 2 0 ignore_nulls", "last 2 0", "last 2 0 ignore_nulls", "max_by 2,3 0", "min_by 2,3 0")


@pytest.mark.parametrize("kind", sorted(VALUES))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_which_row_is_chosen_follows_from_positions_alone(kind: str, data: st.DataObject) -> None:
    other = data.draw(st.sampled_from(sorted(VALUES)))
    kinds = data.draw(st.permutations([kind, other]))
    blocks, order = data.draw(blocks_of(*kinds))
    asked = query((("int64", False), *((name, True) for name in kinds)), *CHOSEN)
    expected = {
        group: tuple(key_of(chosen(line, rows)) for line in CHOSEN) for group, rows in groups(asked, blocks).items()
    }
    for found in evaluate(asked, blocks, order):
        assert found == expected


def test_a_value_keeps_its_bits() -> None:
    asked = query(PAIR, "first 2 0", "max_by 2,3 0")
    rows = [(1, 1, -0.0, math.nan), (2, 1, 5.0, math.inf)]
    with new_arena(8 << 20) as arena:
        block = sealed_rows(asked, arena, rows)
        results = merged(asked, arena, [block], [0]).select(["agg0", "agg1"]).to_pylist()
    assert [math.copysign(1, value) for value in results[0].values()] == [-1, -1]


def test_the_second_column_of_first_leaves_rows_out() -> None:
    asked = query((("int64", False), ("string", True), ("int32", True)), "first 2,3 0", "last 2,3 0")
    rows = [(1, 1, "a", None), (1, 1, None, 1), (1, 1, "b", 1), (1, 1, None, None), (1, 2, "c", None)]
    for found in evaluate(asked, [(0, 0, rows)], [0]):
        assert found[0, 10, 1] == (None, "b")
        assert found[0, 10, 2] == (None, None)


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_bits(kind: str, data: st.DataObject) -> None:
    blocks, order = data.draw(blocks_of(kind))
    asked = query((("int64", False), (kind, True)), "bit_and 2 0", "bit_or 2 0", "bit_xor 2 0")
    expected = {}
    for group, rows in groups(asked, blocks).items():
        values = [row[2] for row in rows if row[2] is not None]
        expected[group] = tuple(reduce(operation, values) if values else None for operation in (and_, or_, xor))
    for found in evaluate(asked, blocks, order):
        assert found == expected


def power(values: list[Fraction], order: int) -> Fraction:
    mean = sum(values, Fraction()) / len(values)
    return sum(((value - mean) ** order for value in values), Fraction())


def moment(function: str, values: list[Fraction]) -> float | None:
    """Out of exact sums."""
    n = len(values)
    if not n:
        return NULL
    if function in ("skewness", "kurtosis"):
        second = power(values, 2)
        if not second:
            return NULL
        if function == "kurtosis":
            return float(n * power(values, 4) / second**2) - 3
        return math.sqrt(n) * float(power(values, 3)) / math.sqrt(second**3)
    divisor = n - function.endswith("samp")
    if not divisor:
        return NULL
    variance = float(power(values, 2) / divisor)
    return math.sqrt(variance) if function.startswith("stddev") else variance


def comoment(function: str, pairs: list[tuple[Fraction, Fraction]]) -> float | None:
    n = len(pairs)
    if not n or (n == 1 and function in ("covar_samp", "corr")):
        return NULL
    xs, ys = ([pair[side] for pair in pairs] for side in (0, 1))
    x_mean, y_mean = sum(xs, Fraction()) / n, sum(ys, Fraction()) / n
    products = sum(((x - x_mean) * (y - y_mean) for x, y in pairs), Fraction())
    x_squares, y_squares = power(xs, 2), power(ys, 2)
    if function == "corr":
        return float(products) / math.sqrt(x_squares * y_squares) if x_squares * y_squares else NULL
    if function == "regr_sxy":
        return float(products)
    if function.startswith("regr"):
        if not y_squares:
            return NULL
        slope = products / y_squares
        if function == "regr_r2":
            return float(products**2 / (x_squares * y_squares)) if x_squares else 1.0
        return float(slope if function == "regr_slope" else x_mean - slope * y_mean)
    return float(products / (n - function.endswith("samp")))


def close(found: float | str | None, expected: float | None, scale: float) -> bool:
    if found is None or expected is None:
        return found is expected
    if isinstance(found, str) or math.isnan(expected):
        return found == "NaN" and math.isnan(expected)
    return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9 * scale)


_NUMBERS = st.sampled_from([Fraction(n, 4) for n in (-7, -1, 0, 2, 5, 4000)])
_PAIRS = st.lists(
    st.tuples(st.integers(0, 24), st.integers(0, 2), st.none() | _NUMBERS, st.none() | _NUMBERS), max_size=30
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_PAIRS, min_size=1, max_size=4))
@example([[(1, 1, Fraction(1, 4), Fraction(2))] * 3, [(1, 1, Fraction(1, 4), Fraction(2))] * 7])
def test_moments_are_those_of_exact_sums(parts: list[list[Row]]) -> None:
    asked = query(
        PAIR, *(f"{function} 2 0" for function in _MOMENTS), *(f"{function} 2,3 0" for function in _COMOMENTS)
    )
    floats = [
        (0, i, [(*row[:2], *(v if v is None else float(v) for v in row[2:])) for row in rows])
        for i, rows in enumerate(parts)
    ]
    exact = groups(asked, [(0, i, rows) for i, rows in enumerate(parts)])
    for found in evaluate(asked, floats, list(range(len(parts)))):
        assert found.keys() == exact.keys()
        for group, rows in exact.items():
            values = [row[2] for row in rows if row[2] is not None]
            pairs = [(row[2], row[3]) for row in rows if row[2] is not None and row[3] is not None]
            expected = [moment(function, values) for function in _MOMENTS]
            expected += [comoment(function, pairs) for function in _COMOMENTS]
            scales = [1e6, 1e6, 1e3, 1e3, 10, 100, 1e6, 1e6, 1, 1e6, 1e4, 1e4, 1]
            for value, wanted, scale in zip(found[group], expected, scales, strict=True):
                assert close(value, wanted, scale), (group, found[group], expected)


@pytest.mark.parametrize(("value", "found"), [(math.inf, "NaN"), (math.nan, "NaN"), (1e200, math.inf)])
def test_what_has_no_finite_square_has_no_finite_moments(value: float, found: float | str) -> None:
    asked = query(PAIR, *(f"{function} 2 0" for function in _MOMENTS[:4]))
    rows = [(1, 1, value, None), (1, 1, 1.0, None)]
    for answer in evaluate(asked, [(0, 0, rows)], [0]):
        assert answer[0, 10, 1] == (found,) * 4


def test_a_part_without_rows_takes_nothing_from_a_mean_unless_the_release_of_spark_squares_it() -> None:
    functions = ["var_pop 2 0", "stddev_samp 2 0", "regr_sxx 2 0", *(f"{name} 2,3 0" for name in _COMOMENTS[:4])]
    nothing, value = [(1, 1, None, None)], [(1, 1, 1e155, 3e155)] * 2
    blocks = [(0, 0, nothing), (0, 1, value), (1, 0, nothing), (2, 0, value)]
    for found in evaluate(query(PAIR, *functions), blocks, [0, 1, 2, 3]):
        assert found[0, 10, 1] == (0.0, 0.0, 0.0, 0.0, 0.0, None, 0.0)
    for word in ("unguarded", "nan,unguarded"):
        for found in evaluate(query(PAIR, *(f"{line} {word}" for line in functions)), blocks, [0, 1, 2, 3]):
            assert found[0, 10, 1] == ("NaN",) * 7
    near_and_far = [(0, 0, [(1, 1, 3.0, 3.0)]), (1, 0, value[:1])]
    for found in evaluate(query(PAIR, "var_pop 2 0 unguarded", "covar_pop 2,3 0 unguarded"), near_and_far, [0, 1]):
        assert found[0, 10, 1] == ("NaN", "NaN")


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("skewness 2 0", [(1e-110, None), (3e-110, None)]),
        ("kurtosis 2 0", [(1e-90, None), (3e-90, None)]),
        ("corr 2,3 0", [(1e-100, 1e-100), (2e-100, 3e-100)]),
        ("regr_r2 2,3 0", [(1e-100, 1e-100), (2e-100, 3e-100)]),
    ],
)
def test_a_divisor_that_underflows_is_null_or_an_error_with_ansi(line: str, values: list[tuple[float, float]]) -> None:
    rows = [(1, 1, *pair) for pair in values]
    for suffix in ("", " nan"):
        for found in evaluate(query(PAIR, line + suffix), [(0, 0, rows)], [0]):
            assert found[0, 10, 1] == (None,)
    with pytest.raises(ArithmeticOverflowError, match=r"^\[DIVIDE_BY_ZERO\] " + line.split()[0]):
        evaluate(query(PAIR, line.replace(" 0", " 1")), [(0, 0, rows)], [0])


def test_one_value_has_no_sample() -> None:
    lines = [f"{function} 2 0{flag}" for flag in ("", " nan") for function in ("var_samp", "var_pop", "skewness")]
    asked = query(PAIR, *lines, "corr 2,3 0", "corr 2,3 0 nan", "covar_samp 2,3 0 nan")
    rows = [(1, 1, 2.5, 1.0), (1, 2, None, None)]
    for found in evaluate(asked, [(0, 0, rows)], [0]):
        assert found[0, 10, 1] == (None, 0.0, None, "NaN", 0.0, "NaN", None, "NaN", "NaN")
        assert found[0, 10, 2] == (None,) * len(asked.lines)


def collected(value: bytes) -> list[tuple[int, bytes]]:
    """Epochs and values of a list, as `collect` gives it."""
    found, at = [], 0
    while at < len(value):
        epoch, length = struct.unpack_from("<qq", value, at)
        found.append((epoch, value[at + 16 : at + 16 + length]))
        assert not any(value[at + 16 + length : at + 16 + -(-length // 8) * 8])
        at += 16 + -(-length // 8) * 8
    return found


@settings(max_examples=60, deadline=None)
@given(blocks_of("binary"))
def test_collected_values_are_in_the_order_of_their_positions(drawn: tuple[list[Block], list[int]]) -> None:
    blocks, order = drawn
    asked = query((("int64", False), ("binary", True)), "collect 2 0", "count 2 0")
    expected: dict[tuple[Any, ...], list[tuple[int, bytes]]] = {}
    for epoch, partition, rows in sorted(blocks, key=lambda block: block[:2]):
        for group, values in groups(asked, [(epoch, partition, rows)]).items():
            found = expected.setdefault(group, [])
            found += [(epoch, row[2]) for row in values if row[2] is not None]
    for result in evaluate(asked, blocks, order):
        assert {group: collected(value) for group, (value, _) in result.items()} == expected
        assert {group: count for group, (_, count) in result.items()} == {g: len(v) for g, v in expected.items()}


FOLDED = st.integers(-1, 4).flatmap(
    # Those that stand for all up to an epoch are the same wherever they come from.
    lambda epoch: (st.binary(max_size=9) if epoch < 0 else st.just(b"to %d" % epoch)).map(
        lambda value: struct.pack("<q", epoch) + value
    )
)


@settings(max_examples=60, deadline=None)
@given(blocks_of("binary"), st.data())
def test_a_value_that_folds_stands_for_all_up_to_its_epoch(
    drawn: tuple[list[Block], list[int]], data: st.DataObject
) -> None:
    blocks, order = drawn
    blocks = [
        (epoch, partition, [(time, key, None if value is None else data.draw(FOLDED)) for time, key, value in rows])
        for epoch, partition, rows in blocks
    ]
    asked = Functions(10, 10, 0, (("int64", False), ("binary", True)), (1,), lines=("collect 2 0 folds",))
    expected: dict[tuple[Any, ...], list[tuple[int, bytes]]] = {}
    for group in groups(asked, blocks):
        deltas, wholes = [], {}
        for epoch, partition, rows in sorted(blocks, key=lambda block: block[:2]):
            for row in groups(asked, [(epoch, partition, rows)]).get(group, []):
                (until,) = struct.unpack_from("<q", row[2]) if row[2] is not None else (None,)
                if until == -1:
                    deltas.append((epoch, row[2][8:]))
                elif until is not None:
                    wholes[until] = row[2][8:]
        last = max(wholes, default=-1)
        expected[group] = [*([(last, wholes[last])] if wholes else []), *(one for one in deltas if one[0] > last)]
    for result in evaluate(asked, blocks, order):
        assert {group: collected(value) for group, (value,) in result.items()} == expected


def test_a_value_that_folds_has_a_head() -> None:
    asked = query((("int64", False), ("binary", True)), "collect 2 0 folds")
    with pytest.raises(InvalidInputError, match="has no epoch"):
        evaluate(asked, [(0, 0, [(1, 1, b"short")])], [0])


def registers(hashes: list[int], bits: int) -> bytes:
    """The words of HyperLogLog++'s registers, by its definition."""
    least: dict[int, int] = {}
    for value in hashes:
        text = format(value % 2**64, "064b")
        rest = text[bits:] + "1"
        least[int(text[:bits], 2)] = max(least.get(int(text[:bits], 2), 0), rest.index("1") + 1)
    words = [0] * (2**bits // 10 + 1)
    for register, value in least.items():
        words[register // 10] |= value << register % 10 * 6
    return struct.pack(f"<{len(words)}Q", *words)


@pytest.mark.parametrize("bits", [4, 9, 14])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_registers_hold_the_longest_runs_of_zeros(bits: int, data: st.DataObject) -> None:
    few = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2 ** (66 - bits)) | st.sampled_from([0, -1, 1, -(2**63)])
    row = st.tuples(st.integers(0, 24), st.integers(0, 2), st.none() | few)
    parts = data.draw(st.lists(st.lists(row, max_size=12), min_size=1, max_size=3))
    blocks = [(0, place, rows) for place, rows in enumerate(parts)]
    asked = query((("int64", False), ("int64", True)), f"approx_count_distinct 2 0 {bits}")
    expected = {
        group: (registers([row[2] for row in rows if row[2] is not None], bits),)
        for group, rows in groups(asked, blocks).items()
    }
    for found in evaluate(asked, blocks, list(range(len(parts)))):
        assert found == expected


def test_try_sum_is_null_where_it_overflows() -> None:
    asked = query((("int64", False), ("int64", False)), "sum 2 0 try", "sum 2 0")
    rows = [(1, 1, 2**62), (1, 1, 2**62), (1, 2, 5), (1, 3, 2**62), (1, 3, 2**62), (1, 3, -1)]
    for found in evaluate(asked, [(0, 0, rows)], [0]):
        assert found[0, 10, 1] == (None, -(2**63))
        assert found[0, 10, 2] == (5, 5)
        assert found[0, 10, 3] == (2**63 - 1, 2**63 - 1)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("median 1 0", "no aggregate 'median'"),
        ("max_by 1 0", "max_by takes 2 columns, not 1"),
        ("sum 1,2 0", "sum takes 1 columns, not 2"),
        ("first - 0", "first takes 1 to 2 columns, not 0"),
        ("first 1 0 try", "first has no parameter 'try'"),
        ("var_pop 2 0 nan,squares", "var_pop has no parameter 'squares'"),
        ("first 1 0 ignore_nulls 3", "6 words"),
        ("max_by 1, 0", "'' is no number"),
        ("max_by 1,9 0", "no column 9"),
        ("var_pop 1 0", "no var_pop over int64"),
        ("bit_or 2 0", "no bit_or over float64"),
        ("collect 1 0", "no collect over int64"),
        ("approx_count_distinct 2 0 9", "no approx_count_distinct over float64"),
        ("approx_count_distinct 1 0 3", "4 to 18 bits"),
        ("approx_count_distinct 1 0 9x", "4 to 18 bits"),
        ("approx_count_distinct 1 0", "4 to 18 bits"),
    ],
)
def test_plans_that_are_refused(line: str, told: str) -> None:
    with pytest.raises(InvalidPlanError, match=told):
        _native.Plan(query(PAIR, line).text)
