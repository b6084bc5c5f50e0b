"""What executors keep of a query from epoch to epoch: homes, each with a range of keys (docs/design/024)."""

from __future__ import annotations

import logging

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pyslash import memory
from pyslash.cluster.find_agents import executors
from pyslash.conf import Conf
from pyslash.emit.column_merge import ColumnMerge
from pyslash.emit.merge import HomeUpdate
from pyslash.state.version import Size

logger = logging.getLogger("pyslash")


class Homes:
    """The homes of one query."""

    def __init__(self, what: str, conf: Conf) -> None:
        """`what`: the name of what they keep, for messages."""
        self.ranges = 0  # of keys, once executors keep some
        self._what = what
        self._conf = conf
        self._has_told_room = False  # that there is not enough

    def have_room(self, session: SparkSession, columns: ColumnMerge, needed: int) -> bool:
        """Whether executors have memory for `needed` bytes; executors that already keep too many drop them."""
        if needed <= self._conf.home_bytes or needed <= self._conf.home_bytes * executors(session):
            return True
        if not self._has_told_room:
            logger.warning(
                "executors do not keep %s, which would take %d MiB, so each epoch reads all blocks; raise "
                "spark.slash.home.size to keep them",
                self._what,
                needed >> 20,
            )
        self._has_told_room = True
        self.forget(columns)
        return False

    def follow(self, kept: HomeUpdate) -> bool:
        """Whether executors that have lost nothing read an epoch's changes alone."""
        return self.ranges > 0 and kept.step.before != ""

    def open(self, session: SparkSession) -> int:
        """Executors keep homes from here on, until they are forgotten. Returns the number of ranges."""
        self.ranges = self.ranges or session.sparkContext.defaultParallelism
        return self.ranges

    def forget(self, columns: ColumnMerge) -> None:
        """Have executors drop what they keep."""
        if not self.ranges:
            return
        try:
            columns.forget()
        except Py4JJavaError as error:
            logger.warning(
                "executors still keep %s that the query no longer needs: %s", self._what, error.java_exception
            )
        self.ranges = 0


def bytes_of(size: Size) -> int:
    """Bytes that executors need to keep so many groups, or rows."""
    return memory.of_home(size.groups, size.bytes)
