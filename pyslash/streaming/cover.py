"""Whether pyslash runs a query: all that can be known when it starts."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pyslash.errors import RowBridgeUnavailableError
from pyslash.plan.operators import WindowAggregate, match
from pyslash.plan.reasons import Uncovered
from pyslash.streaming.manifest import MANIFESTS
from pyslash.tasks.row_bridge import RowBridge


def operator_of(df: DataFrame, output_mode: str) -> tuple[WindowAggregate, RowBridge]:
    """The stateful operator of a query, and what finds it again in each micro-batch's plan.

    Raises:
        Uncovered: pyslash does not run it; the message is the reason.
    """
    try:
        bridge = RowBridge(df.sparkSession)
    except RowBridgeUnavailableError as error:
        raise Uncovered(str(error)) from error
    return match(bridge.java, df, output_mode), bridge


def checkpoint_of(spark: SparkSession, options: dict[str, str]) -> str | None:
    """Where a query with these options (names in lower case) keeps its checkpoint; None: in a place of its own."""
    if location := options.get("checkpointlocation"):
        return location
    root, name = spark.conf.get("spark.sql.streaming.checkpointLocation", None), options.get("queryname")
    return f"{root}/{name}" if root and name else None


class Checkpoint:
    """What a checkpoint holds before a query starts on it."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._root = self._path(location)
        self._files = self._root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    @property
    def is_ours(self) -> bool:
        """Whether pyslash has state there."""
        return self._has_files(MANIFESTS)

    @property
    def has_begun(self) -> bool:
        """Whether a query has run there."""
        return self._has_files("offsets") or self._has_files("commits")

    def _has_files(self, folder: str) -> bool:
        path = self._path(self._root, folder)
        if not self._files.exists(path):
            return False
        return any(str(status.getPath().getName()).isdigit() for status in self._files.listStatus(path))
