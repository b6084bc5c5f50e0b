"""`dropDuplicatesWithinWatermark` against plain Spark over the same micro-batches."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from pyslash.driver.start import hook
from tests.support.attempt import attempt, settings
from tests.support.ran import Query, ran
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("s", pa.string()), ("v", pa.int64())])
DELAY = 15
QUERIES: dict[str, Query] = {
    "key": lambda rows: rows.dropDuplicatesWithinWatermark(["k"]),
    "keys, one of them null": lambda rows: rows.dropDuplicatesWithinWatermark(["s", "k"]).select("v", "s"),
    "all columns": lambda rows: rows.select("ts", "k").dropDuplicatesWithinWatermark(),
}


def add(stream: Stream, generator: random.Random, at: float, rows: int = 250) -> None:
    """Rows of few keys around a time, in any order: some late, some without a time. One task reads them."""

    def row() -> tuple[object, ...]:
        time = at + generator.choice((-60, *[generator.uniform(-14, 10)] * 9))
        return (
            None if generator.random() < 0.03 else seconds(round(time, generator.choice((0, 3)))),
            generator.choice((None, *range(40))),
            generator.choice((None, "", "a")),
            generator.randrange(1_000_000),
        )

    table = [row() for _ in range(rows)]
    stream.add(pa.table([[row[i] for row in table] for i in range(len(SCHEMA))], SCHEMA))


def made(spark: SparkSession, folder: Path, seed: int = 1, batches: int = 6) -> Stream:
    """Micro-batches in which keys come again, before and after they have expired."""
    stream, generator = Stream(spark, folder, SCHEMA, DELAY), random.Random(seed)
    for batch in range(batches):
        add(stream, generator, 1000 + batch * generator.choice((4, 9, 20)))
    return stream


def same(stream: Stream, query: Query, output: str = "append", **conf: str) -> int:
    """Pass if each micro-batch has Spark's rows; how many rows there are."""
    expected = ran(stream.read(), stream.folder, query, output, "off")
    found = ran(stream.read(), stream.folder, query, output, "require", **conf)
    assert found.batches == expected.batches
    return sum(map(len, found.batches))


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_micro_batches_are_sparks(spark: SparkSession, tmp_path: Path, query: Query) -> None:
    assert same(made(spark, tmp_path), query) > 40


@pytest.mark.parametrize(
    "conf",
    [
        {"ingest": "files", "merge.driverBytes": "0"},
        {"ingest": "rows", "transport": "tcp"},
        pytest.param({"ingest": "rows", "strategy": "repartition"}, marks=pytest.mark.nightly),
    ],
    ids=str,
)
def test_micro_batches_are_sparks_on_every_path(spark: SparkSession, tmp_path: Path, conf: dict[str, str]) -> None:
    assert same(made(spark, tmp_path, seed=2), QUERIES["key"], "update", **conf) > 60


def test_a_key_expires_after_the_row_that_was_emitted(spark: SparkSession, tmp_path: Path) -> None:
    """The row at 120 is dropped and does not prolong the key: it is over once a micro-batch has evicted by 151."""
    stream = Stream(spark, tmp_path, SCHEMA, 50)
    for rows in ([(100, 1)], [(120, 1), (201, 2)], [(155, 1)], [(160, 1)], [(170, 1)]):
        columns = [[seconds(at) for at, _ in rows], [key for _, key in rows], [""] * len(rows), [0] * len(rows)]
        stream.add(pa.table(columns, SCHEMA))
    expected = ran(stream.read(), stream.folder, QUERIES["key"], "append", "off").batches
    found = ran(stream.read(), stream.folder, QUERIES["key"], "append", "require").batches
    assert found == expected
    emitted = [(row.k, row.ts.minute * 60 + row.ts.second) for batch in found for row in batch]
    assert emitted == [(1, 100), (2, 201), (1, 160)]


@pytest.mark.parametrize("durability", [pytest.param("off", marks=pytest.mark.nightly), "checkpoint"])
def test_a_query_that_starts_again_goes_on_with_its_keys(spark: SparkSession, tmp_path: Path, durability: str) -> None:
    """Each time with another delay: a key keeps the one that it was emitted with."""
    stream, generator = made(spark, tmp_path, seed=3, batches=2), random.Random(4)
    for start, delay in enumerate((30, 5, 60)):
        stream.delay_seconds = delay
        assert same(stream, QUERIES["key"], durability=durability) > 0
        hook._sweep()
        for batch in range(3):
            add(stream, generator, 1020 + 40 * start + 10 * batch)


