"""Functions whose results depend on the order of rows, or on their rounding: Spark's where one task reads in order."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.nightly import some_at_night
from tests.support.stream import Stream, differences, run, seconds

POOLS: dict[str, tuple[pa.DataType, list[object]]] = {
    "flag": (pa.bool_(), [True, False]),
    "small": (pa.int8(), [-128, 0, 127]),
    "i": (pa.int32(), [-7, 0, 5, 2**31 - 1]),
    "d": (pa.float64(), [-0.0, 0.0, 1.5, float("nan"), float("inf"), -1e100]),
    "f": (pa.float32(), [-0.0, 0.25, float("nan")]),
    "day": (pa.date32(), [date(1969, 12, 31), date(2026, 1, 1)]),
    "at": (pa.timestamp("us", "UTC"), [seconds(-1), seconds(10**9)]),
    "m": (pa.decimal128(10, 2), [Decimal("-1.25"), Decimal("99999999.99")]),
    "w": (pa.decimal128(30, 5), [Decimal("-123456789012345678901.12345"), Decimal("0.00001")]),
    "s": (pa.string(), ["", "a", "é", "z" * 40]),
    "x": (pa.binary(), [b"", b"\0", b"\xff" * 20]),
}
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), *((name, kind) for name, (kind, _) in POOLS.items())]
)
CHOSEN = [
    *(f"{function}({name})" for function in ("first", "last") for name in ("d", "m", "s")),
    *(f"{function}({name}, true)" for function in ("first", "last", "any_value") for name in ("d", "w", "flag")),
    *(f"max_by({name}, i)" for name in POOLS),
    *(f"min_by(s, {name})" for name in POOLS),
    "max_by(x, d) FILTER (WHERE flag)",
    "first(s) FILTER (WHERE flag)",
    "last(i, true) FILTER (WHERE small > 0)",
]
NUMBERS = [
    *(f"{function}({name})" for function in ("stddev", "var_pop", "kurtosis") for name in ("i", "m", "d")),
    "round(skewness(i) + 0.00012345, 6)",  # of evenly spread values it is next to zero
    *(f"{function}(i, small)" for function in ("covar_pop", "covar_samp", "corr", "regr_count", "regr_avgy")),
    *(f"regr_{function}(i, small)" for function in ("sxx", "syy", "sxy", "slope", "intercept", "r2")),
    *(f"{function}({name})" for function in ("bit_and", "bit_or", "bit_xor") for name in ("small", "i")),
    *("bool_and(flag)", "bool_or(flag)", "count_if(flag)", "try_sum(if(i > 0, 4611686018427387904, 0))", "try_avg(w)"),
    "stddev_samp(i) FILTER (WHERE flag)",
    "corr(i, small) FILTER (WHERE flag)",
    *(f"approx_count_distinct({name})" for name in ("d", "s")),
    "approx_count_distinct(m, 0.2) FILTER (WHERE flag)",
]
TUMBLING, SLIDING = ("10 seconds",), ("10 seconds", "4 seconds")
PATHS = [{"ingest": "rows"}, {"ingest": "files", "merge.driverBytes": "0"}]


def stream_of(spark: SparkSession, folder: Path, seed: int) -> Stream:
    """Five micro-batches of one task each, and one that closes all windows."""
    rng = random.Random(seed)
    made = Stream(spark, folder, SCHEMA, delay_seconds=5)
    for batch in range(5):
        rows = []
        for _ in range(60):
            values = {name: None if rng.random() < 0.3 else rng.choice(pool) for name, (_, pool) in POOLS.items()}
            rows.append({"ts": seconds(1000 + 4 * batch + rng.uniform(0, 8)), "k": rng.choice((1, 2, None)), **values})
        made.add(pa.Table.from_pylist(rows, SCHEMA))
    made.add(pa.Table.from_pylist([{"ts": seconds(5000), "k": 0}], SCHEMA))
    return made


CASES = {
    f"{name}-{conf['ingest']}": (calls, window, conf)
    for name, calls in (("chosen", CHOSEN), ("numbers", NUMBERS))
    for window, conf in zip((TUMBLING, SLIDING), PATHS, strict=True)
}
LONG = {*CASES} - {"chosen-rows", "numbers-files"}


@pytest.mark.parametrize("name", some_at_night(CASES, LONG))
def test_as_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    calls, window, conf = CASES[name]
    stream = stream_of(spark, tmp_path, seed=len(window))
    aggregates = [F.expr(call).alias(f"a{place}") for place, call in enumerate(calls)]
    expected = stream.expected(F.window("ts", *window), [F.col("k")], aggregates)
    found = run(stream.read().groupBy(F.window("ts", *window), "k").agg(*aggregates), tmp_path, **conf).rows
    assert len(expected) > 6
    assert list(differences(found, expected, 1)) == []
