"""A backfill into a query that runs: its rate over Spark's batch, and what the query's micro-batches take meanwhile.

The query counts, sums and takes maxima by key and window of ten minutes, in update mode. The history ends in the window
in which the stream begins, so some groups have rows of both. After the backfill each row that the query emits is kept,
and a last file has each group of the stream; so the last row of each group can be compared with Spark's batch over all.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from eval.bars import Bar
from eval.history.beside import Beside, beside, within
from eval.history.setting import Setting
from eval.history.trickle import (
    A_FILE,
    INTERVAL_SECONDS,
    Trickle,
    await_that,
    batches_table,
    drained,
    micro_batches,
    p99_bar,
    running,
    watched,
)
from eval.one_session import session
from eval.session import say
from eval.workloads import Aggregate
from eval.workloads.base import EPOCH_US, timestamps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "history"
WINDOW_US = 600_000_000
ROWS_A_SECOND = 10_000  # of event time
WATERMARK, MOST_SPAN_SECONDS = "1 day", 80_000.0  # so no window of the history is over
WARM_SHARE = 4  # a fourth of the files warms the batch's JVM
REPEATS = 2
LEAST_RATE, MOST_P99 = 0.8, 1.5


def grouped(rows: DataFrame) -> DataFrame:
    """The query, of a stream and of a batch."""
    from pyspark.sql import functions as F

    windows = rows.withWatermark("ts", WATERMARK).groupBy(F.window("ts", "10 minutes"), "key")
    return windows.agg(F.count("*").alias("count"), F.sum("value").alias("sum"), F.max("value").alias("max"))


def measure(setting: Setting) -> dict[str, Any]:
    """Seconds of batches and of the backfill, micro-batches before and meanwhile, and whether all rows are right."""
    span_s = min(MOST_SPAN_SECONDS, setting.rows / ROWS_A_SECOND)
    say(f"backfill: writing {setting.rows:,} rows of {setting.keys:,} keys")
    workload = Aggregate(rows=setting.rows, keys=setting.keys, window_s=600, slide_s=600, span_s=span_s).rows_of
    history = str(workload.generate(setting.folder) / "rows")
    stream = _Stream(EPOCH_US + int(span_s * 1e6) // WINDOW_US * WINDOW_US, setting.keys)
    with beside("history", setting.conf, setting.nice) as other:
        other.ask(batch, history, WARM_SHARE)
        spans = [other.timed(other.ask, batch, history, 1) for _ in range(REPEATS)]
        alone = min((span.figures for span in spans), key=lambda figures: figures["seconds"])
        say(f"Spark's batch: {alone['seconds']:.1f} s; now the query")
        found = {"rows": setting.rows, "keys": setting.keys, "nice": setting.nice, "batch": alone}
        return found | _beside_the_query(setting, other, history, stream)


def _beside_the_query(setting: Setting, other: Beside, history: str, stream: _Stream) -> dict[str, Any]:
    checkpoint, emitted = setting.folder / "checkpoint", setting.folder / "emitted"
    trickle = Trickle(setting.folder / "stream", stream.rows)
    trickle.add(stream.rows(0))
    spark = session("history", setting.conf)
    try:
        sink = partial(_sink, checkpoint, emitted)
        with running(grouped(trickle.stream(spark)).writeStream.foreachBatch(sink), checkpoint, trickle) as query:
            before = watched(query, setting.seconds)
            with_batch = other.timed(other.ask, batch, history, 1)
            say(f"Spark's batch beside the query: {with_batch.figures['seconds']:.1f} s; now the backfill")
            ask = within(spark) if setting.same_application else other.ask
            during = other.timed(ask, backfill, history, str(checkpoint))
            say(f"the backfill: {during.figures['seconds']:.1f} s")
            await_that(query, lambda: _taking_epoch(checkpoint) in _epochs(query), "taken the backfill")
            taken_at = time.time()
            trickle.stop()
            trickle.add(stream.every_group(trickle.files))
            drained(query, trickle)
            entries = query.recentProgress
    finally:
        spark.stop()
    taking = next(entry for entry in entries if entry["batchId"] == _taking_epoch(checkpoint))
    others = [entry for entry in entries if entry is not taking]  # the call may end while the query takes the groups
    say("comparing all groups with Spark's batch over history and stream")
    groups, differ = other.ask(compare, str(emitted), [history, *trickle.folders])
    return {
        "same_application": setting.same_application,
        "batch_beside": with_batch.figures,
        "backfill": during.figures,
        "taken_after_seconds": taken_at - during.ended,
        "taking_batch_ms": taking["durationMs"]["triggerExecution"],
        "before": micro_batches(entries, *before),
        "beside_batch": micro_batches(entries, with_batch.began, with_batch.ended),
        "beside_backfill": micro_batches(others, during.began, during.ended),
        "groups": groups,
        "groups_that_differ": differ,
        "correct": groups > 0 and differ == 0,
    }


def batch(spark: SparkSession, history: str, share: int) -> None:
    """Spark's batch over the files, or a part of them."""
    files = sorted(str(path) for path in Path(history).glob("*.parquet"))
    rows = spark.read.parquet(*files[: -(-len(files) // share)])
    grouped(rows).write.format("noop").mode("overwrite").save()


def backfill(spark: SparkSession, history: str, checkpoint: str) -> None:
    """Of all files."""
    import pyslash

    rows = spark.readStream.schema("ts timestamp, key bigint, value bigint").parquet(history)
    pyslash.backfill(grouped(rows), checkpoint, NAME)


def compare(spark: SparkSession, emitted: str, sources: list[str]) -> tuple[int, int]:
    """How many groups there are, and of how many the row that was emitted last is not that of Spark's batch."""
    from pyspark.sql import functions as F

    rows = spark.read.schema("ts timestamp, key bigint, value bigint").option("recursiveFileLookup", "true")
    values = F.struct("count", "sum", "max")
    expected = grouped(rows.parquet(*sources)).select("window.start", "key", values.alias("expected"))
    kept = spark.read.parquet(emitted)
    last = kept.groupBy("window.start", "key").agg(F.max_by(values, "epoch").alias("emitted"))
    both = expected.join(last, ["start", "key"], "full_outer")
    wrong = F.count_if(~F.col("expected").eqNullSafe(F.col("emitted")))
    [[groups, differ]] = both.agg(F.count("*"), wrong).collect()
    return int(groups), int(differ)


class _Stream:
    """Rows of the query's own stream: event time goes on as fast as time does."""

    def __init__(self, begin_us: int, keys: int) -> None:
        self._begin_us, self._keys = begin_us, keys

    def rows(self, number: int) -> pa.Table:
        generator = np.random.default_rng([2, number])
        times = self._at(number) + generator.integers(0, int(INTERVAL_SECONDS * 1e6), A_FILE)
        keys = generator.integers(0, self._keys, A_FILE)
        return self._table(times, keys, generator.integers(-1_000_000, 1_000_000, A_FILE))

    def every_group(self, files: int) -> pa.Table:
        """A row of each key in each window that so many files may have rows of."""
        windows = np.arange(self._begin_us, self._at(files) + 1, WINDOW_US)
        times, keys = np.repeat(windows, self._keys), np.tile(np.arange(self._keys), len(windows))
        return self._table(times, keys, np.zeros(len(keys), np.int64))

    def _at(self, number: int) -> int:
        return self._begin_us + int(number * INTERVAL_SECONDS * 1e6)

    def _table(self, times: np.ndarray, keys: np.ndarray, values: np.ndarray) -> pa.Table:
        return pa.table({"ts": timestamps(times), "key": keys, "value": values})


def _sink(checkpoint: Path, emitted: Path, rows: DataFrame, epoch: int) -> None:
    """Spark's noop sink, until there is a backfill: from then on rows are kept."""
    from pyspark.sql import functions as F

    if _folder(checkpoint).exists():
        rows.withColumn("epoch", F.lit(epoch)).write.mode("append").parquet(str(emitted))
    else:
        rows.write.format("noop").mode("overwrite").save()


def _folder(checkpoint: Path) -> Path:
    from pyslash.state.backfill import BACKFILLS

    return checkpoint / BACKFILLS / NAME


def _taking_epoch(checkpoint: Path) -> int | None:
    """The epoch that takes the backfill, once that is known.

    Raises:
        RuntimeError: the query refuses it.
    """
    refused = _folder(checkpoint) / "refused"
    if refused.exists():
        raise RuntimeError(f"the query does not take the backfill: {refused.read_text()}")
    return next((int(path.name.split("-")[0]) for path in (_folder(checkpoint) / "taken").glob("[0-9]*")), None)


def _epochs(query: Any) -> set[int]:
    return {entry["batchId"] for entry in query.recentProgress}


def bars(found: dict[str, Any]) -> list[Bar]:
    """Two rates, of a machine that is the batch's alone, and beside the query; and the micro-batches."""
    judged = []
    for name, of in (("alone", "batch"), ("beside the query", "batch_beside")):
        ratio = found[of]["seconds"] / found["backfill"]["seconds"]
        what = f"rows/s of a backfill over Spark's batch {name}"
        judged.append(Bar(what, f"{ratio:.2f}", f">= {LEAST_RATE}", ratio >= LEAST_RATE))
    judged.append(
        p99_bar("p99 of micro-batches beside a backfill", found["before"], found["beside_backfill"], MOST_P99)
    )
    differ = found["groups_that_differ"]
    judged.append(Bar("groups that differ after a backfill", f"{differ:,} of {found['groups']:,}", "0", differ == 0))
    return judged


def table(found: dict[str, Any]) -> str:
    """Rates and micro-batches."""
    where = "the query's application" if found["same_application"] else f"another application, nice {found['nice']}"
    lines = [f"\nbackfill of {found['rows']:,} rows, {found['groups']:,} groups in the end; in {where}"]
    for name, of in (
        ("Spark's batch, no query", "batch"),
        ("Spark's batch beside the query", "batch_beside"),
        ("pyslash.backfill beside the query", "backfill"),
    ):
        seconds, cpu = found[of]["seconds"], found[of]["cpu_seconds"]
        rate = found["rows"] / seconds / 1e6
        lines.append(
            f"  {name:40}{seconds:8.1f} s{rate:8.2f} M rows/s{cpu:8.1f} s of the other application's processor time"
        )
    phases = {
        "before": found["before"],
        "beside Spark's batch": found["beside_batch"],
        "beside the backfill": found["beside_backfill"],
    }
    taking = f"{found['taken_after_seconds']:.1f} s after the call, in a micro-batch of {found['taking_batch_ms']} ms"
    return "\n".join([*lines, batches_table(phases), f"the query has the groups {taking}"])
