"""Merges the windows that an epoch emits: in the driver if they are small, else in merge tasks."""

from __future__ import annotations

import logging
from functools import partial
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyslash import memory
from pyslash.conf import Conf
from pyslash.errors import RowBridgeUnavailableError, TransportUnavailableError
from pyslash.plan.catalyst import JavaObject
from pyslash.plan.operators import Aggregation, SessionAggregation
from pyslash.streaming.coordinator import Coordinator, LiveBlock
from pyslash.streaming.execution import SparkBatch
from pyslash.streaming.homes import Homes
from pyslash.streaming.progress import EpochProgress
from pyslash.tasks.column_merge import ColumnMerge
from pyslash.tasks.merge import MERGED_ROWS, PREFIXES, Kept, MergeRequest, merge, run_merge_tasks
from pyslash.tasks.row_bridge import RowBridge

logger = logging.getLogger("pyslash")
_MOST_TASKS_A_CORE = 32


class Merging:
    """Makes the DataFrame of merged rows of an epoch."""

    def __init__(self, plan: Aggregation, conf: Conf, coordinator: Coordinator) -> None:
        self._plan = plan
        self._conf = conf
        self._coordinator = coordinator
        self._schema: pa.Schema = _arrow_schema(plan.result_schema)
        self._nothing: DataFrame | None = None
        self._bridge: RowBridge | None = None
        self._columns: ColumnMerge | None = None
        self._has_columns = conf.emit != "arrow"
        self._obstacle: str | None = None
        self._counts: Accumulator[dict[str, int]] | None = None
        self._counted: dict[str, int] = {}
        self._homes = Homes("groups", conf, coordinator.query_id)

    def result(
        self, execution: SparkBatch, blocks: list[LiveBlock], windows: list[int], kept: Kept, progress: EpochProgress
    ) -> JavaObject:
        """The micro-batch's plan over merged rows; the arguments are those of `merge`."""
        return execution.over(self.merge(execution.session, blocks, windows, kept, progress))

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
            spilled=any(block.head.arena_offset >= block.agent.arena_bytes for block in holding),
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
            rows = pa.Table.from_batches(merge(request, 0, PREFIXES, progress.count), self._schema)
            progress.merged_rows = rows.num_rows
            return self._local(session, rows)
        columns = self._column_merge(session, request)
        progress.emit = "arrow" if columns is None else "columns"
        if columns is not None and keeps_groups and self._homes.have_room(session, columns, self._kept_bytes(blocks)):
            ranges = self._homes.open(session)
            progress.merged_by = f"{ranges} homes"
            return columns.rows(session, request, self._plan.result_schema, ranges, kept)
        if request.sessions is not None:
            columns, progress.emit = None, "arrow"  # executors' JVMs put sessions together only where they keep them
        cores = session.sparkContext.defaultParallelism
        # By what is read: rows that come out are streamed, and a task costs its start.
        tasks = min(max(cores, -(-held // self._conf.merge_task_bytes)), _MOST_TASKS_A_CORE * cores)
        progress.merged_by = f"{tasks} tasks"
        if columns is not None:
            return columns.rows(session, request, self._plan.result_schema, tasks, None)
        if self._counts is None:
            self._counts = session.sparkContext.accumulator({}, _Counts())
        function = partial(run_merge_tasks, request, tasks, partial(_count_into, self._counts))
        return session.range(0, tasks, 1, tasks).mapInArrow(function, self._plan.result_schema)

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

    def _column_merge(self, session: SparkSession, request: MergeRequest) -> ColumnMerge | None:
        """The merge without Python; None if it is not possible, or not wanted."""
        if self._columns is None and self._has_columns:
            try:
                self._columns = ColumnMerge(session)
            except RowBridgeUnavailableError:
                if self._conf.emit == "columns":
                    raise
                self._has_columns = False
        if self._columns is None:
            return None
        agents = frozenset(agent for agent, _ in request.blocks)
        obstacle = self._columns.obstacle(session, agents, request.transport, request.spilled)
        if obstacle is not None and self._conf.emit == "columns":
            raise TransportUnavailableError(f"spark.slash.emit=columns, but {obstacle}")
        if obstacle != self._obstacle:
            logger.info("merged rows reach Spark as %s", f"Arrow batches: {obstacle}" if obstacle else "columns")
        self._obstacle = obstacle
        return None if obstacle else self._columns

    def _local(self, session: SparkSession, rows: pa.Table) -> DataFrame:
        """Rows that the driver has at hand."""
        if self._bridge is None:
            self._bridge = RowBridge(session)
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, rows.schema) as writer:
            writer.write_table(rows)
        data = stream.getvalue().to_pybytes()
        schema = self._plan.result_schema.json()
        return DataFrame(self._bridge.java.merged(session._jsparkSession, data, schema), session)

    def collect_counts(self, progress: EpochProgress) -> None:
        """Add the bytes that merge tasks have read, and the rows that they have returned, since the last call."""
        if self._columns is not None:
            progress.count_columns(*self._columns.new_counts())
        if self._counts is None:
            return
        now = dict(self._counts.value)
        for transport, size in now.items():
            more = size - self._counted.get(transport, 0)
            if transport == MERGED_ROWS:
                progress.merged_rows += more
            elif more:
                progress.count(transport, more)
        self._counted = now


class _Counts(AccumulatorParam[dict[str, int]]):  # type: ignore[misc]
    def zero(self, value: dict[str, int]) -> dict[str, int]:
        return {}

    def addInPlace(self, value1: dict[str, int], value2: dict[str, int]) -> dict[str, int]:
        for transport, size in value2.items():
            value1[transport] = value1.get(transport, 0) + size
        return value1


def _count_into(counts: Any, transport: str, size: int) -> None:
    counts.add({transport: size})


def _arrow_schema(schema: StructType) -> pa.Schema:
    """Timestamps in UTC, as Spark 4.0 has them and later releases are to be told."""
    options = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **options)
