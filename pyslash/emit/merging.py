"""Merges the windows that an epoch emits: in the driver if they are small, else in merge tasks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from inspect import signature

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyslash.conf import Conf
from pyslash.emit.column_merge import ColumnMerge, ReadOptions
from pyslash.emit.homes import Homes, Opened, bytes_of
from pyslash.emit.merge import PREFIXES, HomeUpdate, MergeRequest, merge
from pyslash.plan.emission import Emission
from pyslash.plan.functions.distinct import result_bytes
from pyslash.plan.spec import PlanSpec
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.state.version import LiveBlock, Size, StateVersion, heads_of, length_of
from pyslash.transport import close_transports
from pyslash.units import Epoch

_MOST_TASKS_A_CORE = 32


@dataclass(frozen=True)
class MergeFigures:
    """How an epoch's rows are merged: by whom, and how they reach Spark; and what the driver has merged by itself."""

    merged_by: str
    emit: str = ""
    merged_rows: int = 0
    bytes_read: dict[str, int] = field(default_factory=dict)
    merge_task_ms: float = 0.0


class Merging:
    """Makes the DataFrame of merged rows of an epoch."""

    def __init__(
        self, session: SparkSession, plan: str, schema: StructType, emission: Emission, conf: Conf, reading: ReadOptions
    ) -> None:
        """`plan` is the text of the state's, `schema` is that of merged rows, `reading`: how tasks read blocks.

        Raises:
            RowBridgeUnavailableError: the JVM has no native code.
        """
        self._plan = plan
        self._result_schema = schema
        self._emission = emission
        self._conf = conf
        self._reading = reading
        self._schema: pa.Schema = arrow_schema(schema)
        self._nothing: DataFrame | None = None
        self._bridge = JvmBridge(session)
        self._takes_rows = bool(self._bridge.java.takesMerged())
        self._columns = ColumnMerge(session, reading)
        self._homes = Homes("groups", conf, self._columns)

    def merge(
        self,
        session: SparkSession,
        version: StateVersion,
        windows: list[int],
        kept: HomeUpdate,
        alone: list[LiveBlock] | None = None,
    ) -> tuple[DataFrame, MergeFigures]:
        """Merged rows of these windows: a local relation, or a plan that merges when the sink runs it. Of what is live,
        blocks that are given `alone` have all of them.

        Merging never consumes: the sink may run the result more than once.
        """
        if not windows:
            if self._nothing is None:
                self._nothing = self._local(session, self._schema.empty_table())
            return self._nothing, MergeFigures("none")
        emission, window = self._emission, self._emission.window
        panes = (windows[0], windows[-1] + window.size_us)
        if alone is None:
            holding = list(version.within(*panes))
            size = version.size_within(*panes)
        else:
            holding = alone
            size = Size()
            for pane, groups, length in (one for block in alone for one in block.panes):
                if panes[0] <= pane < panes[1]:
                    size.add(groups, length)
        held = size.bytes
        request = MergeRequest(
            plan=self._plan,
            windows=windows,
            changed_in=kept.epoch if emission.changes_only else None,
            panes=panes,
            blocks=heads_of(holding),
            query_id=self._reading.query_id,
            token=self._reading.token,
            transport=self._conf.transport,
            schema=self._schema,
            timeout_seconds=self._conf.agent_call_timeout,
            sessions=(kept.pane, kept.evicted_us, kept.closing_us) if emission.needs_all_parts else None,
        )
        # A pane counts once for each of these windows that contain it.
        produced = produced_bytes(self._plan, size, min(window.overlap, len(windows)))
        if self._takes_rows and produced <= self._conf.merge_driver_bytes and not self._homes.ranges:
            return self._by_driver(session, request)
        if emission.keeps_groups:
            changed = self._changed_bytes(version, kept.epoch, produced)
            opened = self._homes.open(session, kept, self._kept_bytes(version, kept.epoch), changed)
            if opened is not None:
                return self._by_homes(session, request, version, kept, opened)
        segments = max((block.head.prefix_ranges for block in holding), default=1)
        tasks = merge_tasks(self._conf, session.sparkContext.defaultParallelism, held, produced, segments)
        if emission.needs_all_parts:
            # Put together before they are read, even if nothing of them is kept.
            whole = self._whole(request, version, kept)
            rows = self._columns.rows(session, whole, self._result_schema, tasks, kept)
        else:
            rows = self._columns.rows(session, request, self._result_schema, tasks)
        return rows, MergeFigures(f"{tasks} tasks", "columns")

    def _by_driver(self, session: SparkSession, request: MergeRequest) -> tuple[DataFrame, MergeFigures]:
        read: dict[str, int] = {}

        def count(transport: str, size: int) -> None:
            read[transport] = read.get(transport, 0) + size

        begin = time.perf_counter_ns()
        rows = pa.Table.from_batches(merge(request, 0, PREFIXES, count), self._schema)
        spent_ms = round((time.perf_counter_ns() - begin) / 1e6, 3)
        figures = MergeFigures("driver", merged_rows=rows.num_rows, bytes_read=read, merge_task_ms=spent_ms)
        return self._local(session, rows), figures

    def _by_homes(
        self, session: SparkSession, request: MergeRequest, version: StateVersion, kept: HomeUpdate, opened: Opened
    ) -> tuple[DataFrame, MergeFigures]:
        rest = version if opened.follow else None
        whole = self._whole(request, version, kept, opened.follow)
        rows = self._columns.rows(session, whole, self._result_schema, opened.ranges, kept, keeps=True, rest=rest)
        return rows, MergeFigures(opened.name, "columns")

    def _whole(
        self, request: MergeRequest, version: StateVersion, kept: HomeUpdate, changes_only: bool = False
    ) -> MergeRequest:
        """Of all groups that are kept, whichever are emitted now; or of the epoch's changes of them."""
        panes = self._emission.kept_panes(kept.evicted_us, kept.pane)
        blocks = version.of_epoch(kept.epoch) if changes_only else version.within(*panes)
        return replace(request, panes=panes, blocks=heads_of(blocks))

    def _kept_bytes(self, version: StateVersion, epoch: Epoch) -> int:
        """Bytes that executors need to keep all groups."""
        overlap, size = self._emission.window.overlap, version.size
        needed, counted = overlap * bytes_of(size), overlap * size.groups
        # In blocks a group counts as often as it has been changed; homes have each once, and say how many.
        changed = sum(groups for block in version.of_epoch(epoch) for _, groups, _ in block.panes)
        if held := self._homes.groups_with(overlap * changed):
            needed = needed * min(held, counted) // max(counted, 1)
        if self._emission.new_only:
            return needed // 2  # of groups that have been emitted only the keys are kept
        return needed

    def _changed_bytes(self, version: StateVersion, epoch: Epoch, produced: int) -> int:
        """What homes have to look at, at most: the epoch's blocks for each window, or all that is emitted."""
        if self._emission.changes_only or self._emission.needs_all_parts:
            return self._emission.window.overlap * length_of(version.of_epoch(epoch))
        return produced

    def new_counts(self) -> dict[str, int]:
        """What merge tasks have read, and the rows that they have returned, since the last call."""
        return self._homes.new_counts()

    def forget(self) -> None:
        """Have executors drop the groups that they keep."""
        self._homes.forget()

    def close(self) -> None:
        """The run is over."""
        self._columns.close()
        close_transports(self._reading.query_id)

    def _local(self, session: SparkSession, rows: pa.Table) -> DataFrame:
        """Rows that the driver has at hand."""
        stream = pa.BufferOutputStream()
        if rows.num_rows:
            with pa.ipc.new_stream(stream, rows.schema) as writer:
                writer.write_table(rows.combine_chunks())  # one batch, not one for each window
        data = stream.getvalue().to_pybytes()
        schema = self._result_schema.json()
        return DataFrame(self._bridge.java.merged(session._jsparkSession, data, schema), session)


def merge_tasks(conf: Conf, cores: int, held: int, produced: int, segments: int) -> int:
    """How many tasks are to make `produced` bytes of `held` bytes of blocks, the finest of which have so many segments.

    A task costs its start, and one that is narrower than segments reads what belongs to others, too. Its memory is for
    what it reads: what comes out is streamed.
    """
    tasks = min(max(cores, -(-held // conf.merge_task_bytes)), _MOST_TASKS_A_CORE * cores)
    if not conf.worth_a_task:
        return tasks
    return min(tasks, max(segments, -(-produced // conf.worth_a_task)))


def arrow_schema(schema: StructType) -> pa.Schema:
    """Of merged rows: timestamps in UTC, as Spark 4.0 has them and later releases are to be told."""
    options = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **options)


def produced_bytes(plan: str, held: Size, windows: int) -> int:
    """What a merge of so much gives, at most: registers that blocks list are words then."""
    words = sum(
        result_bytes(int(aggregate.parameter))
        for aggregate in PlanSpec.decode(plan).aggregates
        if aggregate.function == "approx_count_distinct"
    )
    return windows * (held.bytes + held.groups * words)
