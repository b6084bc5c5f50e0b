"""Functions that Spark's own code computes, in buffers that pyslash keeps, against plain Spark's micro-batches."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.driver.start import hook
from tests.support.ran import Query, ran
from tests.support.stream import Stream, in_order, seconds

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("k", pa.float64()),
        ("i", pa.int32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("day", pa.date32()),
        ("a", pa.list_(pa.int32())),
    ]
)
# Whatever rows are merged first, the result is the same. Over windows that overlap, panes have their buffers.
ANYHOW = [
    "percentile(i, 0.25)",
    "percentile(i, array(0.1, 0.5), 2) FILTER (WHERE d > 0)",
    "median(d)",
    "array_sort(collect_set(s))",
    "array_sort(collect_set(i) FILTER (WHERE i > 0))",
    "approx_count_distinct(i)",
    "approx_count_distinct(d, 0.2)",
    "approx_count_distinct(s) FILTER (WHERE i > 0)",
    "approx_count_distinct(a)",
    "approx_count_distinct(day) + count(*)",
    "bitmap_count(bitmap_construct_agg(bitmap_bit_position(abs(i))))",
    "count(*)",
    "count(s)",
    "sum(i)",
    "max(k)",  # a key, too
    "first(i)",
    "last(s, true)",
    "max_by(s, i)",
]
# These are Spark's where one task reads the rows of a micro-batch.
IN_ORDER = [
    "collect_list(i)",
    "collect_list(s) FILTER (WHERE i > 0)",
    "collect_list(struct(ts, s, a))",
    "collect_list(i + (SELECT max(id) FROM range(3))) FILTER (WHERE i > (SELECT min(id) FROM range(3)))",
    "listagg(s, ',')",
    "listagg(s, ',') WITHIN GROUP (ORDER BY s DESC)",
    "first(a)",
    "last(struct(i, s), true)",
    "max(struct(i, s))",
    "max_by(a, i)",
    "mode(s, true)",
    "approx_percentile(i, 0.5, 100)",
    "histogram_numeric(d, 3)",
    "hll_sketch_estimate(hll_sketch_agg(i))",
    "avg(make_dt_interval(0, 0, i % 10))",
]
Window = tuple[str, ...]
TUMBLING, SLIDING = ("10 seconds", "10 seconds", "3 seconds"), ("10 seconds", "4 seconds")
SEPARATE = ("10 seconds", "4 seconds", "1 second")  # windows that overlap, each with buffers of its own
PATHS = {
    "driver": {"ingest": "rows"},
    "tasks": {"ingest": "rows", "merge.driverBytes": "0"},
    "tcp": {"ingest": "rows", "transport": "tcp", "merge.driverBytes": "0"},
    "repartition": {"ingest": "rows", "strategy": "repartition"},
}


def rows_of(generator: random.Random, batch: int, rows: int = 50) -> pa.Table:
    """Rows of a micro-batch; some are late, some have no time."""

    def row() -> tuple[Any, ...]:
        late = generator.random() < 0.1
        time = 1000 + 4 * batch + (generator.uniform(-30, -5) if late else generator.uniform(0, 8))
        value = generator.choice((None, *range(-20, 60)))
        return (
            None if generator.random() < 0.05 else seconds(time),
            generator.choice((None, 0.0, -0.0, 2.0)),
            value,
            None if value is None else value * 0.37,
            generator.choice((None, "", "a", "é", "z" * 40)),
            generator.choice((None, date(1969, 12, 31), date(2026, 1, 1))),
            generator.choice((None, [], [1, None], [generator.randrange(3)])),
        )

    table = [dict(zip(SCHEMA.names, row(), strict=True)) for _ in range(rows)]
    return pa.Table.from_pylist(table, SCHEMA)


def made(spark: SparkSession, folder: Path, batches: int = 4) -> Stream:
    stream = Stream(spark, folder, SCHEMA, delay_seconds=5)
    generator = random.Random(3)
    for batch in range(batches):
        stream.add(rows_of(generator, batch))
    return stream


def query_of(*window: str, calls: list[str] | None = None) -> Query:
    calls = calls or (ANYHOW if window == SLIDING else [*ANYHOW, *IN_ORDER])
    aggregates = [F.expr(call).alias(f"a{place}") for place, call in enumerate(calls)]

    def query(rows: DataFrame) -> DataFrame:
        return rows.groupBy(F.window("ts", *window), "k").agg(*aggregates)

    return query


@pytest.fixture(scope="module")
def sparks(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """Plain Spark's micro-batches, by window and output mode."""
    found = {}
    for window, output in ((TUMBLING, "append"), (SLIDING, "update"), (SEPARATE, "append")):
        stream = made(spark, tmp_path_factory.mktemp("sparks"))
        found[window, output] = ran(stream.read(), stream.folder, query_of(*window), output, "off").batches
        assert sum(map(len, found[window, output])) > 8
    return found


