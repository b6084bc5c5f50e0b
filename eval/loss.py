"""Applications with much state that lose an executor again and again, or start again on a checkpoint.

A hundred windows are open at any time; each micro-batch opens one and closes one, so that it has a result.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eval.workloads.base import EPOCH_US, timestamps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPEN_WINDOWS = 100
WINDOW_SECONDS = 10
PRELOADED_A_BATCH = 20
STEADY_BATCHES = 5
EXECUTORS = 2
RESULT_SECONDS = 300
LOOK_SECONDS = 0.05
DUMP_SECONDS = 2
# What an epoch's time goes to, as `pyslash.progress` has it.
PARTS = ("agents", "restore", "update", "checkpoint", "replica", "commit", "merge", "sink")


@dataclass
class Feed:
    """Files of `keys` rows a window, one window or more a file, and when the epoch of each reached the sink."""

    folder: Path
    keys: int
    windows: int = 0
    files: int = 0
    _seen: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, windows: int = 1) -> None:
        """One file, which is one micro-batch."""
        place = np.repeat(np.arange(self.windows, self.windows + windows), self.keys)
        rows = pa.table(
            {
                "ts": timestamps(EPOCH_US + place * WINDOW_SECONDS * 1_000_000),
                "key": np.tile(np.arange(self.keys), windows),
                "value": np.ones(self.keys * windows, np.int64),
            }
        )
        path = self.folder / f"{self.files:06d}.parquet"
        hidden = path.with_name("." + path.name)
        pq.write_table(rows, hidden, row_group_size=len(rows) // 4)
        hidden.rename(path)
        self.windows += windows
        self.files += 1

    def arrived(self, batch: DataFrame, epoch: int) -> None:
        """The sink: computes every row."""
        batch.write.format("noop").mode("overwrite").save()
        with self._changed:
            self._seen = epoch + 1
            self._changed.notify_all()

    def wait(self, query: Any) -> None:
        """Until the last file's epoch of the query has reached the sink.

        Raises:
            TimeoutError: it did not.
            RuntimeError: the query has ended, or has had more epochs than files, so that nothing was waited for.
        """
        deadline = time.monotonic() + RESULT_SECONDS
        with self._changed:
            while not self._changed.wait_for(lambda: self._seen >= self.files, 1):
                if not query.isActive:
                    raise RuntimeError(f"the query has ended in epoch {self._seen}: {query.exception()}")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"epoch {self.files - 1} had no result within {RESULT_SECONDS} s")
            if self._seen > self.files:
                raise RuntimeError(f"epoch {self._seen - 1} is of no file: there are {self.files}")


@dataclass(frozen=True)
class Setting:
    """What an application runs: groups of state, and conf.

    `stateless`: the same rows and sink without the aggregation, so that all there is to be measured is Spark's own.
    """

    folder: Path
    groups: int
    conf: dict[str, str]
    stateless: bool = False


def session(setting: Setting) -> SparkSession:
    """An application with two executors."""
    from pyspark.sql import SparkSession

    import pyslash

    builder = SparkSession.builder.master(f"local-cluster[{EXECUTORS},1,1024]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(setting.folder / "spark"),
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": str(EXECUTORS),
        "spark.sql.files.maxPartitionBytes": "1m",
        # One epoch a file, which is what a feed waits for.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.slash.mode": "off" if setting.stateless else "require",
        **setting.conf,
    }
    spark = builder.config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    pyslash.enable(spark)
    return spark


def query_of(spark: SparkSession, feed: Feed, setting: Setting) -> Any:
    """The stream, started."""
    from pyspark.sql import functions as F

    source = spark.readStream.schema("ts timestamp, key bigint, value bigint").option("maxFilesPerTrigger", 1)
    rows = source.parquet(str(feed.folder))
    result = rows
    if not setting.stateless:
        rows = rows.withWatermark("ts", f"{OPEN_WINDOWS * WINDOW_SECONDS} seconds")
        result = rows.groupBy(F.window("ts", f"{WINDOW_SECONDS} seconds"), "key").agg(F.sum("value"), F.count("*"))
    writer = result.writeStream.option("checkpointLocation", str(setting.folder / "checkpoint"))
    return writer.foreachBatch(feed.arrived).start()


def kill_an_executor(spark: SparkSession) -> None:
    """SIGKILL to the oldest child of the driver's JVM that is a JVM too: an executor."""
    from pyslash.protocol import process

    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    jvm = jvm_of(spark)
    executors = [pid for pid in pids if process.parent_of(pid) == jvm and process.is_java(pid)]
    # The one that runs for longest: it holds state, which one that has just been started does not.
    os.kill(min(executors, key=lambda pid: process.start_time(pid) or sys.maxsize), signal.SIGKILL)


