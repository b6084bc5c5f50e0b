"""What could give other rows than Spark without a word: batches that come back otherwise, the batch's time, repairs."""

from __future__ import annotations

import json
import shutil
import time
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from pyslash.errors import CheckpointError
from pyslash.spark.session import changed
from pyslash.state import durable
from pyslash.state.manifest import ManifestLog
from tests.support.attempt import BATCHES, add, attempt, make_stream, settings
from tests.support.stream import EPOCH, Make

MODES = ["off", "require"]
LAST = [(1300, "a", 1)]


def sums(df: DataFrame) -> DataFrame:
    return df.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("s"))


def forget(checkpoint: Path, log: str, first: int) -> None:
    """Delete the entries of one of Spark's logs from a batch on."""
    for path in (checkpoint / log).iterdir():
        number = path.name.removeprefix(".").removesuffix(".crc")
        if number.isdigit() and int(number) >= first:
            path.unlink()


# A batch id that comes back with other offsets.


@pytest.mark.parametrize("first", [0, 2])
def test_a_checkpoint_rewound_by_hand_goes_on_as_sparks_does(spark: SparkSession, tmp_path: Path, first: int) -> None:
    stream = make_stream(spark, tmp_path, BATCHES[:3])
    for mode in MODES:
        attempt(sums(stream.read()), tmp_path / mode, mode)
        for log in ("offsets", "commits"):
            forget(tmp_path / mode, log, first)
    add(stream, BATCHES[3])
    add(stream, LAST)
    # Spark 4.3 would not begin at all where another log is left.
    with changed(spark, {"spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false"}):
        expected, found = (attempt(sums(stream.read()), tmp_path / mode, mode) for mode in MODES)
    assert found.batches == expected.batches != []
    assert found.watermarks == expected.watermarks


