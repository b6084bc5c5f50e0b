"""SQL over the state of a query that runs: groups a second, and what the query's micro-batches take meanwhile.

The query counts and sums by key, over all time. Tasks of its own application read its state again and again by its id,
and then those of another application by its checkpoint; which they do once more when the query has ended.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from eval.bars import Bar
from eval.history.beside import Ask, beside, within
from eval.history.setting import Setting
from eval.history.trickle import A_FILE, Trickle, batches_table, drained, micro_batches, p99_bar, running, watched
from eval.one_session import session
from eval.session import say
from eval.workloads.base import EPOCH_US, timestamps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PRELOADED_FILES = 8
LEAST_RATE, MOST_P99 = 2_000_000, 1.2
# Without a pool of their own, reads have all tasks' slots until they are done.
FAIR, POOL = {"spark.scheduler.mode": "FAIR"}, "reads"
SAME, OTHER, ALONE = "same application", "another application", "another application, no query"


def grouped(rows: DataFrame) -> DataFrame:
    """The query."""
    from pyspark.sql import functions as F

    return rows.groupBy("key").agg(F.count("*").alias("count"), F.sum("value").alias("sum"))


def measure(setting: Setting) -> dict[str, Any]:
    """Seconds of reads, micro-batches before and meanwhile, and whether each read had the right count and sum."""
    say(f"state: a query with {setting.groups:,} groups")
    trickle = filled(setting)
    checkpoint = setting.folder / "checkpoint"
    with beside("history", setting.conf, setting.nice) as other:
        spark = session("history", FAIR | setting.conf)
        try:
            writer = grouped(trickle.stream(spark)).writeStream.format("noop")
            with running(writer, checkpoint, trickle) as query:
                spans = {"before": watched(query, setting.seconds)}
                places = {SAME: (within(spark), "query", str(query.id)), OTHER: (other.ask, "path", str(checkpoint))}
                reads: dict[str, list[dict[str, Any]]] = {}
                for place, where in places.items():
                    began = time.time()
                    reads[place] = read_again_and_again(setting.seconds, *where)
                    spans[place] = began, time.time()
                    say(f"{len(reads[place])} reads in {place}")
                trickle.stop()
                drained(query, trickle)
                last = scan(spark, "query", str(query.id))
                entries = query.recentProgress
        finally:
            spark.stop()
        reads[ALONE] = read_again_and_again(setting.seconds, other.ask, "path", str(checkpoint))
    seconds = {place: [one["seconds"] for one in found[1:]] for place, found in reads.items()}
    return {
        "groups": setting.groups,
        "nice": setting.nice,
        "micro_batches": {phase: micro_batches(entries, *span) for phase, span in spans.items()},
        "read_seconds": seconds,
        "rows_a_second": {place: setting.groups / statistics.median(took) for place, took in seconds.items()},
        **checked(reads, last, setting.groups, trickle),
    }


def filled(setting: Setting) -> Trickle:
    """A row of each group at first, and then some of any."""
    trickle = Trickle(setting.folder / "stream", lambda number: _some(number, setting.groups))
    for part in np.array_split(np.arange(setting.groups), PRELOADED_FILES):
        trickle.add(_ones(part))
    return trickle


def read_again_and_again(seconds: float, ask: Ask, option: str, value: str) -> list[dict[str, Any]]:
    """Whole reads of the state: the first one warms up, another one at least counts."""
    reads = [ask(scan, option, value)]
    deadline = time.monotonic() + seconds
    while len(reads) == 1 or time.monotonic() < deadline:
        reads.append(ask(scan, option, value))
    return reads


def scan(spark: SparkSession, option: str, value: str) -> dict[str, Any]:
    """All groups, counted, and the sum of their sums."""
    import pyslash

    pyslash.register_state(spark)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
    began = time.perf_counter()
    state = spark.read.format("slash-state").option(option, value).load()
    [[groups, total]] = state.selectExpr("count(*)", "sum(`sum(value)`)").collect()
    return {"groups": groups, "sum": total, "seconds": time.perf_counter() - began}


def checked(
    reads: dict[str, list[dict[str, Any]]], last: dict[str, Any], groups: int, trickle: Trickle
) -> dict[str, Any]:
    """Whether each read is of a version of the state, which has whole files alone, and the last one of all rows."""

    def is_right(read: dict[str, Any]) -> bool:
        total = read["sum"]
        return bool(read["groups"] == groups <= total <= trickle.written_rows and (total - groups) % A_FILE == 0)

    wrong = [one for found in reads.values() for one in found if not is_right(one)]
    is_whole = (last["groups"], last["sum"]) == (groups, trickle.written_rows)
    return {"wrong_reads": wrong, "last": last, "correct": not wrong and is_whole}


def _some(number: int, groups: int) -> pa.Table:
    return _ones(np.random.default_rng([3, number]).integers(0, groups, A_FILE))


def _ones(keys: np.ndarray) -> pa.Table:
    size = len(keys)
    return pa.table({"ts": timestamps(np.full(size, EPOCH_US)), "key": keys, "value": np.ones(size, np.int64)})


def bars(found: dict[str, Any]) -> list[Bar]:
    """Groups a second and the micro-batches, of both applications; count and sum."""
    judged = []
    phases = found["micro_batches"]
    for place in (SAME, OTHER):
        rate = found["rows_a_second"][place]
        what = f"groups/s of a read, {place}"
        judged.append(Bar(what, f"{rate / 1e6:.2f} M", f">= {LEAST_RATE / 1e6:g} M", rate >= LEAST_RATE))
        what = f"p99 of micro-batches beside reads, {place}"
        judged.append(p99_bar(what, phases["before"], phases[place], MOST_P99))
    judged.append(Bar("counts and sums of reads are right", str(found["correct"]), "True", found["correct"]))
    return judged


def table(found: dict[str, Any]) -> str:
    """Rates and micro-batches."""
    lines = [f"\nstate of {found['groups']:,} groups; the other application has nice {found['nice']}"]
    for place, seconds in found["read_seconds"].items():
        middle, rate = statistics.median(seconds), found["rows_a_second"][place] / 1e6
        lines.append(f"  {place:30}{len(seconds):4} reads, {middle:6.2f} s, {rate:6.2f} M groups/s")
    return "\n".join([*lines, batches_table(found["micro_batches"])])
