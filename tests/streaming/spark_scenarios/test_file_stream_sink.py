"""Scenarios of Spark's FileStreamSinkSuite: an aggregation written to files."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from tests.streaming.spark_scenarios.job import Feed, Job, counts


def written(job: Job, kind: str = "parquet", schema: str = "start bigint, count bigint") -> list[tuple[Any, ...]]:
    """What a reader of the sink's folder finds."""
    job.query.processAllAvailable()
    rows = job.spark.read.schema(schema).format(kind).load(str(job.folder / "out"))
    return sorted(tuple(row) for row in rows.collect())


def begin(job: Job, df: DataFrame, kind: str = "parquet", **options: Any) -> None:
    job.begin(df.writeStream.format(kind), path=str(job.folder / "out"), **options)


def add(job: Job, feed: Feed, *rows: int) -> None:
    feed.add(*rows)
    job.query.processAllAvailable()


@pytest.mark.parametrize("kind", ["parquet", "json", "csv", "orc"])
def test_writing_an_aggregation(job: Job, kind: str) -> None:
    values = job.feed()
    begin(job, counts(values.read()), kind)
    add(job, values, 100, 101)
    assert written(job, kind) == []
    add(job, values, 104, 123)
    assert written(job, kind) == [(100, 3)]
    add(job, values, 140)
    assert written(job, kind) == [(100, 3), (120, 1)]


def test_partitions(job: Job) -> None:
    values = job.feed()
    begin(job, counts(values.read()), partitionBy="start")
    add(job, values, 100, 101, 106)
    add(job, values, 140)
    assert written(job, schema="count bigint, start bigint") == [(1, 105), (2, 100)]
    assert {path.name for path in (job.folder / "out").glob("start=*")} == {"start=100", "start=105"}


def test_a_restart_writes_nothing_twice(job: Job) -> None:
    values = job.feed()
    begin(job, counts(values.read()))
    add(job, values, 100, 140)
    job.stop()
    begin(job, counts(values.read()))
    add(job, values, 160)
    assert written(job) == [(100, 1), (140, 1)]
    assert (job.folder / "out" / "_spark_metadata" / "0").exists()


def test_a_partition_column_that_is_not_there_is_refused(job: Job) -> None:
    values = job.feed()
    with pytest.raises(AnalysisException, match="nowhere"):
        begin(job, counts(values.read()), partitionBy="nowhere")


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_other_output_modes_are_refused(job: Job, mode: str) -> None:
    values = job.feed()
    with pytest.raises(AnalysisException):
        begin(job, counts(values.read()), outputMode=mode)


def test_a_sink_without_a_path_is_refused(job: Job) -> None:
    values = job.feed()
    with pytest.raises(Exception, match="path"):
        job.begin(counts(values.read()).writeStream.format("parquet"))


def test_a_table(job: Job) -> None:
    values = job.feed()
    job.spark.sql(f"CREATE TABLE counted (start BIGINT, count BIGINT) USING parquet LOCATION '{job.folder / 'out'}'")
    try:
        writer = counts(values.read()).writeStream.option("checkpointLocation", str(job.folder / "checkpoint"))
        job.watch(writer.toTable("counted"))
        add(job, values, 100, 140)
        assert sorted(tuple(row) for row in job.spark.table("counted").collect()) == [(100, 1)]
        job.stop()
    finally:
        job.spark.sql("DROP TABLE counted")
