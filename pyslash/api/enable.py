"""Switches pyslash on and off, for all sessions of an application."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from pyslash.driver.start import plugin
from pyslash.errors import RowBridgeUnavailableError
from pyslash.spark import log_files, session, spark_log

logger = logging.getLogger("pyslash")


def enable(spark: SparkSession) -> None:
    """Run the streaming queries that pyslash covers on pyslash: in this session, the default one, and later ones.

    Later ones are those of `newSession` and of Spark's own copies. One that `SparkSession.builder.create()` makes is to
    be enabled by itself; with the plugin none has to be.

    Executors on this machine run the driver's Python, unless `PYSPARK_PYTHON` or `spark.pyspark.python` is set. Spark's
    log says of each query whether pyslash runs it. Queries that stay on plain Spark, too, write their log files to a
    local disk without forking processes (`spark.slash.logs`).

    Args:
        spark: a classic (not Spark Connect) session.

    Raises:
        ConfigError: a `spark.slash.*` key does not exist, or its value is wrong.
        TypeError: it is no session.
        RowBridgeUnavailableError: there is no jar, or Spark is unknown to it, and `spark.slash.mode=require`.
        UnsupportedQueryError: the session is a Spark Connect session.
    """
    session.check_classic(spark)
    conf = session.conf_of(spark)
    session.choose_python(spark)
    spark_log.install()
    log_files.install(spark)
    try:
        plugin.install(spark)
    except RowBridgeUnavailableError as error:
        if conf.mode == "require":
            raise
        logger.warning("all queries stay on plain Spark: %s", error)


def disable() -> None:
    """Leave queries that start from now on to plain Spark. Running queries are not affected."""
    plugin.uninstall()
    log_files.uninstall()
