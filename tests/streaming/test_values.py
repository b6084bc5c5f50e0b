"""Every native function over values at the ends of their types, against Spark: each group is a case of its own.

A case is what a key gets in three micro-batches of one task each: one row, equal rows, nulls alone before or behind
values.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pyslash.spark.session import changed
from tests.support.nightly import some_at_night
from tests.support.stream import Stream, run, seconds

NAN, INF = math.nan, math.inf
TINY, SMALLEST, GREATEST = 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308
ENDS = [NAN, INF, -INF, 0.0, -0.0, TINY, -TINY, SMALLEST, 1e-170, 1e-155, -1e-155, 1e-81]
LARGE = [1e77, 1e103, 1e154, 1e155, 1e200, 1e308, GREATEST]


def decimals(precision: int, scale: int) -> list[object]:
    """At the limits of the type."""
    greatest = 10**precision - 1
    some = (0, 1, -1, 5, 10 ** (precision - 1), greatest, -greatest, greatest // 3)
    return [Decimal(f"{value}E-{scale}") for value in some]


POOLS: dict[str, tuple[pa.DataType, list[object]]] = {
    "x": (pa.float64(), [*ENDS, 0.1, 1.0, 3.0, *(sign * size for sign in (1, -1) for size in LARGE)]),
    "f": (
        pa.float32(),
        [NAN, INF, -INF, -0.0, 0.0, 1e-45, 1.1754943508222875e-38, 0.1, 16777217.0, 3.4028234663852886e38],
    ),
    "t": (pa.int8(), [0, 1, -1, 127, -128]),
    "h": (pa.int16(), [0, 1, -1, 2**15 - 1, -(2**15)]),
    "i": (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31)]),
    "l": (pa.int64(), [0, 1, -1, 3, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)]),
    "m": (pa.decimal128(9, 2), decimals(9, 2)),
    "n": (pa.decimal128(18, 4), decimals(18, 4)),
    "w": (pa.decimal128(28, 0), decimals(28, 0)),
    "v": (pa.decimal128(38, 6), decimals(38, 6)),
    "u": (pa.decimal128(38, 38), decimals(38, 38)),
    "b": (pa.bool_(), [True, False]),
    "s": (pa.string(), ["", "\0", "a", "\uffff", "😀", "z" * 40]),
    "z": (pa.binary(), [b"", b"\0", b"\xff" * 9, b"\x7f"]),
    "d": (pa.date32(), [-719162, 2932896, 0, -1, -141428]),
    "at": (pa.timestamp("us", "UTC"), [-62100000000000000, 253402300799999999, 0, -1]),
}
POOLS["y"] = POOLS["x"]
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), *((name, kind) for name, (kind, _) in POOLS.items())]
)
INTEGERS, DECIMALS = ("t", "h", "i", "l"), ("m", "n", "w", "v", "u")
PAIRS = (("x", "y"), ("y", "x"), ("f", "x"))
MOMENTS = [
    *(
        f"{function}({name})"
        for function in ("var_pop", "var_samp", "stddev_pop", "stddev_samp", "skewness", "kurtosis")
        for name in ("x", "f")
    ),
    *(f"{function}({a}, {b})" for function in ("covar_pop", "covar_samp", "corr") for a, b in PAIRS),
    *(f"regr_{name}({a}, {b})" for name in ("sxx", "syy", "sxy", "slope", "intercept", "r2") for a, b in PAIRS),
    *(f"regr_{name}(x, y)" for name in ("count", "avgx", "avgy")),
]
# An average of integers beyond 2^53 is exact here, and Spark's follows the order of rows (docs/design/003).
SUMS = [
    f"{function}({name})"
    for function in ("sum", "avg", "try_sum", "try_avg")
    for name in ("x", "f", *INTEGERS, *DECIMALS)
    if (function[-3:], name) != ("avg", "l")
]
# Sums that may overflow on their way and fit in the end, which Spark has as null for some orders of rows (003, too).
OVERFLOWING = {"l": Decimal(2**63), "v": Decimal("1E32"), "u": Decimal(1)}
EXTREMES = [
    *(f"{function}({name})" for function in ("min", "max") for name in POOLS),
    *(f"{function}({name})" for function in ("bit_and", "bit_or", "bit_xor") for name in INTEGERS),
    *("bool_and(b)", "bool_or(b)", "count_if(b)", "count(v)", "stddev_samp(l)", "kurtosis(v)"),
]
CHOSEN = [
    *(
        f"{function}({name}{rest})"
        for function in ("first", "last")
        for rest in ("", ", true")
        for name in ("x", "u", "s")
    ),
    *(f"{function}(k + i, {name})" for function in ("max_by", "min_by") for name in POOLS),
    *(f"approx_count_distinct({name})" for name in POOLS),
]
FAMILIES = {"moments": MOMENTS, "sums": SUMS, "extremes": EXTREMES, "chosen": CHOSEN}
Case = tuple[list[dict[str, object]], ...]
"""Rows of three micro-batches."""
NULLS: dict[str, object] = {}


def cases(rng: random.Random) -> Iterator[Case]:
    """Of each value: alone, alone between nulls, and several times; then others at random."""

    def row(rank: int) -> dict[str, object]:
        return {name: pool[rank % len(pool)] for name, (_, pool) in POOLS.items()} | {
            "y": POOLS["y"][1][(rank * 5 + 3) % 29]
        }

    def some(share: float, ranks: Sequence[int]) -> dict[str, object]:
        return {
            name: None if rng.random() < share else pool[rng.choice(ranks) % len(pool)]
            for name, (_, pool) in POOLS.items()
        }

    yield [NULLS], [], [NULLS]
    for rank in range(29):
        one = row(rank)
        yield [one], [], []
        yield [NULLS], [one], [NULLS]
        yield [one, one, one], [], [one, one]
        yield [], [one | {"x": 3.0}, one], [one | {"y": 0.1}]
    for _ in range(60):
        ranks = [rng.randrange(300) for _ in range(rng.choice([1, 2, 3, 29]))]
        share = rng.choice([0, 0, 0.3])
        yield tuple([some(share, ranks) for _ in range(rng.choice([0, 1, 1, 2, 3]))] for _ in range(3))


def stream_of(spark: SparkSession, folder: Path, made: Sequence[Case]) -> Stream:
    """The cases, by their number, and a micro-batch that closes their window."""
    stream = Stream(spark, folder, SCHEMA, delay_seconds=0)
    for batch in range(3):
        rows = [{"ts": seconds(1000), "k": k, **row} for k, case in enumerate(made) for row in case[batch]]
        columns = [
            pa.array([row.get(name) for row in rows], kind)
            for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)
        ]
        stream.add(pa.Table.from_arrays(columns, schema=SCHEMA))
    stream.add(pa.Table.from_pylist([{"ts": seconds(5000), "k": 0}], SCHEMA))
    return stream


def overflows_on_its_way(call: str, case: Case) -> bool:
    name = call.partition("(")[2].rstrip(")")
    if call not in SUMS or name not in OVERFLOWING:
        return False
    with localcontext() as context:
        context.prec = 60
        sums = [[*accumulate(Decimal(row[name]) for row in batch if row.get(name) is not None)] for batch in case]  # type: ignore[arg-type]
        ways = [*sums, [*accumulate(way[-1] for way in sums if way)]]
        return any(abs(value) >= OVERFLOWING[name] for way in ways for value in way)


def same(found: Any, expected: Any) -> bool:
    """The same bits. Before 4.3, floats may differ by 1e-9, relative, as long as they are finite and not zero.

    Earlier releases round a mean anew whenever they merge it with an empty state, three times a micro-batch.
    """
    if not (isinstance(found, float) and isinstance(expected, float)):
        return type(found) is type(expected) and bool(found == expected)
    if found.hex() == expected.hex():
        return True
    is_rounded = pyspark.__version__ < "4.3" and found != 0 and expected != 0
    return is_rounded and math.isclose(found, expected, rel_tol=1e-9)


RUNS = {f"{family}-{ingest}": (family, ingest) for family in FAMILIES for ingest in ("rows", "files")}


@pytest.mark.parametrize("name", some_at_night(RUNS, {*RUNS} - {"moments-rows"}))
def test_as_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    family, ingest = RUNS[name]
    calls, made = FAMILIES[family], list(cases(random.Random(name)))
    window = F.window("ts", "10 seconds")
    aggregates = [F.expr(call).alias(f"a{place}") for place, call in enumerate(calls)]
    with changed(spark, {"spark.sql.ansi.enabled": "false"}):
        stream = stream_of(spark, tmp_path, made)
        expected = {row["k"]: row[2:] for row in stream.expected(window, [F.col("k")], aggregates)}
        rows = run(stream.read().groupBy(window, "k").agg(*aggregates), tmp_path, ingest=ingest).rows
    found = {row["k"]: row[2:] for row in rows}
    assert found.keys() == expected.keys()
    assert len(found) > len(made) * 0.9
    wrong = [
        f"{call}: found {ours!r}, expected {theirs!r}, of {made[k]}"
        for k in expected
        for call, ours, theirs in zip(calls, found[k], expected[k], strict=True)
        if not same(ours, theirs) and not overflows_on_its_way(call, made[k])
    ]
    assert wrong == []


UNDERFLOWS = {"skewness(x)": 1e-110, "kurtosis(x)": 1e-90, "corr(x, y)": 1e-100, "regr_r2(x, y)": 1e-100}


@pytest.mark.parametrize("call", some_at_night(UNDERFLOWS, {*UNDERFLOWS} - {"regr_r2(x, y)"}))
def test_a_divisor_that_underflows_is_an_error_with_ansi(spark: SparkSession, tmp_path: Path, call: str) -> None:
    size = UNDERFLOWS[call]
    some: list[dict[str, object]] = [{"x": size, "y": size}, {"x": 2 * size, "y": 3 * size}]
    aggregate = F.expr(call)
    with changed(spark, {"spark.sql.ansi.enabled": "true"}):
        stream = stream_of(spark, tmp_path, [(some, [], [])])
        window = F.window("ts", "10 seconds")
        with pytest.raises(StreamingQueryException, match="DIVIDE_BY_ZERO"):
            stream.expected(window, [F.col("k")], [aggregate])
        with pytest.raises(StreamingQueryException, match="DIVIDE_BY_ZERO"):
            run(stream.read().groupBy(window, "k").agg(aggregate), tmp_path)
