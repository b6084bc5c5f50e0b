"""`dropDuplicates` against plain Spark over the same micro-batches."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.driver.start import hook
from tests.support.example import run_example
from tests.support.ran import Query, ran
from tests.support.stream import Stream, in_order, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.string()), ("x", pa.float64())])


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Many keys at first, of which later micro-batches have some again; late rows, rows without a time, null keys."""
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=30)
    add(made, range(5000), at=1000)
    for batch in range(1, 5):
        add(made, range(4900 + 20 * batch, 5000 + 80 * batch), at=1000 + 50 * batch)
    return made


def add(stream: Stream, keys: range, at: float) -> None:
    times = [None if k % 37 == 5 else seconds(at - (k % 7) * (50 if k % 5 == 1 else 1)) for k in keys]
    columns = {
        "ts": times,
        "k": [None if k % 41 == 3 else k // 2 for k in keys],
        "v": [f"{k} at {at}" for k in keys],
        "x": [k % 3 / 2 for k in keys],
    }
    stream.add(pa.table(columns, SCHEMA))


def halves(rows: DataFrame) -> DataFrame:
    """The rows with whole numbers in `x`: before Spark 4.3, keys of floating point stay Spark's."""
    return rows.withColumn("x", (F.col("x") * 2).cast("int"))


def without_watermark(rows: DataFrame) -> DataFrame:
    """The rows as they were before `withWatermark`."""
    return rows.withColumn("ts", F.timestamp_micros(F.unix_micros("ts")))


def nested(rows: DataFrame) -> DataFrame:
    """The keys as a struct, an array and an interval; beside them what native code only keeps."""
    return rows.selectExpr(
        "ts",
        "named_struct('k', k, 'of', array(x > 0)) AS s",
        "array(k, null) AS a",
        "make_dt_interval(0, 0, k) AS i",
        "map('v', v) AS m",
        "parse_json(concat('[', k, ']')) AS j",
    )


def told(rows: DataFrame) -> DataFrame:
    return rows.select("s", "a", "i", "m", F.col("j").cast("string"))


QUERIES: dict[str, Query] = {
    "keys": lambda rows: without_watermark(rows).dropDuplicates(["k"]),
    "keys, late rows": lambda rows: halves(rows).dropDuplicates(["k", "x"]).select("v", "ts", F.col("k") + 1),
    "keys and time": lambda rows: rows.dropDuplicates(["ts", "k"]),
    "structs, arrays, intervals": lambda rows: told(nested(rows).dropDuplicates(["s", "a", "i"])),
    "windows": lambda rows: rows.select(F.window("ts", "10 seconds"), "k", "v").dropDuplicates(["window", "k"]),
}
HOMES = {"merge.driverBytes": "0"}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_micro_batches_are_sparks_with_keys_kept_in_executors(stream: Stream, query: Query) -> None:
    expected = ran(stream.read(), stream.folder, query, "append", "off")
    found = ran(stream.read(), stream.folder, query, "append", "require", **HOMES)
    assert found.batches == expected.batches
    assert sum(map(len, found.batches)) > 2000
    assert {epoch["merged_by"] for epoch in found.progress if epoch["windows"]} == {"2 homes"}


@pytest.mark.parametrize(
    "conf",
    [
        {"ingest": "files", "merge.driverBytes": "1g"},
        {"ingest": "rows", "transport": "tcp", "merge.driverBytes": "0"},
        {"ingest": "rows", "strategy": "repartition", **HOMES},
    ],
    ids=str,
)
def test_micro_batches_are_sparks_on_every_path(stream: Stream, conf: dict[str, str]) -> None:
    query = QUERIES["keys and time"]
    expected = ran(stream.read(), stream.folder, query, "update", "off")
    found = ran(stream.read(), stream.folder, query, "update", "require", **conf)
    assert found.batches == expected.batches
    assert {epoch["ingest"] for epoch in found.progress} - {"none"} == {conf["ingest"]}


def test_a_query_that_starts_again_goes_on_with_its_keys(stream: Stream) -> None:
    conf = {"durability": "off", **HOMES}
    for _ in range(2):
        expected = ran(stream.read(), stream.folder, QUERIES["keys, late rows"], "append", "off")
        found = ran(stream.read(), stream.folder, QUERIES["keys, late rows"], "append", "require", **conf)
        assert found.batches == expected.batches
        assert found.batches[0]
        hook._sweep()
        add(stream, range(50, 10_050, 10), at=1400)


def test_within_the_watermark_a_key_is_of_any_type(stream: Stream) -> None:
    def query(rows: DataFrame) -> DataFrame:
        return told(nested(rows).dropDuplicatesWithinWatermark(["s", "a"]))

    expected = ran(stream.read(), stream.folder, query, "append", "off")
    found = ran(stream.read(), stream.folder, query, "append", "require", **HOMES)
    assert found.batches == expected.batches
    assert sum(map(len, found.batches)) > 2000


def test_only_what_is_new_is_read(stream: Stream) -> None:
    found = ran(stream.read(), stream.folder, QUERIES["keys"], "append", "require", **HOMES)
    first, *later = [epoch["bytes_read"]["shm"] for epoch in found.progress if epoch["windows"]]
    assert max(later) < first / 6


def states(stream: Stream, query: Query, mode: str) -> list[dict[str, Any]]:
    """Spark's figures of the operator, a micro-batch each."""
    pyslash.enable(stream.spark)
    stream.spark.conf.set("spark.slash.mode", mode)
    try:
        running = query(stream.read()).writeStream.format("noop").trigger(availableNow=True).start()
        assert running.awaitTermination(900)
    finally:
        stream.spark.conf.unset("spark.slash.mode")
        pyslash.disable()
    return [state for one in running.recentProgress for state in one["stateOperators"]]


def test_keys_are_dropped_as_the_watermark_moves(stream: Stream) -> None:
    for _ in range(4):
        add(stream, range(3000), at=2000 + 100 * len(stream.batches))
    held = [state["numRowsTotal"] for state in states(stream, QUERIES["keys and time"], "require")]
    assert max(held) < 2 * 5000
    assert held[-1] < 3000


def test_sparks_metrics_are_sparks(stream: Stream) -> None:
    sparks, ours = (
        [
            (
                state["numRowsUpdated"],
                state["numRowsDroppedByWatermark"],
                state["customMetrics"]["numDroppedDuplicateRows"],
            )
            for state in states(stream, QUERIES["keys, late rows"], mode)
        ]
        for mode in ("off", "require")
    )
    assert ours == sparks
    assert all(map(any, zip(*sparks, strict=True)))


def test_zeros_and_nans_are_one_key_and_rows_keep_their_own(spark: SparkSession, tmp_path: Path) -> None:
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=30)
    for values in ([-0.0, 0.0, float("nan"), other_nan, 1.0], [0.0, -0.0, other_nan, 2.0]):
        size = len(values)
        stream.add(pa.table([[seconds(1)] * size, [1] * size, ["v"] * size, values], schema=SCHEMA))
    for keys in (["x"], ["k", "x"]):

        def query(rows: DataFrame, keys: list[str] = keys) -> DataFrame:
            return rows.dropDuplicates(keys)

        folder = tmp_path / "-".join(keys)
        if not spark.version.startswith("4.3."):
            assert "whose zeros and NaNs Spark before 4.3 tells apart" in pyslash.explain(query(stream.read()))
            continue
        expected = ran(stream.read(), folder, query, "append", "off")
        assert repr(ran(stream.read(), folder, query, "append", "require").batches) == repr(expected.batches)
        assert len(expected.batches[0]) == 3


