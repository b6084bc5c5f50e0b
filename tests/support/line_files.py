"""Text files of records, a line each, read by Spark and with native code."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.session import changed
from tests.support.same_rows import assert_same, assert_same_bytes


class Reading:
    """A batch of rows, by Spark and with native code."""

    def __init__(self, rows: DataFrame) -> None:
        spark = rows.sparkSession
        self.by_spark = rows
        bridge = JvmBridge(spark).java
        self._input = bridge.natively(rows._jdf.queryExecution().executedPlan())
        self.natively = DataFrame(bridge.again(spark._jsparkSession, self._input.plan()), spark)

    def check(self) -> pa.Table:
        """Both are the same, and so is how many rows the scan says that it gave."""
        expected = self.by_spark.toArrow()
        before = self._scanned()
        found = self.natively.toArrow()
        assert self.obstacles == []
        assert_same(found, expected, lambda row: expected.slice(row, 1).to_pylist())
        assert self._scanned() == 2 * before
        again = Reading(self.by_spark)  # whose records are counted apart
        assert_same_bytes(again.natively, self.by_spark, lambda row: expected.slice(row, 1).to_pylist())
        return found

    def check_failure(self) -> None:
        """Both fail on a record that is malformed, by the same error of Spark's."""
        causes = []
        for one in (self.by_spark, self.natively):
            with pytest.raises((PySparkException, Py4JJavaError), match="MALFORMED_RECORD_IN_PARSING") as failure:
                one.collect()
            causes.append(set(re.findall(r"\[((?:MALFORMED|FAILED_READ)[A-Z_.]*)\]", str(failure.value))))
        assert causes[0] == causes[1]

    def _scanned(self) -> int:
        """Rows; Spark's scan counts what either reading takes."""
        node = self._input.plan()
        while node.children().nonEmpty():
            node = node.children().head()
        return int(node.metrics().apply("numOutputRows").value())

    @property
    def left_to_spark(self) -> int:
        """Records."""
        return int(self._input.leftToSpark())

    @property
    def obstacles(self) -> list[str]:
        """Why Spark reads all of them."""
        return [str(reason) for reason in self._input.obstacles()]


def settings(spark: SparkSession, **values: object) -> AbstractContextManager[None]:
    """Settings of Spark SQL for a while; `__` stands for a dot."""
    return changed(spark, {f"spark.sql.{name.replace('__', '.')}": str(value) for name, value in values.items()})


def splits(spark: SparkSession, size: int) -> AbstractContextManager[None]:
    """Splits of so many bytes."""
    return settings(spark, files__maxPartitionBytes=size, files__openCostInBytes=0, files__minPartitionNum=1)


def lines(records: Sequence[bytes], seed: int) -> list[bytes]:
    """The lines of a file of records, with all kinds of ends, and none at the last of every other file.

    Some of the records hold what ends a line.
    """
    draw = random.Random(seed)
    ends = [b"\n", b"\n", b"\n", b"\r\n", b"\r", b"\n\n", b"\n \n"]
    found = [(one if draw.random() < 0.02 else one.translate(None, b"\r\n")) + draw.choice(ends) for one in records]
    found[-1] = found[-1].rstrip(b"\r\n") if seed % 2 else found[-1]
    return b"".join(found).splitlines(keepends=True)


@contextmanager
def hadoops_own_files(spark: SparkSession) -> Iterator[None]:
    """Hadoop's own local file system, not that of the tests: native code reads plain files of it past its streams."""
    spark.conf.set("fs.file.impl.disable.cache", "true")
    yield
    spark.conf.unset("fs.file.impl.disable.cache")
