"""Functions over structs, arrays, maps and intervals, which native code keeps and orders by bytes, beside Spark's."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.driver.start import hook
from tests.support.ran import Query, ran
from tests.support.stream import in_order, seconds

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("k", pa.int32()),
        ("n", pa.int64()),  # no two rows have the same
        ("i", pa.int32()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("m", pa.decimal128(38, 3)),
        ("s", pa.string()),
        ("x", pa.binary()),
        ("b", pa.bool_()),
        ("a", pa.list_(pa.string())),
    ]
)
NAN, INF = float("nan"), float("inf")
# No two rows have the same order, so that the result does not depend on which of them comes first.
EXTREMES = [
    "max(struct(i, n))",
    "min(struct(s, n)) FILTER (WHERE i > 0)",
    "max(struct(d, n)).n",
    "min(struct(f, n)).n",
    "max(struct(m, n))",
    "min(struct(x, b, n))",
    "max(struct(struct(a, b), n))",
    "min(array(array(i), array(cast(n AS int))))",
    "max(a)",
    "min(a)",
    "max(make_dt_interval(0, 0, i, n))",
    "cast(min(make_ym_interval(i, i)) AS string)",
    "max_by(struct(n, a, s), n)",
    "min_by(map('n', n, 'i', i), struct(s, n))",
    "max_by(i, struct(ts, n)) FILTER (WHERE b)",
    "cast(max_by(parse_json(concat('[', n, ']')), n) AS string)",
]
# All rows of a group have the same value.
ANY = [
    "first(struct(k, 'x'))",
    "last(array(k), true)",
    "any_value(map('k', k))",
    "first(make_dt_interval(k)) FILTER (WHERE b)",
]
# These are Spark's where one task reads the rows of a micro-batch, and Spark does not sort them.
IN_ORDER = [
    "first(struct(i, s))",
    "last(a, true)",
    "any_value(map(n, s))",
    "first(make_dt_interval(i)) FILTER (WHERE b)",
]
NATIVE = ["count(*)", "sum(i)", "max(s)", "count(struct(i)) FILTER (WHERE b)"]


def rows_of(generator: random.Random, batch: int, rows: int = 40) -> pa.Table:
    """Rows of a micro-batch, with values where orders have their edges."""

    def text() -> str | None:
        return generator.choice((None, "", "a", "a\0", "a\0b", "ab", "é", "\uffff", "\U0001f600"))

    def row() -> dict[str, Any]:
        number = generator.choice((None, *range(-3, 4)))
        return {
            "ts": seconds(1000 + 5 * batch + generator.uniform(-4, 8)),
            "k": generator.choice((None, 1, 2, 3)),
            "n": generator.getrandbits(30) - (1 << 29),
            "i": number,
            "d": generator.choice((None, 0.0, -0.0, 1.5, -1.5, -1e300, NAN, INF, -INF)),
            "f": generator.choice((None, 0.0, -0.0, 3.5, -3.5, NAN)),
            "m": generator.choice((None, Decimal("-9.999"), Decimal("0.000"), Decimal(10) ** 34, -(Decimal(10) ** 34))),
            "s": text(),
            "x": generator.choice((None, b"", b"\x00", b"\x00\xff", b"\x7f", b"\x80")),
            "b": generator.choice((None, True, False)),
            "a": generator.choice((None, [], [None], [text()], [text(), text()])),
        }

    return pa.Table.from_pylist([row() for _ in range(rows)], SCHEMA)


def add(folder: Path, batches: range, files: int) -> None:
    """A micro-batch is as many files."""
    generator = random.Random(batches.start)
    (folder / "in").mkdir(exist_ok=True)
    for batch in batches:
        for number in range(files):
            path = folder / "in" / f"{batch}-{number}.parquet"
            pq.write_table(rows_of(generator, batch), path)
            in_order(path, batch)


def stream(spark: SparkSession, folder: Path, files: int) -> DataFrame:
    source = spark.readStream.schema(spark.read.parquet(str(folder / "in")).schema)
    return source.option("maxFilesPerTrigger", files).parquet(str(folder / "in")).withWatermark("ts", "5 seconds")


def query_of(calls: list[str], *keys: str) -> Query:
    def query(rows: DataFrame) -> DataFrame:
        return rows.groupBy(*map(F.expr, keys)).agg(
            *(F.expr(call).alias(f"a{place}") for place, call in enumerate(calls))
        )

    return query


SHAPES: dict[str, tuple[list[str], str, int, list[str]]] = {
    "by keys, update": (["k"], "update", 2, [*EXTREMES, *ANY, *NATIVE]),
    "all rows, complete": ([], "complete", 2, [*EXTREMES, *NATIVE]),
    "sliding windows, append": (["window(ts, '10 seconds', '4 seconds')", "k"], "append", 2, [*EXTREMES, *NATIVE]),
    "beside buffers of Spark": (
        ["window(ts, '10 seconds')", "k"],
        "update",
        1,
        [*EXTREMES[:3], *IN_ORDER, *NATIVE, "collect_list(n)"],
    ),
    "sessions, append": (["session_window(ts, '1 second')", "k"], "append", 2, [*EXTREMES, *NATIVE]),
}


IN_DRIVER, IN_TASKS = {"ingest": "auto"}, {"ingest": "rows", "merge.driverBytes": "0"}


@pytest.mark.parametrize(
    ("shape", "conf"),
    [*((shape, IN_DRIVER) for shape in SHAPES), ("by keys, update", IN_TASKS), ("sessions, append", IN_TASKS)],
)
def test_micro_batches_are_sparks(spark: SparkSession, tmp_path: Path, shape: str, conf: dict[str, str]) -> None:
    """In two starts of the query, the second from the checkpoint alone."""
    keys, output, files, calls = SHAPES[shape]
    query = query_of(calls, *keys)
    results: dict[str, list[Any]] = {"off": [], "require": []}
    for batches in (range(2), range(2, 3)):
        add(tmp_path, batches, files)
        for mode, found in results.items():
            ran(stream(spark, tmp_path, files), tmp_path, query, output, mode, found, **conf)
        hook._sweep()
    assert sum(map(len, results["off"])) > 2
    # Two NaNs are not equal, and their texts are.
    assert list(map(repr, results["require"])) == list(map(repr, results["off"]))
