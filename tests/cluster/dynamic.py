"""An application whose executors come and go: `MASTER FOLDER`, with a number of Parquet files in FOLDER/in.

Each file is a micro-batch, and before each the application has another number of executors: Spark takes the idle ones
away, decommissioned, and brings them back for tasks that wait. It says FOUND, and of plain Spark and of pyslash the
rows of each micro-batch and the executors that each found.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash

FOUND = "found: "
IDLE_SECONDS = 2
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": f"{IDLE_SECONDS}s",
    "spark.dynamicAllocation.executorIdleTimeout": f"{IDLE_SECONDS}s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
}


class Executors:
    """Those of the application, as Spark counts them."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._java = self._context._jsc.sc()

    @property
    def number(self) -> int:
        return int(self._java.getExecutorIds().size())

    def shrink(self) -> None:
        """Until idle ones are gone."""
        self._wait_for(1)

    def grow(self) -> None:
        """By tasks that wait for each other's cores."""
        self._context.parallelize(range(8), 8).foreach(lambda _: time.sleep(1))
        self._wait_for(2)

    def _wait_for(self, number: int) -> None:
        deadline = time.monotonic() + 120
        while self.number != number:
            assert time.monotonic() < deadline, f"{self.number} executors"
            time.sleep(0.2)


def run(spark: SparkSession, folder: Path, mode: str) -> dict[str, Any]:
    """One query over the files, each of which finds other executors."""
    spark.conf.set("spark.slash.mode", mode)
    source = folder / mode / "in"
    source.mkdir(parents=True)
    rows = spark.readStream.schema("ts timestamp, k long, v long").parquet(str(source))
    grouped = rows.withWatermark("ts", "5 seconds").groupBy(F.window("ts", "10 seconds"), "k")
    sums = grouped.agg(F.count("*").alias("n"), F.sum("v").alias("s")).select("window.start", "k", "n", "s")
    batches: dict[int, list[str]] = {}

    def take(batch: DataFrame, number: int) -> None:
        batches[number] = sorted(map(repr, batch.collect()))

    writer = sums.writeStream.outputMode("update").option("checkpointLocation", str(folder / mode / "checkpoint"))
    query = writer.foreachBatch(take).start()
    executors, counted = Executors(spark), []
    steps = [executors.grow, executors.shrink, executors.shrink, executors.grow, executors.shrink]
    for step, file in zip(steps, sorted((folder / "in").iterdir()), strict=True):
        step()
        counted.append(executors.number)
        (source / file.name).write_bytes(file.read_bytes())
        query.processAllAvailable()
    figures = pyslash.progress(query)
    query.stop()
    return {"batches": batches, "executors": counted, "epochs": len(figures)}


def main(master: str, folder: Path) -> None:
    """On both engines, one after the other."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.executor.memory": "512m",
        "spark.slash.arena.size": "64m",
        "spark.slash.home.size": "64m",
    }
    spark = SparkSession.builder.master(master).config(map=settings | DYNAMIC).getOrCreate()
    pyslash.enable(spark)
    print(FOUND + json.dumps({mode: run(spark, folder, mode) for mode in ("off", "require")}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
