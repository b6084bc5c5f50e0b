"""An archive of the classes that Spark loads (CDS), so that every JVM of the tests starts in half the time.

    python -m tests.support.class_archive FILE

Runs a small stream on pyslash, and has the JVM write what it has loaded when it ends. A JVM whose class path is another
one (another PySpark, Spark's launcher) passes over the archive.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.jvm import JAVA_OPTIONS, end
from tests.support.stream import Stream, run, seconds

SETTINGS = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}


def write(archive: Path) -> None:
    """Overwrites it."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={archive.resolve()}"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-java-options "{options}" pyspark-shell'
    spark = SparkSession.builder.master("local[2]").config(map=SETTINGS).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64())])
    with tempfile.TemporaryDirectory() as folder:
        stream = Stream(spark, Path(folder), schema, delay_seconds=0)
        for batch in range(2):
            times = [seconds(1000 + 100 * batch + i) for i in range(100)]
            stream.add(pa.table({"ts": times, "k": [f"{i % 7}" for i in range(100)], "v": range(100)}, schema))
        rows = stream.read().groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v"), F.avg("v"))
        run(rows, Path(folder), **{"merge.driverBytes": "0"})
        stream.expected(F.window("ts", "10 seconds"), [F.col("k")], [F.sum("v")])
    end(spark)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
