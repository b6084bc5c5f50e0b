"""What the JVMs that tests start have in common."""

from __future__ import annotations

from pyspark.sql import SparkSession

# None lives long enough for what a better compiler would make of its code; an archive that does not fit is no news.
# With one compiler the JVM keeps 48 MB for compiled code: a hundred queries fill them, and the next are interpreted.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xlog:disable"
# Spark takes the memory of a task by 16 to 64 MB, and zeroes them for a few rows: garbage by the gigabyte.
SMALL_PAGES = {"spark.buffer.pageSize": "1m"}
# Room for a hundred queries from the start: a heap grows by collecting all of it, and classes beyond 21 MB do that too.
LONG_LIVED = "-Xms2g -Xmn800m -XX:MetaspaceSize=512m"
_END_SECONDS = 120


def end(spark: SparkSession) -> None:
    """Ends the driver's JVM too, and waits until it has left its class archive, if it was to write one."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_END_SECONDS)
