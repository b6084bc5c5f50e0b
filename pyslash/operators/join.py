"""The join of two streams: Spark's `StreamingSymmetricHashJoinExec`.

Rows of both sides are kept as they are, keyed by the bytes of their join keys. Which ones join is for Spark's own code
to say, which evaluates the join's condition (docs/design/029).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

from pyspark.sql import SparkSession

from pyslash.emit.column_merge import ColumnMerge, JoinRequest
from pyslash.emit.homes import Homes, bytes_of
from pyslash.emit.merge import HomeUpdate
from pyslash.emit.merging import MergeFigures
from pyslash.operators.base import Merged, MergeInputs, RunTools, StatefulOperator
from pyslash.plan.catalyst import JavaObject, understood
from pyslash.plan.change.identity import PlanIdentity
from pyslash.plan.columns import Column
from pyslash.plan.cut import JavaCut
from pyslash.plan.emission import EpochEmission
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.plan.spec import PlanSpec
from pyslash.plan.window import TimeWindow
from pyslash.spark.execution import SparkBatch
from pyslash.state.version import heads_of, length_of
from pyslash.units import Epoch, Micros

# Blocks of rows are dropped by so much of the watermark at a time.
_PANE_US = 60_000_000
_KEY = 5


@dataclass(frozen=True)
class JoinEmission(EpochEmission):
    """A pane is of the watermark by which rows are evicted, and what is emitted is no pane's."""

    def windows(
        self, held: set[int], changed: set[int], emitted_us: Micros, watermark_us: Micros, pane: int
    ) -> list[int]:
        """None."""
        return []


@dataclass(frozen=True, kw_only=True)
class JoinPlan(OperatorPlan):
    """A join of two streams that is covered.

    `window` is a pane of the watermark by which rows are evicted. `columns` are what native code keeps of a row. They
    have the SQL of what decides which rows there are, so that state of one join is not taken for another's.
    `row_schemas`: the columns of rows of the left and of the right side, as Spark's JSON.
    """

    node: ClassVar[str] = "StreamingSymmetricHashJoinExec"
    gives: ClassVar[str] = "rows: joined by executors"
    may_repartition: ClassVar[bool] = False

    type_sql: str
    condition_sql: str
    layout: str
    row_schemas: tuple[str, str]

    @cached_property
    def identity(self) -> PlanIdentity:
        """Says also what the rows look like, for those who read them without Spark."""
        return replace(super().identity, row_schemas=self.row_schemas)

    @cached_property
    def emission(self) -> JoinEmission:
        """Which panes are needed."""
        return JoinEmission(self.mode, self.window, True)

    @property
    def grouping(self) -> str:
        """What rows are joined by, as users read it."""
        return f"{self.type_sql.lower()} join"

    @property
    def backfill_obstacle(self) -> str:
        """Rows that have left the state would have joined."""
        return (
            "it joins two streams. Rows of the history belong to rows of the other side that the watermark has removed "
            "from the state by now, and outer joins have emitted others as unmatched"
        )

    @property
    def explain_lines(self) -> list[tuple[str, str]]:
        """What it does, for `explain`: names, and what there is of each."""
        return [("join", self.type_sql.lower()), ("on", self.condition_sql), ("rows", self.layout)]

    @classmethod
    def of(
        cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode, windows_truncated: bool
    ) -> Self:
        """Read it from the physical plan of a query that has not started.

        Raises:
            Uncovered: the message is the reason.
        """
        found = understood(lambda: bridge.join(plan, node))
        type_sql, condition, layout = str(found.typeSql()), str(found.conditionSql()), str(found.layout())
        columns = [
            Column("int8", False, type_sql),
            Column("int64", False, "expires"),
            Column("int64", False, "epoch"),
            Column("int64", False, "evicted"),
            Column("binary", False, condition),
            Column("binary", False, layout),
        ]
        return cls(
            mode=mode,
            time=Column("timestamp", True, "the watermark"),
            keys=[columns[_KEY - 1]],
            columns=columns,
            spec=PlanSpec(
                window=TimeWindow(_PANE_US, _PANE_US, 0),
                columns=tuple(column.spec for column in columns),
                keys=(_KEY,),
                row_bits=0,
                joins=True,
            ),
            scan_obstacle="it is a join of two streams",
            windows_truncated=False,
            fingerprint=hashlib.sha256(str(found.fingerprint()).encode()).hexdigest(),
            type_sql=type_sql,
            condition_sql=condition,
            layout=layout,
            row_schemas=(str(found.rowSchema(0)), str(found.rowSchema(1))),
        )

    def without(self, bridge: JavaObject, plan: JavaObject, node: JavaObject, session: SparkSession) -> JavaObject:
        """The plan with no rows instead of the join, in which the operators above it are found."""
        return understood(lambda: bridge.join(plan, node)).overNothing(session._jsparkSession)

    def cut(self, bridge: JavaObject, plan: JavaObject, node: JavaObject) -> JoinCut:
        """The operator in the plan of a micro-batch.

        Raises:
            Uncovered: Spark has planned this micro-batch otherwise.
        """
        found = understood(lambda: bridge.join(plan, node))
        if str(found.layout()) != self.layout:
            raise Uncovered(f"this micro-batch joins {found.layout()}, and the query began with {self.layout}")
        return JoinCut(found)


