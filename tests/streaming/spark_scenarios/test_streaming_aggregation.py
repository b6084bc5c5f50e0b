"""Scenarios of Spark's StreamingAggregationSuite that append mode has an answer for."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.streaming.spark_scenarios.job import Feed, Job, five, timed


def by_key(rows: DataFrame, key: str = "value % 10") -> DataFrame:
    """Counts by window and key: (start in seconds, key, count)."""
    counted = timed(rows, "0 seconds").groupBy(five(), F.expr(key).alias("k")).agg(F.count("*").alias("n"))
    return counted.select(F.col("window.start").cast("long").alias("start"), "k", "n")


def test_simple_count(job: Job) -> None:
    values = job.feed()
    job.start(by_key(values.read()))
    assert job.step(values, 3) == []
    assert job.step(values, 3, 2) == []
    assert job.step(values, 5) == [(0, 2, 1), (0, 3, 2)]
    assert job.step(values, 3, 12) == [(5, 5, 1)]


def test_multiple_keys(job: Job) -> None:
    values = job.feed()
    rows = timed(values.read(), "0 seconds").groupBy(five(), F.expr("value % 2"), F.expr("value + 1").alias("next"))
    job.start(rows.agg(F.count("*"), F.sum("value")).drop("window"))
    assert job.step(values, 1, 1, 2) == []
    assert job.step(values, 10) == [(0, 3, 1, 2), (1, 2, 2, 2)]


def test_null_keys(job: Job) -> None:
    rows = job.feed(value="bigint", k="string")
    job.start(by_key(rows.read(), "k"))
    assert job.step(rows, (1, None), (2, "a"), (3, None)) == []
    assert job.step(rows, (4, None), (9, "a")) == [(0, "a", 1), (0, None, 3)]


def test_having(job: Job) -> None:
    values = job.feed()
    job.start(by_key(values.read()).where("n > 1"))
    assert job.step(values, 3, 3, 4) == []
    assert job.step(values, 9) == [(0, 3, 2)]


def test_having_of_an_aggregate_that_is_not_selected(job: Job) -> None:
    values = job.feed()
    timed(values.read(), "0 seconds").createOrReplaceTempView("rows")
    job.start(
        job.spark.sql(
            "SELECT count(*) AS n FROM rows GROUP BY window(time, '5 seconds'), value % 2 HAVING sum(value) > 3"
        )
    )
    assert job.step(values, 1, 1, 2, 4) == []
    assert job.step(values, 5) == [(2,)]


def test_having_on_the_key_is_a_filter_below_the_watermark(job: Job) -> None:
    values = job.feed()
    job.start(by_key(values.read()).where("k = 3"))
    assert job.step(values, 3, 4) == []
    assert job.step(values, 9) == []  # Spark filters the 9 before it could move the watermark
    assert job.step(values, 13) == [(0, 3, 1)]


def test_empty_batches(job: Job) -> None:
    values = job.feed()
    job.start(by_key(values.read()))
    assert job.step(values) == []
    assert job.step(values, 3) == []
    assert job.step(values) == []
    assert job.step(values, 8) == [(0, 3, 1)]
    assert job.step(values) == []


def test_results_are_pruned_by_the_batchs_time(job: Job) -> None:
    values = job.feed()
    counted = timed(values.read(), "0 seconds").groupBy(five()).count()
    recent = counted.where("window.end > current_timestamp() - INTERVAL '1' HOUR")
    job.start(recent.select("count"))
    now = 4_000_000_000  # later than now
    assert job.step(values, 3, now) == []  # [0, 5) is older than an hour
    assert job.step(values, now + 10) == [(1,)]


def test_results_are_pruned_by_the_batchs_date(job: Job) -> None:
    values = job.feed()
    rows = timed(values.read(), "0 seconds").where("to_date(time) <= date_add(current_date(), 1)")
    job.start(rows.groupBy(five()).count().select("count"))
    # Not counted; but a filter of the event time stays above the watermark, which moves.
    assert job.step(values, 3, 4_000_000_000) == [(1,)]
    assert job.step(values, 3) == []


def test_the_batchs_time_is_one_for_all_its_rows(job: Job) -> None:
    values = job.feed()
    rows = timed(values.read(), "0 seconds").withColumn("now", F.current_timestamp())
    counted = rows.groupBy(five()).agg(F.min("now").alias("first"), F.max("now").alias("last"))
    job.start(counted.select(F.expr("first = last"), F.expr("last <= current_timestamp()")))
    assert job.step(values, 1, 2, 3) == []
    assert job.step(values, 7) == [(True, True)]


def test_a_batch_aggregation_in_the_query_stays_one(job: Job) -> None:
    values = job.feed()
    table = job.spark.sql("SELECT * FROM VALUES (1L), (1L), (2L), (9L) AS t(value)")
    table = table.groupBy("value").agg(F.count("*"))
    job.start(by_key(values.read().join(table.withColumnRenamed("count(1)", "times"), "value"), "times"))
    assert job.step(values, 1, 2, 3) == []
    assert job.step(values, 1, 3) == []
    assert job.step(values, 2) == []
    assert job.step(values, 9) == [(0, 1, 2), (0, 2, 2)]


def test_joined_with_a_table_above(job: Job) -> None:
    values = job.feed()
    table = job.spark.sql("SELECT * FROM VALUES (1L, 'one'), (2L, 'two') AS t(k, name)")
    job.start(by_key(values.read()).join(F.broadcast(table), "k", "left").select("name", "n"))
    assert job.step(values, 1, 2, 2, 3) == []
    assert job.step(values, 9) == [("one", 1), ("two", 2), (None, 1)]


def test_coalesced_input(job: Job) -> None:
    values = job.feed()
    job.start(by_key(values.read().coalesce(1)).coalesce(1))
    assert job.step(values) == []
    assert job.step(values, 1) == []
    assert job.step(values, 9) == [(0, 1, 1)]


def test_repartitioned_input(job: Job) -> None:
    values = job.feed()
    job.start(by_key(values.read().repartition(3)))
    assert job.step(values, *range(5)) == []
    assert job.step(values, 9) == [(0, i, 1) for i in range(5)]


def test_other_shuffle_partitions_after_a_restart(job: Job) -> None:
    values = job.feed()
    job.start(by_key(values.read()))
    job.step(values, 1, 2, 3)
    job.stop()
    job.spark.conf.set("spark.sql.shuffle.partitions", "3")
    job.start(by_key(values.read()))
    assert job.step(values, 3, 9) == [(0, 1, 1), (0, 2, 1), (0, 3, 2)]


def test_state_figures(job: Job) -> None:
    values = job.feed()
    job.start(by_key(values.read()))
    job.step(values, 1, 2, 2)  # and a batch without data: the watermark is 2
    job.step(values, 3, 8)
    job.step(values, 1)
    assert job.states("numRowsTotal") == [2, 2, 4, 1, 1]
    assert job.states("numRowsUpdated") == [2, 0, 2, 0, 0]
    assert job.states("numRowsRemoved") == [0, 0, 0, 3, 0]
    assert job.states("numRowsDroppedByWatermark") == [0, 0, 0, 0, 1]


def broken_job(job: Job) -> Feed:
    """A job that has counted 1 and 2, and then failed at 4."""
    values = job.feed()
    job.start(by_key(values.read().where("assert_true(value <> 4) IS NULL")))
    assert job.step(values, 1, 2) == []
    values.add(3, 4)
    with pytest.raises(StreamingQueryException, match="USER_RAISED_EXCEPTION"):
        job.query.processAllAvailable()
    return values


def test_a_job_that_failed_and_was_repaired_by_a_filter(job: Job) -> None:
    values = broken_job(job)
    job.start(by_key(values.read().where("value <> 4")))
    assert job.step(values, 9) == [(0, 1, 1), (0, 2, 1), (0, 3, 1)]


def test_a_job_that_failed_and_was_repaired_by_another_key(job: Job) -> None:
    values = broken_job(job)
    job.spark.conf.set("spark.slash.plan.change", "names")  # for pyslash, it is another query (docs/differences.md)
    job.start(by_key(values.read(), "if(value = 4, 0, value % 10)"))
    assert job.step(values, 9) == [(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1)]


def test_overflow_with_ansi(job: Job) -> None:
    job.spark.conf.set("spark.sql.ansi.enabled", "true")
    values = job.feed()
    rows = timed(values.read(), "0 seconds").groupBy(five()).agg(F.sum(F.lit(2**62).cast("bigint") + F.col("value")))
    job.start(rows)
    values.add(1, 2)
    values.add(50)
    with pytest.raises(StreamingQueryException, match="ARITHMETIC_OVERFLOW"):
        job.query.processAllAvailable()


def test_distinct_windows_and_keys(job: Job) -> None:
    values = job.feed()
    timed(values.read(), "0 seconds").select(five(), F.expr("value % 2 AS k")).createOrReplaceTempView("windowed")
    job.start(
        job.spark.sql("SELECT window.end, k FROM windowed GROUP BY window, k").select(F.expr("unix_seconds(end)"), "k")
    )
    assert job.step(values, 1, 3, 3) == []
    assert job.step(values, 9) == [(5, 1)]


def test_two_aggregates_of_one_expression(job: Job) -> None:
    values = job.feed()
    rows = timed(values.read(), "0 seconds").groupBy(five())
    job.start(
        rows.agg(F.expr("sum(value) / count(*) AS mean"), F.expr("avg(value)"), F.expr("max(value) - 1")).drop("window")
    )
    assert job.step(values, 1, 2, 4) == []
    assert job.step(values, 9) == [(7 / 3, 7 / 3, 3)]
