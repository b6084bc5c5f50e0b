"""The epochs of a processor in Python: tasks run it over the epoch's rows before the epoch's manifest is written.

    update: rows -> the home of their key -> the user's processor -> blocks of changed state, and of what it gives
    merge:  what the processor has given, read from those blocks

The manifest names the blocks, so a replayed epoch gives the same rows and state without running the processor again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from pyslash.emit.merge import HomeUpdate, MergeRequest
from pyslash.emit.merging import Merging, arrow_schema
from pyslash.operators.base import EpochInputs, Merged, MergeInputs, RunTools, StatefulOperator, Update
from pyslash.operators.transform.frame_conf import FrameConf
from pyslash.operators.transform.plan import GroupStatePlan, TransformCut, TransformPlan, result_schema
from pyslash.operators.transform.rows import InputShape
from pyslash.operators.transform.task import RESULT, Places, Times, Transform
from pyslash.plan.window import NO_WATERMARK_US
from pyslash.spark.execution import SparkBatch, check_times
from pyslash.spark.job import collect
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.state.manifest import Manifest
from pyslash.state.processor_blocks import first_home, next_generation, next_pane, panes_of_homes
from pyslash.state.receipt import Receipt
from pyslash.state.version import heads_of

_ROWS = 3  # the column of merged rows that has streams
_NO_WATERMARK_MS = -1
# State moves into a new generation once blocks hold so many times the entries that there are, and so many at least.
_MOST_REPLACED = 4
_FEWEST_ENTRIES = 10_000


@dataclass(frozen=True)
class _Counted:
    """What the tasks of an update have counted."""

    rows: int = 0
    late: int = 0
    keys: int = 0
    updated: int = 0
    given: int = 0


class TransformWithState(StatefulOperator):
    """The epochs of a processor in Python."""

    plan_type = TransformPlan

    def __init__(self, plan: TransformPlan, run: RunTools) -> None:
        super().__init__(plan, run)
        self._transform = plan
        self._bridge = JvmBridge(run.session).java
        self._merging = Merging(run.session, plan.text, result_schema(), plan.emission, run.conf, run.reading)
        self._counted: _Counted | None = None  # of the last update; None: of no epoch of this run
        self._first: int | None = None

    def pane(self, epoch: int, last_pane: int) -> int:
        """Where the epoch's rows go: in a new generation if most of the state has been replaced, or the run begins with
        state of variables that the processor deletes.
        """
        if self._first is None:
            self._first = epoch
        if self._transform.dropped and epoch == self._first:
            return next_generation(last_pane)
        if self._counted is None:
            return next_pane(last_pane)
        entries = self._run.coordinator.version.size_within(*panes_of_homes(last_pane)).groups
        replaced = entries > max(_FEWEST_ENTRIES, _MOST_REPLACED * self._counted.keys)
        return next_generation(last_pane) if replaced else next_pane(last_pane)

    def update(self, inputs: EpochInputs) -> Update:
        """Run the processor over the epoch's rows."""
        batch, run = inputs.batch, self._run
        cut = batch.cut
        assert isinstance(cut, TransformCut)
        cut.reset_counts()
        run.ingest.path = "rows"  # through Spark; what fails in Python is the job's own
        homes = cut.moment["homes"]
        tasks = min(homes, batch.session.sparkContext.defaultParallelism)
        order = self._order(inputs, cut, Places(homes, tasks, *self._panes(inputs)))
        session: Any = batch.session._jsparkSession
        rows = DataFrame(self._bridge.byHomes(session, cut.input(), cut.initial(), tasks), batch.session)
        found = collect(rows.mapInArrow(order, RESULT))
        counts = (sum(one[name] for one in found) for name in ("rows", "late", "keys", "updated", "given"))
        self._counted = _Counted(*counts)
        check_times(cut, self._counted.rows)
        receipts = [Receipt.parse(bytes(one.receipt)) for one in found]
        return Update(receipts, [], self._counted.rows, self._counted.late)

    def _panes(self, inputs: EpochInputs) -> tuple[int, int, int]:
        return first_home(inputs.last_pane), first_home(inputs.pane), inputs.pane

    def _order(self, inputs: EpochInputs, cut: TransformCut, places: Places) -> Transform:
        plan, run = self._transform, self._run
        update = run.ingest.publisher(inputs.batch, inputs.epoch, NO_WATERMARK_US)
        watermark_us = cut.eviction_us
        return Transform(
            update=replace(update, plan=plan.text),
            function=plan.function,
            frames=FrameConf.of(inputs.batch.session),
            shape=InputShape(
                plan.columns_at.keys,
                plan.columns_at.values,
                plan.time_at,
                cut.late_us,
                plan.has_time,
                cut.initial_columns,
            ),
            times=Times(
                plan.time_mode,
                cut.moment["batch_ms"],
                watermark_us // 1000 if watermark_us != NO_WATERMARK_US else _NO_WATERMARK_MS,
            ),
            places=places,
            state=self._state(panes_of_homes(inputs.last_pane)),
            dropped=plan.dropped,
            home_bytes=run.conf.home_bytes,
        )

    def _state(self, panes: tuple[int, int]) -> MergeRequest:
        """All live blocks of these panes; a home reads its own pane of those that it has not folded."""
        reading = self._run.reading
        return MergeRequest(
            plan=self._transform.text,
            windows=[],
            changed_in=None,
            panes=panes,
            blocks=heads_of(self._run.coordinator.version.within(*panes)),
            query_id=reading.query_id,
            token=reading.token,
            transport=reading.transport,
            schema=arrow_schema(result_schema()),
            timeout_seconds=reading.timeout_seconds,
        )

    def merge(self, batch: SparkBatch, inputs: MergeInputs) -> Merged:
        """What the processor has given in this epoch, whenever that was."""
        manifest, session = inputs.manifest, batch.session
        kept = HomeUpdate(manifest.step, manifest.epoch, manifest.emitted_us)
        packed, figures = self._merging.merge(session, inputs.version, inputs.windows, kept, inputs.changes)
        schema = self._transform.function.given_schema
        rows = self._bridge.unpacked(session._jsparkSession, packed._jdf, _ROWS, schema)
        return Merged(batch.over(DataFrame(rows, session)), figures)

    def new_counts(self) -> dict[str, int]:
        """What tasks have read and returned since the last call."""
        return self._merging.new_counts()

    def forget(self) -> None:
        """Homes go with the Python workers, which Spark ends when they have been idle for a minute."""

    def close(self) -> None:
        """The run is over."""
        self._merging.close()

    def counts(self, manifest: Manifest, groups: int, merged_rows: int | None) -> dict[str, int]:
        """Spark's metrics of the operator: keys that have state, and those whose state has changed."""
        counted = self._counted or _Counted()
        return {"numTotalStateRows": counted.keys, "numUpdatedStateRows": counted.updated}


class ApplyInPandasWithState(TransformWithState):
    """The epochs of a function of `applyInPandasWithState`."""

    plan_type = GroupStatePlan