@pytest.mark.parametrize("fail_in", [pytest.param(0, marks=pytest.mark.nightly), 3])
def test_an_epoch_that_comes_again_behind_its_manifest_has_the_same_rows(
    spark: SparkSession, tmp_path: Path, fail_in: int
) -> None:
    query = QUERIES["key"]
    stream = made(spark, tmp_path, seed=5)
    expected = attempt(query(stream.read()), tmp_path / "plain", "off").batches
    first = attempt(query(stream.read()), tmp_path / "ours", fail_in=fail_in)
    assert first.error is not None
    second = attempt(query(stream.read()), tmp_path / "ours")
    assert second.batches[0] == first.batches[-1]
    assert [*first.batches[:-1], *second.batches] == expected


def test_agents_that_die_cost_no_row(spark: SparkSession, tmp_path: Path) -> None:
    stream = made(spark, tmp_path, seed=6)
    query = QUERIES["key"]
    expected = attempt(query(stream.read()), tmp_path / "plain", "off").batches
    found: list[tuple[int, list[str]]] = []
    killed: list[int] = []

    def take(rows: DataFrame, epoch: int) -> None:
        found.append((epoch, sorted(map(repr, rows.collect()))))
        if epoch == 3:
            running = [runner for _, runner, _ in hook._runners.values() if not killed]
            for runner in running:
                for agent in runner.operators[0].state.coordinator.agents:
                    os.kill(agent.pid, signal.SIGKILL)
                    killed.append(agent.pid)

    with settings(spark, {"spark.slash.mode": "require", "spark.slash.durability": "checkpoint"}):
        writer = query(stream.read()).writeStream.option("checkpointLocation", str(tmp_path / "ours"))
        running = writer.foreachBatch(take).trigger(availableNow=True).start()
        assert running.awaitTermination(900)
    assert killed
    assert found == expected


@pytest.mark.parametrize("policy", [pytest.param("min", marks=pytest.mark.nightly), "max"])
def test_unions_go_by_the_watermark_of_the_policy(spark: SparkSession, tmp_path: Path, policy: str) -> None:
    """Which of two sources' rows Spark reads first is its freedom: of equal keys here all times are equal too."""
    streams = []
    for name, offset in (("left", 0), ("right", 25)):
        stream = Stream(spark, tmp_path / name, SCHEMA, DELAY)
        for batch in range(5):
            at = 1000 + 12 * batch
            keys = [k for k in range(40) if (k + batch + offset) % 3]
            times = [seconds(at + k % 7) for k in keys]
            stream.add(pa.table([times, keys, ["a"] * len(keys), [batch] * len(keys)], SCHEMA))
        streams.append(stream)

    def query(rows: DataFrame) -> DataFrame:
        return rows.union(streams[1].read()).dropDuplicatesWithinWatermark(["k"]).select("k", "ts")

    before = spark.conf.get("spark.sql.streaming.multipleWatermarkPolicy")
    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", policy)
    try:
        assert same(streams[0], query) > 40
    finally:
        spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", before)


@pytest.mark.nightly
def test_an_aggregation_stands_on_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    def query(rows: DataFrame) -> DataFrame:
        unique = rows.dropDuplicatesWithinWatermark(["k"])
        return unique.groupBy(F.window("ts", "10 seconds")).agg(F.count("*").alias("n"), F.sum("v"))

    assert same(made(spark, tmp_path, seed=7), query) > 3


def test_state_is_what_may_still_suppress_a_row(spark: SparkSession, tmp_path: Path) -> None:
    """Expired entries go by whole minutes: less is held than was emitted, over more micro-batches than are merged."""
    stream, generator = Stream(spark, tmp_path, SCHEMA, DELAY), random.Random(8)
    for batch in range(14):
        add(stream, generator, 1000 + 30 * batch, rows=120)
    expected = ran(stream.read(), stream.folder, QUERIES["key"], "append", "off")
    found = ran(stream.read(), stream.folder, QUERIES["key"], "append", "require")
    assert found.batches == expected.batches
    assert sum(map(len, found.batches)) > 150
    with settings(spark, {"spark.slash.mode": "require"}):
        running = QUERIES["key"](stream.read()).writeStream.format("noop").trigger(availableNow=True).start()
        assert running.awaitTermination(900)
    held = [state["numRowsTotal"] for one in running.recentProgress for state in one["stateOperators"]]
    assert max(held[3:]) < sum(map(len, found.batches))


def test_explain_tells_how_long_keys_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    text = pyslash.explain(QUERIES["key"](made(spark, tmp_path, batches=1).read()))
    assert "covered, in append mode" in text
    assert "for 15 s after" in text