def test_a_rewound_checkpoint_is_left_to_spark_where_no_run_can_begin(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise CheckpointError("the store does not answer")

    stream = make_stream(spark, tmp_path, BATCHES[:2])
    for mode in MODES:
        assert attempt(sums(stream.read()), tmp_path / mode, mode).error is None
        for log in ("offsets", "commits"):
            forget(tmp_path / mode, log, 0)
    add(stream, BATCHES[3])
    monkeypatch.setattr(ManifestLog, "take_over", fail)
    with changed(spark, {"spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false"}):
        expected = attempt(sums(stream.read()), tmp_path / "off", "off")
        found = attempt(sums(stream.read()), tmp_path / "require", "auto")
    assert found.batches == expected.batches != []
    assert not found.ran_on_pyslash
    assert list((tmp_path / "require/slash/manifests").iterdir()) == []


@pytest.mark.parametrize("behind", [1, 2])
def test_a_backup_that_is_older_than_the_state(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    """Spark computes the batches that it knows nothing of again, and so does pyslash while it has the state before."""
    monkeypatch.setattr(durable, "KEPT_SECONDS", 0)
    stream = make_stream(spark, tmp_path, BATCHES[:2])
    checkpoints = {mode: tmp_path / mode for mode in MODES}
    for mode, checkpoint in checkpoints.items():
        attempt(sums(stream.read()), checkpoint, mode)
        shutil.copytree(checkpoint, tmp_path / f"{mode}-backup")
    done = len(list((checkpoints["require"] / "commits").glob("[0-9]*")))
    for rows in BATCHES[2 : 2 + behind]:
        add(stream, rows)
    for mode, checkpoint in checkpoints.items():
        attempt(sums(stream.read()), checkpoint, mode, fail_in=done + behind - 1)
        if mode == "require":
            shutil.copytree(checkpoint / "slash", tmp_path / "newer")
            assert max(int(path.name) for path in (tmp_path / "newer/manifests").iterdir()) == done + behind - 1
        shutil.rmtree(checkpoint)
        shutil.copytree(tmp_path / f"{mode}-backup", checkpoint)
    shutil.rmtree(checkpoints["require"] / "slash")
    shutil.copytree(tmp_path / "newer", checkpoints["require"] / "slash")
    add(stream, LAST)
    expected = attempt(sums(stream.read()), checkpoints["off"], "off")
    found = attempt(sums(stream.read()), checkpoints["require"])
    if behind == 1:
        assert found.batches == expected.batches != []
    else:
        assert "files of the state as of then are gone" in str(found.error)
        assert found.batches == []


@pytest.mark.always
def test_a_lost_offset_log_entry_is_written_again_with_the_files_that_are_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = make_stream(spark, tmp_path, BATCHES[:3])
    for mode in MODES:
        attempt(sums(stream.read()), tmp_path / mode, mode, fail_in=2)
        forget(tmp_path / mode, "offsets", 2)
    add(stream, BATCHES[3])
    expected, found = (attempt(sums(stream.read()), tmp_path / mode, mode) for mode in MODES)
    assert found.batches == expected.batches != []


def test_a_lost_offset_log_entry_of_the_same_rows_is_written_again(spark: SparkSession, tmp_path: Path) -> None:
    stream = make_stream(spark, tmp_path, BATCHES[:3])
    failed = attempt(sums(stream.read()), tmp_path / "c", fail_in=2)
    forget(tmp_path / "c", "offsets", 2)
    again = attempt(sums(stream.read()), tmp_path / "c")
    assert again.batches[0] == failed.batches[-1] != []


# The time of the batch.


def test_the_current_time_is_that_of_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    stream = make_stream(spark, tmp_path, BATCHES)
    rows = stream.read().where(F.col("ts") < F.current_timestamp()).withColumn("below", F.current_timestamp())
    grouped = rows.groupBy(F.window("ts", "10 seconds"), "k").agg(
        F.min("below").alias("low"), F.max("below").alias("up")
    )
    grouped = grouped.select(
        "window", "k", "low", "up", F.current_timestamp().alias("above"), F.current_date().alias("day")
    )
    checkpoint, reads = tmp_path / "c", []

    def run(fail_in: int | None) -> None:
        def take(rows: DataFrame, epoch: int) -> None:
            for _ in range(2):
                reads.append((epoch, sorted(rows.collect())))
                time.sleep(0.02)  # a clock that is not the batch's would go on
            if epoch == fail_in:
                raise RuntimeError("the sink is out of order")

        writer = grouped.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
        query = writer.trigger(availableNow=True).start()
        with nullcontext() if fail_in is None else pytest.raises(StreamingQueryException, match="out of order"):
            query.awaitTermination(900)

    with settings(spark, {"spark.slash.mode": "require"}):
        run(fail_in=2)
        run(fail_in=None)
    times = [batch_time(checkpoint, batch) for batch in range(len(BATCHES))]
    by_batch: dict[int, list[list[Row]]] = {}
    for epoch, found in reads:
        by_batch.setdefault(epoch, []).append(found)
    assert len(by_batch[2]) == 4
    for epoch, several in by_batch.items():
        assert all(found == several[0] for found in several)
        now = batch_time(checkpoint, epoch)
        for row in several[0]:
            assert row.above.astimezone(UTC) == now
            assert row.day == now.date()
    first = next(row for row in by_batch[2][0] if row.k == "a" and row.window.start.astimezone(UTC) == at(1000))
    assert (first.low.astimezone(UTC), first.up.astimezone(UTC)) == (times[0], times[1])


def at(second: int) -> datetime:
    return EPOCH + timedelta(seconds=second)


def batch_time(checkpoint: Path, batch: int) -> datetime:
    metadata = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[1])
    return EPOCH + timedelta(milliseconds=metadata["batchTimestampMs"])


# Filters above the aggregation, which Spark's optimizer may move below the watermark.


def having(df: DataFrame) -> DataFrame:
    df.createOrReplaceTempView("events")
    text = "SELECT window(ts, '10 seconds') w, k, sum(v) s FROM events GROUP BY 1, k HAVING k = 'a' AND s > 1"
    return df.sparkSession.sql(text)


def from_second(df: DataFrame, slide: str) -> DataFrame:
    df = df.groupBy(F.window("ts", "10 seconds", slide), "k").agg(F.sum("v"))
    return df.where(F.unix_seconds("window.start") >= 1005)


@pytest.mark.parametrize(
    "make",
    [
        lambda df: sums(df).where("k = 'a'"),
        having,
        lambda df: from_second(df, "10 seconds"),
        lambda df: from_second(df, "5 seconds"),
        lambda df: sums(df).where("k = 'a' and window.end > timestamp_seconds(1015)"),
    ],
    ids=["key", "having", "tumbling", "sliding", "both"],
)
def test_a_filter_above(spark: SparkSession, tmp_path: Path, make: Make) -> None:
    stream = make_stream(spark, tmp_path, BATCHES)
    expected, found = (attempt(make(stream.read()), tmp_path / mode, mode) for mode in MODES)
    assert found.batches == expected.batches
    assert found.watermarks == expected.watermarks
    assert any(rows for _, rows in found.batches)


# A batch that has failed, and the job was repaired.

BIG = 1 << 62
# The third batch's row is of a window that closes in that batch.
OVERFLOW = [[(1005, "a", BIG)], [(1100, "b", 1)], [(1006, "a", BIG)], LAST]


def bad(values: list[int]) -> Make:
    def make(df: DataFrame) -> DataFrame:
        function = F.udf(lambda value: None if value in values else value, "bigint")
        return sums(df.withColumn("v", function("v")))

    return make


def quotient(df: DataFrame) -> DataFrame:
    return sums(df).select("window", "k", F.col("s") / (F.col("s") - 37))


def repaired_quotient(df: DataFrame) -> DataFrame:
    return sums(df).select("window", "k", F.col("s") / (F.col("s") - 36))


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (sums, lambda df: sums(df.where("v <> 64 and v <> 2"))),
        (lambda df: sums(df.withColumn("v", F.col("v") + 1)), lambda df: sums(df.withColumn("v", F.col("v") - 1))),
        (bad([1, 512]), bad([2, 64])),
    ],
    ids=["filter", "expression", "function"],
)
def test_a_batch_that_failed_behind_its_manifest_is_computed_by_the_repaired_job(
    spark: SparkSession, tmp_path: Path, before: Make, after: Make, batch: int
) -> None:
    stream = make_stream(spark, tmp_path, BATCHES)
    results = []
    for mode in MODES:
        failed = attempt(before(stream.read()), tmp_path / mode, mode, fail_in=batch)
        assert failed.batches[-1][0] == batch
        # An expression that an aggregate reads is part of its name.
        repaired = attempt(after(stream.read()), tmp_path / mode, mode, plan_change="names")
        results.append((failed.batches, repaired.batches))
    assert results[1] == results[0]
    assert results[0][1][0][0] == batch