def jvm_of(spark: SparkSession) -> int:
    """The pid of the driver's JVM."""
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]


@contextmanager
def told_when_stuck(spark: SparkSession) -> Iterator[None]:
    """Where every thread of the driver stands, Python's and the JVM's, on standard error if a result does not come."""
    try:
        yield
    except TimeoutError:
        faulthandler.dump_traceback(sys.stderr, all_threads=True)
        os.kill(jvm_of(spark), signal.SIGQUIT)
        time.sleep(DUMP_SECONDS)  # the JVM writes its dump by itself
        raise


class Replacement(threading.Thread):
    """Seconds until Spark has as many executors as before again, `seconds` once it is joined; Spark's part alone."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(daemon=True)
        self._executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus
        self._deadline = time.monotonic() + RESULT_SECONDS
        self.seconds: float | None = None

    def run(self) -> None:
        began, lost = time.perf_counter(), False
        while time.monotonic() < self._deadline:
            there = self._executors().size() - 1 == EXECUTORS  # the driver is among them
            if lost and there:
                self.seconds = time.perf_counter() - began
                return
            lost = lost or not there
            time.sleep(LOOK_SECONDS)


def one_batch(feed: Feed, query: Any) -> dict[str, Any]:
    """One more micro-batch: seconds to its result, and what they went to, in seconds too."""
    import pyslash

    began = time.perf_counter()
    feed.add()
    feed.wait(query)
    seconds = time.perf_counter() - began
    query.processAllAvailable()
    epochs = pyslash.progress(query)
    parts = {name: epochs[-1][f"{name}_ms"] / 1000 for name in PARTS} if epochs else {}
    counted = {name: epochs[-1][name] for name in ("recoveries", "promotions", "restored_files")} if epochs else {}
    return {"seconds": seconds, "parts": parts, **counted}


def lose_executors(answers: Connection, setting: Setting, repeats: int) -> None:
    """Build the state up, lose an executor again and again, and die.

    Sends (title, figures) of each batch as it comes, and at the end its feed's windows and files.
    """
    feed = Feed(setting.folder / "rows", setting.groups // OPEN_WINDOWS)
    for _ in range(OPEN_WINDOWS // PRELOADED_A_BATCH):
        feed.add(PRELOADED_A_BATCH)
    spark = session(setting)
    query = query_of(spark, feed, setting)
    with told_when_stuck(spark):
        feed.wait(query)
        for _ in range(STEADY_BATCHES):
            answers.send(("nothing lost", one_batch(feed, query)))
        for _ in range(repeats):
            replacement = Replacement(spark)
            replacement.start()
            kill_an_executor(spark)
            loss = one_batch(feed, query)
            replacement.join()
            answers.send(("executor lost", {**loss, "replaced_seconds": replacement.seconds}))
            one_batch(feed, query)  # the new executor has its agent, and replicas, from now on
    answers.send(("fed", (feed.windows, feed.files)))
    die(spark)


def restart(answers: Connection, setting: Setting, windows: int, files: int) -> None:
    """Another application on the same checkpoint: what its first batch took, and the start of Spark before it.

    Sends as `lose_executors` does.
    """
    import pyslash

    feed = Feed(setting.folder / "rows", setting.groups // OPEN_WINDOWS, windows, files)
    feed.add()
    began = time.perf_counter()
    spark = session(setting)
    started = time.perf_counter()
    query = query_of(spark, feed, setting)
    with told_when_stuck(spark):
        feed.wait(query)
        seconds = time.perf_counter() - started
        query.processAllAvailable()
    first = pyslash.progress(query)[0]
    parts = {name: first[f"{name}_ms"] / 1000 for name in PARTS}
    figures = {"seconds": seconds, "parts": parts, "restored_files": first["restored_files"]}
    answers.send(("driver started again", {**figures, "session_seconds": started - began}))
    answers.send(("fed", (feed.windows, feed.files)))
    die(spark)


def die(spark: SparkSession) -> None:
    """As a driver that is killed does: its JVM and its Python."""
    os.kill(jvm_of(spark), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
