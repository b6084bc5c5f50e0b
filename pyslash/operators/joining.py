"""Joins the rows of an epoch, in executors, which keep the rows of both sides from epoch to epoch."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pyslash import memory
from pyslash.cluster.coordinator import LiveBlock
from pyslash.conf import Conf
from pyslash.emit.column_merge import ColumnMerge, JoinRequest, Reading
from pyslash.emit.homes import Homes
from pyslash.emit.merge import Kept
from pyslash.epoch_progress import EpochProgress
from pyslash.plan.catalyst import JavaObject
from pyslash.plan.operators import JoinCut, StreamJoin
from pyslash.spark.execution import SparkBatch


class Joining:
    """Makes the plan that joins an epoch's rows of two streams."""

    def __init__(self, session: SparkSession, plan: StreamJoin, conf: Conf, reading: Reading) -> None:
        """`reading`: how tasks read blocks.

        Raises:
            RowBridgeUnavailableError: the JVM has no native code.
        """
        self._columns = ColumnMerge(session, reading)
        self._plan = plan
        self._homes = Homes("rows of the join", conf)

    def result(
        self, execution: SparkBatch, blocks: list[LiveBlock], windows: list[int], kept: Kept, progress: EpochProgress
    ) -> JavaObject:
        """The micro-batch's plan over the rows that join, which are read and joined when the sink runs it.

        Joining never consumes: the sink may run the result more than once.
        """
        assert isinstance(execution.cut, JoinCut)
        session = execution.session
        progress.emit = "rows"
        keeps = self._homes.have_room(session, self._columns, self._kept_bytes(blocks))
        ranges = self._homes.open(session)
        request = JoinRequest(
            operator=execution.cut.java,
            plan=self._plan.text,
            blocks=[(block.agent, block.raw) for block in blocks],
        )
        progress.merged_by = f"{ranges} homes"
        return self._columns.joined(request, kept, ranges, keeps)

    def _kept_bytes(self, blocks: list[LiveBlock]) -> int:
        """Bytes that executors need to keep all rows of these blocks."""
        panes = [pane for block in blocks for pane in block.head.panes]
        return sum(memory.of_home(rows, size) for _, rows, size in panes)

    def forget(self) -> None:
        """Have executors drop the rows that they keep."""
        self._homes.forget(self._columns)

    def collect_counts(self, progress: EpochProgress) -> None:
        """Add the bytes that tasks have read, and the rows that they have returned, since the last call."""
        progress.count_tasks(self._columns.new_counts())
