"""Where an epoch's rows are joined: by executors, which keep the rows of both sides from epoch to epoch."""

from __future__ import annotations

import logging

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pyslash import memory
from pyslash.conf import Conf
from pyslash.errors import TransportUnavailableError
from pyslash.plan.catalyst import JavaObject
from pyslash.plan.operators import JoinCut, StreamJoin
from pyslash.plan.reasons import Uncovered
from pyslash.streaming.coordinator import Coordinator, LiveBlock
from pyslash.streaming.execution import SparkBatch
from pyslash.streaming.progress import EpochProgress
from pyslash.tasks.column_merge import ColumnMerge, JoinRequest
from pyslash.tasks.find_agents import executors
from pyslash.tasks.merge import Kept

logger = logging.getLogger("pyslash")


class Joining:
    """Makes the plan of an epoch's rows of a join of two streams."""

    def __init__(self, session: SparkSession, plan: StreamJoin, conf: Conf, coordinator: Coordinator) -> None:
        """Passes where executors can read each other's state.

        Raises:
            Uncovered: they are on more than one host.
            RowBridgeUnavailableError: the JVM has no native code.
        """
        self._columns = ColumnMerge(session)
        if not self._columns.on_one_host:
            raise Uncovered("the rows of a join are read from shared memory, and executors are on more than one host")
        self._plan = plan
        self._conf = conf
        self._coordinator = coordinator
        self._counted = (0, 0)  # bytes, rows
        self._homes = 0  # ranges of keys that executors keep the rows of, once they do
        self._has_told_room = False  # that rows take more than there is

    def result(
        self, execution: SparkBatch, blocks: list[LiveBlock], windows: list[int], kept: Kept, progress: EpochProgress
    ) -> JavaObject:
        """The micro-batch's plan over the rows that join, which are read and joined when the sink runs it.

        Joining never consumes: the sink may run the result more than once.

        Raises:
            TransportUnavailableError: executors cannot read all of the state.
        """
        assert isinstance(execution.cut, JoinCut)
        session = execution.session
        spilled = any(block.head.arena_offset >= block.agent.arena_bytes for block in blocks)
        agents = frozenset(block.agent for block in blocks)
        obstacle = self._columns.obstacle(session, agents, self._conf.transport, spilled)
        if obstacle is not None:
            raise TransportUnavailableError(
                f"the rows of a join are read from shared memory alone, and {obstacle}. The query goes on where all "
                "executors are on one host, with a spark.slash.arena.size that holds its state"
            )
        progress.emit = "rows"
        keeps = self._has_room(session, blocks)
        self._homes = self._homes or session.sparkContext.defaultParallelism
        request = JoinRequest(
            operator=execution.cut.java,
            plan=self._plan.text,
            blocks=[(block.agent, block.raw) for block in blocks],
            query_id=self._coordinator.query_id,
        )
        progress.merged_by = f"{self._homes} homes"
        return self._columns.joined(request, kept, self._homes, keeps)

    def _has_room(self, session: SparkSession, blocks: list[LiveBlock]) -> bool:
        """Whether executors have memory for all rows; those that keep too many by now let go of them."""
        panes = [pane for block in blocks for pane in block.head.panes]
        needed = sum(memory.of_home(rows, size) for _, rows, size in panes)
        if needed <= self._conf.home_bytes or needed <= self._conf.home_bytes * executors(session):
            return True
        if not self._has_told_room:
            logger.warning(
                "executors keep no rows of the join, which would take %d MiB: each epoch reads all blocks. A larger "
                "spark.slash.home.size lets them",
                needed >> 20,
            )
        self._has_told_room = True
        self.forget()
        return False

    def forget(self) -> None:
        """Have executors let go of the rows that they keep."""
        if not self._homes:
            return
        try:
            self._columns.forget(self._coordinator.query_id)
        except Py4JJavaError as error:
            logger.warning("executors keep rows that nobody needs: %s", error.java_exception)
        self._homes = 0

    def collect_counts(self, progress: EpochProgress) -> None:
        """Add what tasks have read, and given, since the last call."""
        (read, given), before = (self._columns.bytes_read, self._columns.rows_given), self._counted
        if read > before[0]:
            progress.count("shm", read - before[0])
        progress.merged_rows += given - before[1]
        self._counted = (read, given)
