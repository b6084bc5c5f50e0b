"""What Spark knows of the micro-batch that is running: its execution, its watermark, its checkpoint."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pyspark.sql import DataFrame, SparkSession

from pyslash.plan.catalyst import JavaObject, children, name_of

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
        java_id = session._jvm.java.util.UUID.fromString(str(self.query_id))
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
        latest = current_us
        for node in _physical(self.execution.executedPlan()):
            if name_of(node) == "EventTimeWatermarkExec":
                stats = node.eventTimeStats().value()
                if stats.count() > 0:
                    latest = max(latest, (int(stats.max()) - int(node.delayMs())) * 1000)
        return latest


def _physical(plan: JavaObject) -> list[JavaObject]:
    """The operators of a physical plan down to the watermark, through adaptive execution's wrappers."""
    found = []
    queue = [plan]
    while queue:
        node = queue.pop()
        found.append(node)
        name = name_of(node)
        if name == "EventTimeWatermarkExec":
            continue  # one watermark a query is covered, and nothing below it matters
        if name == "AdaptiveSparkPlanExec":
            queue.append(node.executedPlan())
        elif name.endswith("QueryStageExec"):
            queue.append(node.plan())  # a stage is a leaf to its parent: a join with a static table makes some
        else:
            queue.extend(children(node))
    return found