def test_a_division_by_zero_above_is_repaired(spark: SparkSession, tmp_path: Path) -> None:
    stream = make_stream(spark, tmp_path, BATCHES)
    results = []
    for mode in MODES:
        with settings(spark, {"spark.sql.ansi.enabled": "true"}):
            failed = attempt(quotient(stream.read()), tmp_path / mode, mode)
            assert "DIVIDE_BY_ZERO" in str(failed.error)
            results.append((failed.batches, attempt(repaired_quotient(stream.read()), tmp_path / mode, mode).batches))
    assert results[1] == results[0]
    assert any(rows for _, rows in results[0][1])


def test_an_overflow_is_repaired_by_a_filter_below(spark: SparkSession, tmp_path: Path) -> None:
    """Spark adds when rows come, pyslash when the window closes: here in the same batch."""
    stream = make_stream(spark, tmp_path, OVERFLOW)
    results = []
    for mode in MODES:
        with settings(spark, {"spark.sql.ansi.enabled": "true"}):
            failed = attempt(sums(stream.read()), tmp_path / mode, mode)
            assert "ARITHMETIC_OVERFLOW" in str(failed.error) or "ArithmeticOverflowError" in str(failed.error)
            repaired = sums(stream.read().where("ts <> timestamp_seconds(1006)"))
            results.append((failed.batches, attempt(repaired, tmp_path / mode, mode).batches))
    assert results[1] == results[0]
    assert any(rows for _, rows in results[0][1])


@pytest.mark.parametrize("durability", ["off", "replica"])
def test_a_repair_of_state_that_is_in_memory_alone(spark: SparkSession, tmp_path: Path, durability: str) -> None:
    """The first batch needs no state from before; a later one's is that of the failed attempt."""
    stream = make_stream(spark, tmp_path, BATCHES)
    repaired = sums(stream.read().where("v <> 2"))
    expected = [attempt(repaired, tmp_path / "spark", "off").batches]
    attempt(sums(stream.read()), tmp_path / "first", fail_in=0, durability=durability)
    first = attempt(repaired, tmp_path / "first", durability=durability)
    assert [first.batches] == expected
    assert first.ran_on_pyslash
    attempt(sums(stream.read()), tmp_path / "later", fail_in=2, durability=durability)
    refused = attempt(repaired, tmp_path / "later", durability=durability)
    assert refused.batches == []
    assert "StateLostError" in str(refused.error)
    assert "Finish the batch with the query as it was" in str(refused.error)


# What may be changed between two runs.


def delayed(seconds: int) -> Make:
    """Sums of a stream of this delay."""
    return lambda df: sums(df.withWatermark("ts", f"{seconds} seconds"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (delayed(10), delayed(30)),
        (delayed(30), delayed(10)),
        (delayed(10), lambda df: delayed(10)(df.where("v <> 256"))),
        (lambda df: delayed(10)(df).where("s > 1"), lambda df: delayed(10)(df).select("window", F.col("s") * 2)),
    ],
    ids=["delay up", "delay down", "filter", "projection"],
)
def test_what_spark_lets_change_may_change(spark: SparkSession, tmp_path: Path, before: Make, after: Make) -> None:
    results = []
    for mode in MODES:
        folder = tmp_path / f"{mode}-data"
        stream = make_stream(spark, folder, BATCHES[:2])
        raw = spark.readStream.schema(stream.read().schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        first = attempt(before(raw), tmp_path / mode, mode)
        for rows in [*BATCHES[2:], LAST]:
            add(stream, rows)
        second = attempt(after(raw), tmp_path / mode, mode)
        results.append((first.batches, first.watermarks, second.batches, second.watermarks))
    assert results[1] == results[0]
    assert any(rows for _, rows in results[0][2])


def test_another_event_time_is_refused_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    stream = make_stream(spark, tmp_path, BATCHES[:2])
    attempt(sums(stream.read()), tmp_path / "c")
    add(stream, BATCHES[2])
    raw = (
        spark.readStream.schema(stream.read().schema).parquet(str(tmp_path / "in")).withWatermark("other", "10 seconds")
    )
    other = raw.groupBy(F.window("other", "10 seconds"), "k").agg(F.sum("v").alias("s"))
    refused = attempt(other, tmp_path / "c")
    assert "PlanMismatchError" in str(refused.error)
    assert "the event time: ts -> other" in str(refused.error)
    assert refused.batches == []