def test_explain_tells_what_is_kept(stream: Stream) -> None:
    text = pyslash.explain(QUERIES["keys and time"](stream.read()))
    assert "covered, in append mode" in text
    assert "unique" in text
    assert "first row" in text
    pyslash.enable(stream.spark)
    try:
        writer = QUERIES["keys"](stream.read()).writeStream.format("noop").trigger(availableNow=True)
        query = writer.start()
        assert query.awaitTermination(900)
        query.explain()
        assert pyslash.progress(query)
    finally:
        pyslash.disable()


@pytest.mark.parametrize(
    ("option", "times"),
    [pytest.param(["--daily"], 3, marks=pytest.mark.nightly), (["--within", "1 hour"], 2)],
    ids=str,
)
def test_the_example(spark: SparkSession, tmp_path: Path, option: list[str], times: int) -> None:
    """Each day has flights of all 7 aircraft. The watermark passes those of the first day by the end of the second."""
    source = tmp_path / "flights"
    source.mkdir()
    for day in range(3):
        rows = {
            "scheduled_departure": [seconds(86400 * (day + 300) + 3600 * hour) for hour in range(10)],
            "carrier": ["UA"] * 10,
            "tailnum": [f"N{(day + hour) % 7}" for hour in range(10)],
            "origin": ["EWR"] * 10,
        }
        schema = pa.schema([("scheduled_departure", pa.timestamp("us", "UTC"))])
        table = pa.table(rows).cast(pa.schema([*schema, *(pa.field(name, pa.string()) for name in list(rows)[1:])]))
        pq.write_table(table, source / f"{day}.parquet")
        in_order(source / f"{day}.parquet", day)
    output = run_example("deduplicate.py", source, tmp_path, *option)
    found = [row.tailnum for row in spark.read.parquet(str(output)).collect()]
    assert sorted(found) == sorted([f"N{key}" for key in range(7)] * times)


def test_the_watermark_that_is_told_moves_though_no_key_is_forgotten(stream: Stream) -> None:
    found = ran(stream.read(), stream.folder, QUERIES["keys, late rows"], "append", "require")
    assert found.progress[-1]["watermark_us"] > 1000 * 1_000_000
