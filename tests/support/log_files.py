"""Managers of Spark's log files, ours and Spark's own, in the session that all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

import pyslash
from pyslash.spark import log_files


@contextmanager
def nobodys_choice(spark: SparkSession) -> Iterator[SparkSession]:
    """An application with pyslash whose log files are nobody's choice: that of the tests' session is put aside."""
    chosen = spark.conf.get(log_files.MANAGER, None)
    spark.conf.unset(log_files.MANAGER)
    pyslash.enable(spark)
    yield spark
    pyslash.disable()
    if chosen is not None:
        spark.conf.set(log_files.MANAGER, chosen)


def manager(spark: SparkSession, location: str, kind: str, settings: dict[str, str] | None = None) -> Any:
    """As Spark makes one of this kind, `ours` or `Spark's`, for a location, with more settings of Hadoop."""
    jvm: Any = spark._jvm
    conf = jvm.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
    ours = conf.get(log_files.MANAGER)
    assert ours in log_files._CLASSES
    if kind != "ours":
        conf.unset(log_files.MANAGER)
    for name, value in (settings or {}).items():
        conf.set(name, value)
    places = jvm.org.apache.spark.sql.execution.streaming
    place = places.checkpointing if ".spark41." in ours else places
    return place.CheckpointFileManager.create(jvm.org.apache.hadoop.fs.Path(location), conf)