@pytest.mark.parametrize(
    ("window", "output", "path"),
    [
        (TUMBLING, "append", "driver"),
        (TUMBLING, "append", "tcp"),
        (TUMBLING, "append", "repartition"),
        (SLIDING, "update", "tasks"),
        (SEPARATE, "append", "tasks"),
        (SEPARATE, "append", "tcp"),
    ],
)
def test_micro_batches_are_sparks(
    sparks: Any, spark: SparkSession, tmp_path: Path, window: Window, output: str, path: str
) -> None:
    stream = made(spark, tmp_path)
    found = ran(stream.read(), stream.folder, query_of(*window), output, "require", **PATHS[path])
    assert found.batches == sparks[window, output]


FEW = ["percentile(i, 0.5)", "sort_array(collect_list(i))", "approx_count_distinct(s)", "count(*)", "sum(i)"]


@pytest.mark.parametrize("durability", ["off", "checkpoint"])
def test_a_query_that_starts_again_goes_on_with_its_buffers(
    spark: SparkSession, tmp_path: Path, durability: str
) -> None:
    generator = random.Random(5)
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=5)
    conf = {"merge.driverBytes": "0", "durability": durability}
    for start in range(2):
        for batch in range(2):
            stream.add(rows_of(generator, 2 * start + batch))
        expected = ran(stream.read(), stream.folder, query_of("10 seconds", calls=FEW), "update", "off")
        found = ran(stream.read(), stream.folder, query_of("10 seconds", calls=FEW), "update", "require", **conf)
        assert found.batches == expected.batches
        assert any(found.batches)
        hook._sweep()


def test_buffers_of_several_tasks_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    """Two tasks have rows of every group, and one of them comes back to groups whose buffers it has given already."""
    generator = random.Random(8)
    folder = tmp_path / "in"
    folder.mkdir()
    for batch in range(2):
        parts = [rows_of(generator, batch), rows_of(generator, batch)]
        if batch == 0:
            keys = [*range(9500), *range(300)]
            many = rows_of(generator, batch, len(keys))
            parts[1] = many.set_column(1, SCHEMA.field("k"), pa.array(keys, pa.float64()))
        for number, part in enumerate(parts):
            pq.write_table(part, folder / f"{batch}-{number}.parquet")
            in_order(folder / f"{batch}-{number}.parquet", batch)
    rows = (
        spark.readStream.schema(spark.read.parquet(str(folder)).schema)
        .option("maxFilesPerTrigger", 2)
        .parquet(str(folder))
        .withWatermark("ts", "5 seconds")
    )
    results = {
        mode: ran(rows, tmp_path, query_of("10 seconds", calls=FEW), "update", mode) for mode in ("off", "require")
    }
    assert sum(map(len, results["off"].batches)) > 8500
    assert results["require"].batches == results["off"].batches


def test_functions_of_a_users_own(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    same = getattr(getattr(jvm.scala, "$less$colon$less$"), "MODULE$").refl()
    total = jvm.org.apache.spark.sql.internal.TypedSumDouble(same)
    encoder = jvm.org.apache.spark.sql.Encoders.DOUBLE()
    spark._jsparkSession.udf().register("total_of_mine", jvm.org.apache.spark.sql.functions.udaf(total, encoder))
    query = query_of("10 seconds", calls=["total_of_mine(d)", "count(d)"])
    stream = made(spark, tmp_path, 3)
    results = [ran(stream.read(), stream.folder, query, "append", mode).batches for mode in ("off", "require")]
    assert sum(map(len, results[0])) > 2
    assert results[0] == results[1]