class JoinCut(JavaCut):
    """A join cut out of the physical plan of a micro-batch."""

    def __init__(self, java: JavaObject) -> None:
        """`java`: the `io.pyslash.join.StreamingJoin`."""
        super().__init__(java)
        self._began = (0, 0)

    def begin(self, epoch: Epoch, evicted_us: Micros, columns: str) -> None:
        """The rows of `input` are those of this epoch, before which rows had been evicted until then."""
        self._began = (epoch, evicted_us)

    @property
    def late_rows(self) -> int:
        """Rows that were left out as late while the input was read."""
        return int(self.java.lateRows())

    def input(self) -> JavaObject:
        """The rows of both sides with what native code has to know of them, as a physical plan."""
        epoch, evicted_us = self._began
        return understood(lambda: self.java.input(epoch, evicted_us))


class StreamJoin(StatefulOperator):
    """The epochs of a join: executors join the rows, and keep those of both sides from epoch to epoch."""

    plan_type = JoinPlan

    def __init__(self, plan: JoinPlan, run: RunTools) -> None:
        super().__init__(plan, run)
        self._columns = ColumnMerge(run.session, run.reading)
        self._homes = Homes("rows of the join", run.conf, self._columns)

    def merge(self, batch: SparkBatch, inputs: MergeInputs) -> Merged:
        """Join the rows of the epoch, which are read and joined when the sink runs the plan."""
        manifest, version, session = inputs.manifest, inputs.version, batch.session
        kept = HomeUpdate(manifest.evicting_step, manifest.epoch, manifest.emitted_us, closing_us=manifest.watermark_us)
        changed = version.of_epoch(manifest.epoch)
        opened = self._homes.open(session, kept, bytes_of(version.size), length_of(changed))
        rest, blocks = (version, changed) if opened is not None and opened.follow else (None, version.blocks())
        tasks = opened.ranges if opened is not None else session.sparkContext.defaultParallelism
        request = JoinRequest(
            operator=batch.cut.java,
            plan=self.plan.text,
            blocks=heads_of(blocks),
        )
        joined = self._columns.joined(request, kept, tasks, opened is not None, rest)
        return Merged(joined, MergeFigures(opened.name if opened is not None else f"{tasks} tasks", "rows"))

    def new_counts(self) -> dict[str, int]:
        """What tasks have read and returned since the last call."""
        return self._homes.new_counts()

    def forget(self) -> None:
        """Have executors drop the rows that they keep."""
        self._homes.forget()

    def close(self) -> None:
        """The run is over."""
        self._columns.close()
