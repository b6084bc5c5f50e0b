"""Orders to tasks that keep groups have what an epoch has changed; who has lost its groups asks for the rest."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.emit.column_merge import ColumnMerge
from pyslash.emit.rest import Rest
from tests.support.attempt import settings
from tests.support.ran import Query, ran
from tests.support.stream import Stream, seconds

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
BY_EXECUTORS = {"merge.driverBytes": "0"}


def add(stream: Stream, times: range, keys: range) -> None:
    rows = [(seconds(time), key, time + key) for time in times for key in keys]
    stream.add(pa.table([list(column) for column in zip(*rows, strict=True)], SCHEMA))


def joined(rows: DataFrame) -> DataFrame:
    other = rows.select(F.col("ts").alias("r_ts"), F.col("k").alias("r_k"), F.col("v").alias("r_v"))
    return rows.join(other, F.expr("k = r_k AND r_ts BETWEEN ts - INTERVAL 5 SECONDS AND ts + INTERVAL 5 SECONDS"))


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every order that the driver gives."""
    given: list[str] = []
    order = ColumnMerge._order

    def kept(columns: ColumnMerge, *arguments: Any) -> str:
        given.append(order(columns, *arguments))
        return given[-1]

    monkeypatch.setattr(ColumnMerge, "_order", kept)
    return given


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every answer that a task has asked for."""
    given: list[str] = []
    apply = Rest.apply

    def kept(rest: Rest, number: str) -> str:
        given.append(apply(rest, number))
        return given[-1]

    monkeypatch.setattr(Rest, "apply", kept)
    return given


def test_an_order_does_not_grow_with_what_is_held(
    spark: SparkSession, tmp_path: Path, orders: list[str], asked: list[str]
) -> None:
    def given(windows: int) -> list[int]:
        folder = tmp_path / str(windows)
        folder.mkdir()
        stream = Stream(spark, folder, SCHEMA, delay_seconds=100_000)
        add(stream, range(windows), range(20))
        for epoch in range(3):
            add(stream, range(epoch, epoch + 1), range(5))
        orders.clear()
        query: Query = lambda rows: rows.groupBy(F.window("ts", "1 second"), "k").sum("v")  # noqa: E731
        found = ran(stream.read(), folder, query, "update", "require", **BY_EXECUTORS)
        assert [len(rows) for rows in found.batches if rows] == [20 * windows, 5, 5, 5]
        assert {epoch["merged_by"] for epoch in found.progress if epoch["windows"]} == {"2 homes"}
        return [len(order) for order in orders]

    first, *later = given(10)
    many, *of_many = given(1_000)
    assert many > 10 * first
    assert max(of_many) < max(later) + 200
    assert asked == []


@pytest.mark.parametrize(
    ("query", "output"),
    [
        (lambda rows: rows.groupBy("k").agg(F.sum("v"), F.count("*")), "update"),
        (lambda rows: rows.groupBy(F.window("ts", "20 seconds", "10 seconds"), "k").agg(F.sum("v")), "complete"),
        (lambda rows: rows.dropDuplicates(["k", "ts"]), "append"),
        (lambda rows: rows.groupBy(F.session_window("ts", "9 seconds"), "k").agg(F.sum("v")), "append"),
        (joined, "append"),
    ],
    ids=["keys", "sliding", "deduplication", "sessions", "join"],
)
def test_an_executor_that_has_lost_its_groups_asks_for_all_blocks(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: list[str],
    query: Query,
    output: str,
) -> None:
    stream, chance = Stream(spark, tmp_path, SCHEMA, delay_seconds=10), random.Random(5)
    for epoch in range(4):
        start = 1000 + 12 * epoch
        add(stream, range(start, start + 9, chance.choice((1, 3))), range(chance.randrange(3), 12))
    expected = ran(stream.read(), tmp_path, query, output, "off")
    order = ColumnMerge._order

    def after_a_loss(columns: ColumnMerge, *arguments: Any) -> str:
        columns.forget()  # what executors keep, as if each were a new one
        return order(columns, *arguments)

    monkeypatch.setattr(ColumnMerge, "_order", after_a_loss)
    found = ran(stream.read(), tmp_path, query, output, "require", **BY_EXECUTORS)
    assert found.batches == expected.batches
    assert len(asked) >= 2 * 3  # both tasks, in each epoch but the first
    assert all(asked)


def test_rows_that_are_read_in_a_later_epoch_say_so(spark: SparkSession, tmp_path: Path) -> None:
    stream, batches = Stream(spark, tmp_path, SCHEMA, delay_seconds=10), list[DataFrame]()
    for epoch in range(3):
        add(stream, range(1000 + epoch, 1003 + epoch), range(9))
    refused: list[str] = []

    def take(batch: DataFrame, epoch: int) -> None:
        batch.collect()
        batches.append(batch)
        if epoch == 2:
            with pytest.raises(Exception, match="InvalidRequestError") as error:
                batches[1].collect()
            refused.append(str(error.value))

    values = {"spark.slash.mode": "require", "spark.slash.merge.driverBytes": "0"}
    with settings(spark, values):
        running = (
            stream.read()
            .groupBy("k")
            .agg(F.sum("v"))
            .writeStream.outputMode("update")
            .foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        running.awaitTermination()
    assert [True for text in refused if "rows of epoch 1 are read after the query has gone on" in text] == [True]
