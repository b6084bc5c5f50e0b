"""Spark's log files without forks: `io.pyslash.logs` in the place of the manager that Spark makes for itself.

This is for an application without the plugin, which does it itself (`io.pyslash.shim.LogFiles`).

The class has to be found by every thread of the driver that makes a manager, and by those of tasks: offset and commit
logs, file sources and sinks, and the state stores of queries that stay on plain Spark each make one, from the class
loader of the thread that they run in. So the jar goes to the loader that all of them inherit, and to the executors.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from pyslash.errors import RowBridgeUnavailableError
from pyslash.spark.jvm_bridge import jar_path

logger = logging.getLogger("pyslash")

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_JAR = "pyslash.logs.jar"
# Spark's interface has moved between 4.0 and 4.1: a class loads where its interface is.
_CLASSES = tuple(f"io.pyslash.logs.{place}.CheckpointFiles" for place in ("spark41", "spark40"))


def install(spark: SparkSession) -> None:
    """Let the queries of this application that start from now on write their log files without forks.

    The manager is named in Hadoop's configuration, which a setting of a session goes before: whoever has chosen a
    manager keeps it.
    """
    hadoop = spark._jsc.hadoopConfiguration()
    if hadoop.get(MANAGER) is not None:
        return
    try:
        hadoop.set(MANAGER, _loaded(spark))
    except (RowBridgeUnavailableError, Py4JJavaError, LookupError) as error:
        logger.info("Spark's log files are written by Spark's own manager: %s", error)


def uninstall() -> None:
    """Leave them to Spark; the files are the same."""
    context = SparkContext._active_spark_context
    with suppress(Py4JError, OSError):  # the JVM has ended
        if context is not None and context._jsc is not None:
            hadoop = context._jsc.hadoopConfiguration()
            if hadoop.get(MANAGER) in _CLASSES:
                hadoop.unset(MANAGER)


def _loaded(spark: SparkSession) -> str:
    """The class for this Spark, once threads and executors can find it.

    Raises:
        RowBridgeUnavailableError: this installation has no jar.
        LookupError: this Spark has no place for it.
    """
    jvm: Any = spark._jvm
    context: Any = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    path = jar_path(_JAR)
    url = path.as_uri()
    if (top := _topmost(jvm, context)) is not None and url not in {str(known) for known in top.getURLs()}:
        top.addURL(jvm.java.net.URL(url))
    for name in _CLASSES:
        try:
            jvm.java.lang.Class.forName(name, True, context)
        except Py4JJavaError:
            continue
        spark._jsc.addJar(str(path))
        return name
    raise LookupError("this Spark has no CheckpointFileManager where pyslash knows to look for it")


def _topmost(jvm: Any, loader: Any) -> Any:
    """The first ancestor of a class loader that takes jars: that of spark-submit, from which all others descend."""
    takes_jars = jvm.java.lang.Class.forName("org.apache.spark.util.MutableURLClassLoader")
    found = None
    while loader is not None:
        if takes_jars.isInstance(loader):
            found = loader
        loader = loader.getParent()
    return found
