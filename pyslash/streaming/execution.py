"""What Spark knows of the micro-batch that is running: its execution, its watermark, its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any
from uuid import UUID

from pyspark.sql import DataFrame, SparkSession

from pyslash.plan.catalyst import JavaObject, children, name_of
from pyslash.tasks.parquet_scan import ScanFigures

_QUERY_ID = "sql.streaming.queryId"


class BatchExecution:
    """The `IncrementalExecution` of a micro-batch, reached from inside `foreachBatch`.

    The streaming thread's local property names the query; its last execution is the batch that called us.
    """

    def __init__(self, batch: DataFrame, owner: SparkSession) -> None:
        """The batch of a query that `owner` started; the batch itself belongs to a clone of that session."""
        session: SparkSession = batch.sparkSession
        self.session = session
        self.query_id = UUID(str(session.sparkContext.getLocalProperty(_QUERY_ID)))
        java_id = _uuid_class(session._jvm).fromString(str(self.query_id))
        self.stream: Any = owner._jsparkSession.streams().get(java_id).streamingQuery()
        self.execution: JavaObject = self.stream.lastExecution()

    @property
    def checkpoint(self) -> str:
        """The query's checkpoint location, as a Hadoop path."""
        return str(self.stream.resolvedCheckpointRoot())

    @property
    def watermark_us(self) -> int:
        """The watermark as of the end of the previous batch, in microseconds; Spark keeps it in its offset log."""
        return int(self.execution.offsetSeqMetadata().batchWatermarkMs()) * 1000

    def next_watermark_us(self, current_us: int) -> int:
        """The watermark as of the end of this batch, from the event times that Spark itself has collected.

        To be asked once the update has run: the statistics arrive with the tasks.
        """
        stats = self._watermark.eventTimeStats().value()
        if stats.count() == 0:
            return current_us
        return max(current_us, (int(stats.max()) - int(self._watermark.delayMs())) * 1000)

    def count_times(self, figures: ScanFigures) -> None:
        """Tell Spark the event times that it has not seen itself: its watermark is of these."""
        if figures.time_min is None or figures.time_max is None:
            return
        mean_ms = figures.time_sum / figures.times / 1000
        stats = self._watermark.eventTimeStats().value()
        stats.merge(stats.copy(figures.time_max // 1000, figures.time_min // 1000, mean_ms, figures.times))

    @cached_property
    def _watermark(self) -> JavaObject:
        """The operator that Spark asks for the watermark. Adaptive execution may still replace it before the update."""
        nodes = _physical(self.execution.executedPlan())
        return next(node for node in nodes if name_of(node) == "EventTimeWatermarkExec")


@cache
def _uuid_class(jvm: Any) -> Any:
    """`java.util.UUID`: finding a class by its name makes the JVM look through every jar, thrice."""
    return jvm.java.util.UUID


def _physical(plan: JavaObject) -> Iterator[JavaObject]:
    """The operators of a physical plan, through adaptive execution's wrappers."""
    queue = [plan]
    while queue:
        node = queue.pop()
        yield node
        name = name_of(node)
        if name == "AdaptiveSparkPlanExec":
            queue.append(node.executedPlan())
        elif name.endswith("QueryStageExec"):
            queue.append(node.plan())  # a stage is a leaf to its parent: a join with a static table makes some
        else:
            queue.extend(children(node))
