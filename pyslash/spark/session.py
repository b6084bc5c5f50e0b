"""What pyslash asks of a session when it is enabled, and again when a query starts: settings that make sense, and a
Python that executors can run. And settings that a session has for a while.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyslash.conf import Conf, check_names
from pyslash.connect import is_clients
from pyslash.errors import ConfigError, UnsupportedQueryError
from pyslash.memory import Room

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def changed(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings; afterwards each has the value that it had before, or none."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, kept in before.items():
            if kept is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, kept)


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Spark's code, asked by this thread, goes by the settings of this session."""
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def check_classic(spark: object) -> None:
    """Pass if this is a classic session.

    Raises:
        TypeError: it is no session at all.
        UnsupportedQueryError: it is a Spark Connect session, which has no plan in this process.
    """
    if hasattr(spark, "_jsparkSession"):
        return
    if not is_clients(spark):
        raise TypeError(f"pyslash takes a SparkSession, not {spark!r}: pyslash.enable(spark)")
    raise UnsupportedQueryError(
        "pyslash needs a classic Spark session, and this is a Spark Connect session, which has no JVM and no plan. "
        "Switch pyslash on in the server, by spark.plugins=io.pyslash.SlashPlugin (docs/connect.md), or make the job's "
        "session by SparkSession.builder.master(...), without remote(...) and SPARK_REMOTE"
    )


def conf_of(spark: SparkSession) -> Conf:
    """The session's settings, each of which is known and possible.

    Raises:
        ConfigError: a `spark.slash.*` key does not exist, its value does not parse, or asks for more than there is.
    """
    check_names(spark.conf.getAll)
    conf = Conf.read(spark.conf.get)
    # The hosts of a cluster are not known here; their agents refuse.
    if runs_here(spark) and (refusal := Room.here().refusal(conf.arena_bytes)) is not None:
        raise ConfigError(refusal)
    return conf


def choose_python(spark: SparkSession, beside: bool = False) -> None:
    """Let executors on this machine run the Python that runs the driver, unless the user has named another.

    PySpark takes `PYSPARK_PYTHON`, or else the `python3` of the PATH, which need not be the environment that the job
    was started with: cron, an IDE or a notebook server run `.../bin/python job.py` without activating it. It leaves
    `spark.pyspark.python` to spark-submit, which puts it before the environment's, for a job in Python. `beside`: this
    process is beside the driver, and has the environment that spark-submit was called in.
    """
    context = spark.sparkContext
    named = context.getConf().get("spark.pyspark.python")
    if os.environ.get("PYSPARK_PYTHON") and not (beside and named):
        return
    if python := named or (runs_here(spark) and sys.executable):
        context.pythonExec = python


def runs_here(spark: SparkSession) -> bool:
    """Whether all executors are on the driver's machine, as far as the master tells."""
    master: str = spark.sparkContext.master
    return master == "local" or master.startswith(("local[", "local-cluster["))
