"""Switches pyslash on and off, for all sessions of an application."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pyslash.driver import hook
from pyslash.spark import log_files, session, spark_log


def enable(spark: SparkSession) -> None:
    """Run the streaming queries that pyslash covers on pyslash, in every session of this application.

    Executors on this machine run the driver's Python, unless `PYSPARK_PYTHON` or `spark.pyspark.python` is set. Spark's
    log says of each query whether pyslash runs it. Queries that stay on plain Spark, too, write their log files to a
    local disk without forking processes (`spark.slash.logs`).

    Args:
        spark: a classic (not Spark Connect) session.

    Raises:
        ConfigError: a `spark.slash.*` key does not exist, or its value is wrong.
        TypeError: it is no session.
        UnsupportedQueryError: the session is a Spark Connect session.
    """
    session.check_classic(spark)
    session.conf_of(spark)
    session.choose_python(spark)
    spark_log.install()
    log_files.install(spark)
    hook.install()


def disable() -> None:
    """Leave queries that start from now on to plain Spark. Running queries are not affected."""
    hook.uninstall()
    log_files.uninstall()
