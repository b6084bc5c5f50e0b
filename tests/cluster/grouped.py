"""A job as a user has it: groups of a folder's rows, on pyslash or not at all. `FOLDER`: rows in `in/`."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import pyslash

FOUND = "groups on pyslash: 7"


def main(folder: str) -> None:
    """Run it to the end of its input and say what came out."""
    spark = SparkSession.builder.getOrCreate()
    rows = spark.readStream.schema("k long").parquet(f"{folder}/in")
    counts = rows.groupBy("k").count().writeStream.format("memory").queryName("counts").outputMode("complete")
    query = counts.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    if not pyslash.progress(query):
        raise SystemExit("the query ran on plain Spark")
    found = sorted(map(tuple, spark.table("counts").collect()))
    if found != sorted(map(tuple, spark.read.parquet(f"{folder}/in").groupBy("k").count().collect())):
        raise SystemExit(f"these are not Spark's groups: {found}")
    print("groups on pyslash:", len(found))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
