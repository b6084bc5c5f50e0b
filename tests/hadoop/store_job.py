"""A query whose checkpoint and result are on S3 or HDFS, on pyslash: `FOLDER LOCATION FILES [STRUCK]`.

Its input grows by a file each time that it has read all there is. Before the file `STRUCK` comes, the agent that
holds its state is killed. It says what pyslash tells of its epochs, and lives on until somebody ends it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import pyslash
from eval.object_store import s3a_settings
from tests.driver.plugin_job import SETTINGS
from tests.faults.strike import agent_of
from tests.support.hadoop import fetched

TOLD = "told: "


def start(spark: SparkSession, folder: Path, location: str) -> StreamingQuery:
    """Windows of the files in `in`, into files."""
    rows = spark.readStream.schema("ts timestamp, k long, v long").parquet(str(folder / "in"))
    windows = rows.withWatermark("ts", "5 seconds").groupBy(F.window("ts", "10 seconds"), "k")
    counts = windows.agg(F.count("*").alias("n"), F.sum("v").alias("v")).select("window.start", "k", "n", "v")
    writer = counts.writeStream.format("parquet").option("checkpointLocation", f"{location}/checkpoint")
    return writer.option("path", f"{location}/out").start()


def read(query: StreamingQuery, folder: Path, number: int) -> None:
    """Let a file come, and wait until the query has done with it."""
    (folder / f"{number}.parquet").rename(folder / "in" / f"{number}.parquet")
    query.processAllAvailable()


def s3_settings() -> dict[str, str]:
    """Of the server that the environment names."""
    return s3a_settings() | {"spark.driver.extraClassPath": fetched("s3")}


def main(folder: Path, location: str, files: str, struck: str = "") -> None:
    builder = SparkSession.builder.config(map=SETTINGS | (s3_settings() if location.startswith("s3a:") else {}))
    spark = builder.config("spark.slash.mode", "require").getOrCreate()
    pyslash.enable(spark)
    query = start(spark, folder, location)
    for number in files:
        if number == struck:
            jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
            os.kill(agent_of(jvm).pid, signal.SIGKILL)
        read(query, folder, int(number))
    print(TOLD + json.dumps(pyslash.progress(query), default=str), flush=True)
    signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
