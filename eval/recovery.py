"""How long a loss is felt: a stream with much state, whose executor is killed, and whose driver is started again.

    python -m eval.recovery [--groups 1000000] [--repeats 5] [--conf spark.slash.KEY=VALUE]

A hundred windows are open at any time; each micro-batch opens one and closes one, so that it has a result. A recovery
is the time from `kill -9` of one of two executors to the next result; a restart is a new application on the checkpoint.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
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
RESULT_SECONDS = 300
MASTER = "local-cluster[2,1,1024]"


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
            RuntimeError: the query has ended.
        """
        deadline = time.monotonic() + RESULT_SECONDS
        with self._changed:
            while not self._changed.wait_for(lambda: self._seen >= self.files, 1):
                if not query.isActive:
                    raise RuntimeError(f"the query has ended in epoch {self._seen}: {query.exception()}")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"epoch {self.files - 1} had no result within {RESULT_SECONDS} s")


def start(feed: Feed, checkpoint: Path, conf: dict[str, str]) -> tuple[SparkSession, Any]:
    """An application with two executors, and its query."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    import pyslash

    builder = SparkSession.builder.master(MASTER).config("spark.ui.enabled", "false")
    settings = {
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.files.maxPartitionBytes": "1m",
        "spark.slash.mode": "require",
        **conf,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    pyslash.enable(spark)
    source = spark.readStream.schema("ts timestamp, key bigint, value bigint").option("maxFilesPerTrigger", 1)
    rows = source.parquet(str(feed.folder)).withWatermark("ts", f"{OPEN_WINDOWS * WINDOW_SECONDS} seconds")
    result = rows.groupBy(F.window("ts", f"{WINDOW_SECONDS} seconds"), "key").agg(F.sum("value"), F.count("*"))
    writer = result.writeStream.option("checkpointLocation", str(checkpoint))
    return spark, writer.foreachBatch(feed.arrived).start()


def kill_an_executor(spark: SparkSession) -> None:
    """SIGKILL to the oldest child of the driver's JVM that is a JVM too: an executor."""
    from pyslash.agent import process

    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    executors = [pid for pid in pids if process.parent_of(pid) == jvm and process.is_java(pid)]
    # The one that runs for longest: it holds state, which one that has just been started does not.
    os.kill(min(executors, key=lambda pid: process.start_time(pid) or sys.maxsize), signal.SIGKILL)


def lose_executors(answers: Connection, folder: Path, groups: int, repeats: int, conf: dict[str, str]) -> None:
    """The first application: builds the state up, loses an executor again and again, and is killed itself."""
    feed = Feed(folder / "rows", groups // OPEN_WINDOWS)
    for _ in range(OPEN_WINDOWS // PRELOADED_A_BATCH):
        feed.add(PRELOADED_A_BATCH)
    spark, query = start(feed, folder / "checkpoint", conf)
    feed.wait(query)
    steady, recoveries = [], []
    for turn in range(STEADY_BATCHES + repeats):
        began = time.perf_counter()
        if turn >= STEADY_BATCHES:
            kill_an_executor(spark)
        feed.add()
        feed.wait(query)
        (steady if turn < STEADY_BATCHES else recoveries).append(time.perf_counter() - began)
    answers.send((steady, recoveries, feed.windows, feed.files))
    os.kill(int(spark._jvm.java.lang.ProcessHandle.current().pid()), signal.SIGKILL)  # type: ignore[union-attr]
    os.kill(os.getpid(), signal.SIGKILL)


def restart(answers: Connection, folder: Path, groups: int, windows: int, files: int, conf: dict[str, str]) -> None:
    """The second application, on the first one's checkpoint: milliseconds of the restore, seconds to a result."""
    import pyslash

    feed = Feed(folder / "rows", groups // OPEN_WINDOWS, windows, files)
    began = time.perf_counter()
    feed.add()
    spark, query = start(feed, folder / "checkpoint", conf)
    session = time.perf_counter()
    feed.wait(query)
    seconds = time.perf_counter() - began
    query.processAllAvailable()
    answers.send((pyslash.progress(query)[0]["restore_ms"], seconds, session - began))
    spark.stop()


def in_process(target: Any, *arguments: Any) -> Any:
    """What `target` sends from a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *arguments))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    finally:
        process.join()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m eval.recovery", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    conf = dict(setting.split("=", 1) for setting in given.conf)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="recovery-") as text:
        folder = Path(text)
        (folder / "rows").mkdir()
        steady, recoveries, windows, files = in_process(lose_executors, folder, given.groups, given.repeats, conf)
        restored, first, session = in_process(restart, folder, given.groups, windows, files, conf)
    print(f"{given.groups:,} groups of state in {OPEN_WINDOWS} open windows, two executors on one machine")
    print(f"a batch with its result, nothing lost:       {statistics.median(steady):6.2f} s median of {len(steady)}")
    print(
        f"killed executor to the next result:          {statistics.median(recoveries):6.2f} s median of "
        f"{len(recoveries)}, at most {max(recoveries):.2f}"
    )
    print(f"new driver, state restored:                  {restored / 1000:6.2f} s")
    print(f"new driver, process to its first result:     {first:6.2f} s, of which {session:.2f} s start Spark")


if __name__ == "__main__":
    main()
