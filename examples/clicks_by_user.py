"""Clicks of each user, over all time. The stream has those since it was started; the ones before lie in an archive.

    python examples/clicks_by_user.py count --input clicks/ --output counts/ --checkpoint checkpoint/
    python examples/clicks_by_user.py backfill --input archive/ --checkpoint checkpoint/

The second command may run beside the first one. From its next micro-batch on the stream has counted the archive, too: that
of a stream that goes on, or, of this one, which ends when it has read what there is, of the first command once more, when there are new clicks.
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pyslash


def by_user(clicks):
    """What is counted, of whatever clicks."""
    return clicks.groupBy("user").agg(F.count("*").alias("clicks"), F.max("clicked_at").alias("last"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["count", "backfill"])
    parser.add_argument("--input", required=True, help="folder of Parquet files of clicks")
    parser.add_argument("--output", help="folder for the counts, as Parquet")
    parser.add_argument("--checkpoint", required=True, help="folder for the stream's checkpoint")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("clicks by user").getOrCreate()
    pyslash.enable(spark)
    counts = by_user(spark.readStream.schema("clicked_at timestamp, user long").parquet(args.input))
    if args.action == "backfill":
        pyslash.backfill(counts, args.checkpoint, "archive")
    else:
        query = (
            counts.writeStream.outputMode("complete")
            .foreachBatch(lambda rows, batch: rows.write.mode("overwrite").parquet(args.output))
            .option("checkpointLocation", args.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
