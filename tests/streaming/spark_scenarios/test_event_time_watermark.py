"""Scenarios of Spark's EventTimeWatermarkSuite, in append mode."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F

from tests.streaming.spark_scenarios.job import Job, counts, five, timed

WATERMARK = "spark.sql.streaming.multipleWatermarkPolicy"


def watermark(job: Job) -> int:
    """The watermark of the last micro-batch, in seconds."""
    text = job.query.lastProgress["eventTime"]["watermark"]
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def test_append(job: Job) -> None:
    values = job.feed()
    job.start(counts(values.read()))
    assert job.step(values, 10, 11, 12, 13, 14, 15) == []
    assert job.step(values, 25) == [(10, 5)]
    assert job.states("numRowsTotal")[-1] == 2
    assert job.step(values, 10) == []  # less than the watermark, 15
    assert job.states("numRowsTotal")[-1] == 2
    assert job.states("numRowsDroppedByWatermark")[-1] == 1


def test_a_batch_without_data_emits_what_the_watermark_closed(job: Job) -> None:
    values = job.feed()
    job.start(counts(values.read()))
    job.step(values, 10, 15)
    job.step(values, 25)
    assert job.batches == [(0, []), (1, []), (2, []), (3, [(10, 1)])]


def test_without_no_data_batches_windows_wait_for_the_next_rows(job: Job) -> None:
    job.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    values = job.feed()
    job.start(counts(values.read()))
    assert job.step(values, 10, 11, 12, 13, 14, 15) == []
    assert job.step(values, 25) == []
    assert job.step(values, 25) == [(10, 5)]
    assert [batch for batch, _ in job.batches] == [0, 1, 2]


def test_rows_are_late_by_the_watermark_of_the_batch_before(job: Job) -> None:
    job.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    values = job.feed()
    job.start(counts(values.read()))
    job.step(values, 30)  # the watermark will be 20
    # This batch evicts by 20, but drops by the watermark of the batch before, 0.
    assert job.step(values, 12, 31) == [(10, 1)]
    assert job.step(values, 12, 31) == []  # dropped now
    assert job.states("numRowsDroppedByWatermark") == [0, 0, 1]


def test_a_row_at_the_end_of_a_window_is_not_in_it(job: Job) -> None:
    values = job.feed()
    job.start(counts(values.read(), "0 seconds"))
    assert job.step(values, 10, 14) == []
    assert job.step(values, 15) == [(10, 2)]
    assert job.step(values, 14, 15) == []
    assert job.step(values, 20) == [(15, 2)]


def test_the_watermark_does_not_go_back(job: Job) -> None:
    values = job.feed()
    job.start(counts(values.read()))
    job.step(values, 30)
    assert watermark(job) == 20
    job.step(values, 22)
    assert watermark(job) == 20
    assert job.step(values, 40) == [(20, 1)]


def test_event_time_figures(job: Job) -> None:
    values = job.feed()
    job.start(counts(values.read()))
    job.step(values, 15)
    job.step(values, 10, 12, 14)
    job.step(values, 25)
    found = [p["eventTime"] for p in job.query.recentProgress if p["numInputRows"]]
    seconds = [
        {name: datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() for name, text in figures.items()}
        for figures in found
    ]
    assert seconds[0] == {"max": 15, "min": 15, "avg": 15, "watermark": 0}
    assert seconds[1] == {"max": 14, "min": 10, "avg": 12, "watermark": 5}
    assert seconds[2] == {"max": 25, "min": 25, "avg": 25, "watermark": 5}


def test_recovery(job: Job) -> None:
    values = job.feed()
    query = counts(values.read())
    job.start(query)
    assert job.step(values, 10, 11, 12, 13, 14, 15) == []
    assert job.step(values, 25) == [(10, 5)]
    job.stop()
    job.start(counts(values.read()))
    assert job.step(values, 10, 20) == []  # 10 is late by the watermark that was recovered
    job.stop()
    job.start(counts(values.read()))
    assert job.step(values, 30) == [(15, 1)]
    assert job.step(values, 45) == [(20, 1), (25, 1), (30, 1)]


def test_a_window_that_closed_while_the_query_was_stopped(job: Job) -> None:
    job.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    values = job.feed()
    job.start(counts(values.read()))
    job.step(values, 10, 11)
    job.step(values, 30)
    job.stop()
    job.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    job.start(counts(values.read()))
    assert job.step(values, 31) == [(10, 2)]


@pytest.mark.parametrize(("delay", "first"), [("1 month", 31), ("2 years 5 months", 29 * 31)])
def test_delay_in_months_and_years(job: Job, delay: str, first: int) -> None:
    """Spark counts a month of a delay as 31 days."""
    values = job.feed()
    job.start(counts(values.read(), delay))
    day = 24 * 3600
    start = 20_000 * day
    assert job.step(values, start) == []
    # Months of a delay are of 31 days, and the twelve of a year as well.
    assert job.step(values, start + first * day + 4) == []
    assert job.step(values, start + first * day + 5) == [(start, 1)]


def test_null_event_times(job: Job) -> None:
    values = job.feed()
    job.start(counts(values.read()))
    assert job.step(values, None, 10, None) == []
    assert job.step(values, None) == []
    assert job.step(values, 25, None) == [(10, 1)]


def test_event_times_before_1970_are_late_at_once(job: Job) -> None:
    values = job.feed()
    job.start(counts(values.read()))
    assert job.step(values, -10, -3, 1) == []
    assert job.step(values, 30) == [(0, 1)]


def test_empty_batches_do_not_move_the_watermark(job: Job) -> None:
    values = job.feed()
    job.start(counts(values.read()))
    job.step(values, 10, 25)
    assert watermark(job) == 15
    assert job.step(values) == []
    assert watermark(job) == 15
    assert job.step(values, 30) == []
    assert watermark(job) == 20


def test_alias_of_the_window_keeps_the_watermark(job: Job) -> None:
    values = job.feed()
    rows = timed(values.read(), "10 seconds").select(F.window("time", "5 seconds").alias("other"), "value")
    job.start(rows.groupBy("other").agg(F.count("*")).select(F.col("other.start").cast("long"), "count(1)"))
    job.step(values, 10, 11)
    assert job.step(values, 25) == [(10, 2)]


def test_sliding_windows(job: Job) -> None:
    values = job.feed()
    window = F.window("time", "10 seconds", "5 seconds").alias("window")
    counted = timed(values.read(), "10 seconds").groupBy(window).count()
    job.start(counted.select(F.col("window.start").cast("long"), "count"))
    assert job.step(values, 11, 12, 17) == []
    assert job.step(values, 25) == [(5, 2)]
    assert job.step(values, 12, 17) == []  # [10, 20) still counts both, [5, 15) has closed
    assert job.step(values, 30) == [(10, 5)]


def test_group_by_window_and_its_end(job: Job) -> None:
    values = job.feed()
    counted = timed(values.read(), "10 seconds").groupBy(five(), (F.col("value") % 2).alias("odd")).count()
    job.start(counted.select(F.col("window.end").cast("long"), "odd", "count"))
    job.step(values, 10, 11, 12)
    assert job.step(values, 25) == [(15, 0, 2), (15, 1, 1)]


@pytest.mark.parametrize("policy", ["min", "max"])
def test_two_streams(job: Job, policy: str) -> None:
    job.spark.conf.set(WATERMARK, policy)
    first, second = job.feed(), job.feed()
    rows = timed(first.read(), "10 seconds").union(timed(second.read(), "5 seconds"))
    counted = rows.groupBy(five()).count().select(F.col("window.start").cast("long"), "count")
    job.start(counted)
    assert job.step(first, 10, 11) == []
    assert watermark(job) == (1 if policy == "max" else 0)
    emitted = job.step(second, 40)  # 35 of its own
    if policy == "max":
        assert watermark(job) == 35
        assert emitted == [(10, 2)]
        assert job.step(first, 30, 36) == []  # 30 is late
        assert job.step(second, 50) == [(35, 1), (40, 1)]
    else:
        assert watermark(job) == 1
        assert emitted == []
        assert job.step(first, 12, 30) == [(10, 3)]
        assert watermark(job) == 20


def test_the_policy_of_the_checkpoint_stays(job: Job) -> None:
    job.spark.conf.set(WATERMARK, "max")
    first, second = job.feed(), job.feed()

    def start() -> None:
        rows = timed(first.read(), "10 seconds").union(timed(second.read(), "5 seconds"))
        job.start(rows.groupBy(five()).count().select(F.col("window.start").cast("long"), "count"))

    start()
    job.step(first, 10)
    assert job.step(second, 40) == [(10, 1)]
    job.stop()
    job.spark.conf.set(WATERMARK, "min")
    start()
    assert job.step(second, 60) == [(40, 1)]
    assert watermark(job) == 55


def test_a_column_with_its_own_timestamps(job: Job) -> None:
    rows = job.feed(time="timestamp", k="string")
    counted = rows.read().withWatermark("time", "2 seconds").groupBy(five(), "k").count()
    job.start(counted.select(F.col("window.start").cast("long"), "k", "count"))

    def at(second: float) -> datetime:
        return datetime.fromtimestamp(second, UTC)

    assert job.step(rows, (at(100.5), "a"), (at(104.999999), "a"), (at(105), None)) == []
    assert job.step(rows, (at(106.999), "b")) == []
    assert job.step(rows, (at(107), "b")) == [(100, "a", 2)]
    assert job.step(rows, (at(104.999999), "a"), (at(112), "b")) == [(105, "b", 2), (105, None, 1)]
