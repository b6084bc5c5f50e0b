"""Scenarios of Spark's ForeachBatchSinkSuite, with a stateful query."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame

from tests.streaming.spark_scenarios.job import Job, counts


class UserError(Exception):
    """What the job's own function raises."""


def test_it_is_called_once_for_a_batch(job: Job) -> None:
    values = job.feed()
    job.start(counts(values.read(), "0 seconds"))
    job.step(values, 1)
    job.step(values, 7)
    job.step(values, 13)
    assert job.batches == [(0, []), (1, []), (2, []), (3, [(0, 1)]), (4, []), (5, [(5, 1)])]


def test_what_it_raises_is_the_querys_error(job: Job) -> None:
    values = job.feed()

    def fail(rows: DataFrame, batch: int) -> None:
        job.batches.append((batch, []))
        raise UserError("not today")

    job.start(counts(values.read()), fail)
    values.add(1)
    with pytest.raises(StreamingQueryException, match="UserError: not today") as error:
        job.query.processAllAvailable()
    assert "FOREACH_BATCH_USER_FUNCTION_ERROR" in str(error.value)
    assert job.batches == [(0, [])]
    assert not job.query.isActive
    assert "UserError: not today" in str(job.query.exception())


def test_a_batch_that_failed_comes_again(job: Job) -> None:
    values = job.feed()

    def fail_with_rows(rows: DataFrame, batch: int) -> None:
        job.collect(rows, batch)
        if job.batches[-1][1]:
            raise UserError("full")

    job.start(counts(values.read(), "0 seconds"), fail_with_rows)
    job.step(values, 1, 2)
    values.add(7)
    with pytest.raises(StreamingQueryException, match="UserError: full"):
        job.query.processAllAvailable()
    failed = job.batches[-1]
    assert failed[1] == [(0, 2)]
    job.start(counts(values.read(), "0 seconds"))
    job.new()
    assert job.batches[-1] == failed
    assert job.step(values, 13) == [(5, 1)]


def test_its_rows_can_be_read_several_times(job: Job) -> None:
    values = job.feed()
    found = []

    def several(rows: DataFrame, batch: int) -> None:
        rows.persist()
        found.append((rows.count(), rows.where("count > 1").count(), len(rows.collect()), rows.toPandas().shape))
        rows.unpersist()

    job.start(counts(values.read(), "0 seconds"), several)
    job.step(values, 1, 2, 7)
    assert found == [(0, 0, 0, (0, 2)), (1, 1, 1, (1, 2))]


def test_its_rows_are_a_batch_of_their_own_session(job: Job) -> None:
    values = job.feed()
    found = []

    def query(rows: DataFrame, batch: int) -> None:
        assert not rows.isStreaming
        rows.createOrReplaceTempView("counted")
        found.append(rows.sparkSession.sql("SELECT sum(count) FROM counted").first()[0])

    job.start(counts(values.read(), "0 seconds"), query)
    job.step(values, 1, 2, 7)
    assert found == [None, 2]


def test_its_rows_can_be_written_and_joined(job: Job) -> None:
    values = job.feed()
    target = str(job.folder / "out")

    def write(rows: DataFrame, batch: int) -> None:
        rows.join(rows.withColumnRenamed("count", "again"), "start").write.mode("append").parquet(target)

    job.start(counts(values.read(), "0 seconds"), write)
    job.step(values, 1, 2, 7)
    job.step(values, 20)
    assert sorted(tuple(row) for row in job.spark.read.parquet(target).collect()) == [(0, 2, 2), (5, 1, 1)]


def test_partitioning_is_refused(job: Job) -> None:
    values = job.feed()
    with pytest.raises(AnalysisException, match="does not support partitioning"):
        job.begin(counts(values.read()).writeStream.foreachBatch(job.collect).partitionBy("start"))


def test_its_rows_show_the_schema_of_the_query(job: Job) -> None:
    values = job.feed()
    schemas = []
    counted = counts(values.read(), "0 seconds")

    def look(rows: DataFrame, batch: int) -> None:
        schemas.append(rows.schema)
        rows.collect()

    job.start(counted, look)
    job.step(values, 1)
    assert schemas[0] == counted.schema
