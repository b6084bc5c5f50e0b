"""The users with the most clicks so far, from the state of clicks_by_user.py, while that runs or not.

    python examples/top_users.py --checkpoint checkpoint/
    pyslash state save checkpoint/ monday
    python examples/top_users.py --checkpoint checkpoint/ --since monday

The third command tells how many clicks came since the state was given that name.
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pyslash


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", required=True, help="folder of the stream's checkpoint")
    parser.add_argument("--since", metavar="SAVEPOINT", help="count the clicks since then")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("top users").getOrCreate()
    pyslash.register_state(spark)

    def clicks(**options):
        state = spark.read.format("slash-state").options(**options).load(args.checkpoint)
        return state.select("user", F.col("`count(*)`").alias("clicks"))

    users = clicks()
    if args.since:
        before = clicks(savepoint=args.since).withColumnRenamed("clicks", "before")
        more = F.col("clicks") - F.coalesce("before", F.lit(0))
        users = users.join(before, "user", "left").select("user", more.alias("clicks"))
    users.orderBy(F.desc("clicks"), "user").show(10)
    spark.stop()


if __name__ == "__main__":
    main()
