"""Merges the windows that an epoch emits: in the driver if they are small, else in merge tasks."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyslash import memory
from pyslash.cluster.coordinator import Coordinator, LiveBlock
from pyslash.conf import Conf
from pyslash.emit.column_merge import ColumnMerge, Reading
from pyslash.emit.homes import Homes
from pyslash.emit.merge import PREFIXES, Kept, MergeRequest, merge
from pyslash.epoch_progress import EpochProgress
from pyslash.plan.catalyst import JavaObject
from pyslash.plan.operators import Aggregation, SessionAggregation
from pyslash.spark.execution import SparkBatch
from pyslash.spark.row_bridge import RowBridge
from pyslash.units import AFTER_ALL_PANES

_MOST_TASKS_A_CORE = 32


class Merging:
    """Makes the DataFrame of merged rows of an epoch."""

    def __init__(
        self, session: SparkSession, plan: Aggregation, conf: Conf, coordinator: Coordinator, reading: Reading
    ) -> None:
        """`reading`: how tasks read blocks.

        Raises:
            RowBridgeUnavailableError: the JVM has no native code.
        """
        self._plan = plan
        self._conf = conf
        self._coordinator = coordinator
        self._schema: pa.Schema = arrow_schema(plan.result_schema)
        self._nothing: DataFrame | None = None
        self._bridge = RowBridge(session)
        self._columns = ColumnMerge(session, reading)
        self._homes = Homes("groups", conf)

    def result(
        self, execution: SparkBatch, blocks: list[LiveBlock], windows: list[int], kept: Kept, progress: EpochProgress
    ) -> JavaObject:
        """The micro-batch's plan over merged rows; the arguments are those of `merge`."""
        rows = self.merge(execution.session, blocks, windows, kept, progress)
        return execution.over(rows.select(*self._plan.emitted) if self._plan.emitted else rows)

    def merge(
        self,
        session: SparkSession,
        blocks: list[LiveBlock],
        windows: list[int],
        kept: Kept,
        progress: EpochProgress,
    ) -> DataFrame:
        """Merged rows of these windows: a local relation, or a plan that merges when the sink runs it.

        Merging never consumes: the sink may run the result more than once.
        """
        if not windows:
            progress.merged_by = "none"
            if self._nothing is None:
                self._nothing = self._local(session, self._schema.empty_table())
            return self._nothing
        panes = (windows[0], windows[-1] + self._plan.window.size_us)
        keeps_groups = self._plan.emission.keeps_groups
        # Whoever keeps groups may have to read all that there are, whichever are emitted now.
        holding = blocks if keeps_groups else [one for one in blocks if one.head.ranges(*panes, 0, PREFIXES)]
        request = MergeRequest(
            plan=self._plan.text,
            windows=windows,
            changed_in=kept.epoch if self._plan.emission.changes_only else None,
            panes=panes,
            blocks=[(block.agent, block.raw) for block in holding],
            query_id=self._coordinator.query_id,
            token=self._coordinator.read_token,
            transport=self._conf.transport,
            schema=self._schema,
            timeout_seconds=self._conf.agent_call_timeout,
            sessions=(kept.pane, kept.evicted_us, kept.closing_us)
            if isinstance(self._plan, SessionAggregation)
            else None,
        )
        held = sum(size for block in holding for pane, _, size in block.head.panes if panes[0] <= pane < panes[1])
        # An upper bound of the result: a pane counts once for each of these windows that contain it.
        produced = held * min(self._plan.window.overlap, len(windows))
        if produced <= self._conf.merge_driver_bytes and not self._homes.ranges:
            progress.merged_by = "driver"
            with progress.timed("merge_task"):
                rows = pa.Table.from_batches(merge(request, 0, PREFIXES, progress.count), self._schema)
            progress.merged_rows = rows.num_rows
            return self._local(session, rows)
        schema = self._plan.result_schema
        progress.emit = "columns"
        if keeps_groups and self._homes.have_room(session, self._columns, self._kept_bytes(blocks)):
            ranges = self._homes.open(session)
            progress.merged_by = f"{ranges} homes"
            whole = replace(request, panes=self._kept_panes(kept))
            return self._columns.rows(session, whole, schema, ranges, kept, keeps=True)
        cores = session.sparkContext.defaultParallelism
        # By what is read: rows that come out are streamed, and a task costs its start.
        tasks = min(max(cores, -(-held // self._conf.merge_task_bytes)), _MOST_TASKS_A_CORE * cores)
        progress.merged_by = f"{tasks} tasks"
        if isinstance(self._plan, SessionAggregation):
            # Put together before they are read, even if nothing of them is kept.
            whole = replace(request, panes=self._kept_panes(kept))
            return self._columns.rows(session, whole, schema, tasks, kept)
        return self._columns.rows(session, request, schema, tasks)

    def _kept_panes(self, kept: Kept) -> tuple[int, int]:
        """What may be read of blocks to keep their groups: first and end, microseconds."""
        if isinstance(self._plan, SessionAggregation):
            return kept.pane, kept.pane + 1
        return self._plan.emission.first_live_pane(kept.evicted_us, kept.pane), AFTER_ALL_PANES

    def _kept_bytes(self, blocks: list[LiveBlock]) -> int:
        """Bytes that executors need to keep all groups of these blocks."""
        panes = [pane for block in blocks for pane in block.head.panes]
        needed = self._plan.window.overlap * sum(memory.of_home(groups, size) for _, groups, size in panes)
        if self._plan.emission.new_only:
            return needed // 2  # of groups that have been emitted only the keys are kept
        return needed

    def forget(self) -> None:
        """Have executors drop the groups that they keep."""
        self._homes.forget(self._columns)

    def _local(self, session: SparkSession, rows: pa.Table) -> DataFrame:
        """Rows that the driver has at hand."""
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, rows.schema) as writer:
            writer.write_table(rows.combine_chunks())  # one batch, not one for each window
        data = stream.getvalue().to_pybytes()
        schema = self._plan.result_schema.json()
        return DataFrame(self._bridge.java.merged(session._jsparkSession, data, schema), session)

    def collect_counts(self, progress: EpochProgress) -> None:
        """Add the bytes that merge tasks have read, and the rows that they have returned, since the last call."""
        progress.count_tasks(self._columns.new_counts())


def arrow_schema(schema: StructType) -> pa.Schema:
    """Of merged rows: timestamps in UTC, as Spark 4.0 has them and later releases are to be told."""
    options = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **options)
