"""What pyslash logs, in the log of Spark's driver: that is where users look, whether or not the job sets up Python's
`logging`.
"""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

logger = logging.getLogger("pyslash")

_NOTICE = "is_notice"


class SparkLog(logging.Handler):
    """Writes records by the logger `pyslash` of the JVM.

    Without a JVM, and where a job has turned Spark's warnings off, warnings go where Python's go.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """One line of Spark's log, at the record's level; a notice at WARN where INFO is not shown."""
        context = SparkContext._active_spark_context
        last = logging.lastResort
        if (context is None or not self._told(context._jvm, record)) and last and record.levelno >= last.level:
            last.handle(record)

    def _told(self, jvm: Any, record: logging.LogRecord) -> bool:
        """Whether Spark's log has it; it may be that nobody sees it there, unless it is a warning."""
        try:
            spark = jvm.org.slf4j.LoggerFactory.getLogger("pyslash")
            level = record.levelno
            if hasattr(record, _NOTICE) and not _shows_info(jvm, spark):
                level = logging.WARNING
            names = {logging.ERROR: "error", logging.WARNING: "warn", logging.INFO: "info", 0: "debug"}
            name = next(name for least, name in names.items() if level >= least)
            getattr(spark, name)(self.format(record))
            return record.levelno != logging.WARNING or bool(spark.isWarnEnabled())
        except (AttributeError, Py4JError, OSError):
            return False  # the JVM has ended, or another thread has just stopped the session


def _shows_info(jvm: Any, spark: Any) -> bool:
    """Whether Spark's log shows INFO.

    In its shells, and under `python job.py`, the logger lets it through, and a filter on the console leaves it out.
    """
    if not spark.isInfoEnabled():
        return False
    # What spark-submit leaves there after its own start says nothing without the filter.
    threshold = getattr(getattr(jvm.org.apache.spark.internal, "Logging$"), "MODULE$").sparkShellThresholdLevel()
    if threshold is None:
        return True
    appenders = jvm.org.apache.logging.log4j.LogManager.getRootLogger().getAppenders().values()
    filters = [found for appender in appenders if (found := appender.getFilter()) is not None]
    return not any("SparkShellLoggingFilter" in str(found.getClass().getName()) for found in filters)


_handler = SparkLog()


def install() -> None:
    """Have Spark's log show what pyslash logs; once is enough, and again does nothing."""
    logger.addHandler(_handler)


def notice(text: str, *arguments: object) -> None:
    """Log what users are to see once a query, though it is no warning.

    Spark's shells, and `python job.py`, show nothing below WARN.
    """
    record = logger.makeRecord(logger.name, logging.INFO, __file__, 0, text, arguments, None, extra={_NOTICE: True})
    if logger.isEnabledFor(logging.INFO):
        logger.handle(record)
    else:
        _handler.handle(record)  # the job has not set up Python's logging, or not for this
