"""Aggregation, by fixed windows of event time or without: Spark's `StateStoreSaveExec` and the aggregates around it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from itertools import count
from typing import ClassVar, Self

from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, DataType, LongType, StructField, StructType, _parse_datatype_json_string

from pyslash.emit.merge import BOUNDS, HomeUpdate
from pyslash.emit.merging import Merging
from pyslash.operators.base import EpochInputs, Merged, MergeInputs, RunTools, StatefulOperator, Update
from pyslash.operators.buffer_folding import BufferFolding
from pyslash.plan.catalyst import JavaObject, elements, items, understood
from pyslash.plan.change.evolution import Evolution
from pyslash.plan.columns import Column, InputColumns
from pyslash.plan.cut import JavaCut
from pyslash.plan.emission import Emission
from pyslash.plan.functions import Aggregate, aggregate_of, folding
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.spec import AggregateSpec, PlanSpec
from pyslash.plan.types import is_native, native_type
from pyslash.plan.window import TimeWindow
from pyslash.spark.execution import SparkBatch
from pyslash.state.manifest import Manifest
from pyslash.state.version import LiveBlock

# Columns (1-based) of keys, the aggregates, and the columns that each of them reads.
Groups = tuple[list[int], list[Aggregate], list[list[int]]]


@dataclass(frozen=True, kw_only=True)
class AggregationPlan(OperatorPlan):
    """An aggregation of a query that is covered.

    `slots` says of each column which keys, or behind those which aggregates' inputs, it is: what several of them read
    is carried once. `shape` is the JVM's `StreamingOperator.Shape`, that of each micro-batch. `result_schema` is that
    of merged rows: the bounds of the window, keys, aggregates. `emitted` are its columns in the order that the query
    has them in, if its state has its keys in another one. `separated` are the query's windows, if they overlap and a
    row stands in each of them by itself: `window` is then their last slide.
    """

    node: ClassVar[str] = "StateStoreSaveExec"
    by_keys: ClassVar[bool] = False
    """Whether a window is a key like any other, which Spark makes."""

    aggregates: list[Aggregate]
    slots: list[list[int]]
    shape: str
    result_schema: StructType
    emitted: tuple[str, ...] = ()
    separated: TimeWindow | None = None

    def evolved(self, evolution: Evolution) -> Self:
        """The same, over the columns that the state of an earlier query has become."""
        without_slot = len(self.columns) - len(self.slots)
        slots = [self.slots[source - 1 - without_slot] for source in evolution.sources[without_slot:]]
        return self._over(evolution, slots)

    def _over(self, evolution: Evolution, slots: list[list[int]]) -> Self:
        fields, keys = self.result_schema.fields, evolution.keys
        at = [*range(BOUNDS), *(BOUNDS + key for key in keys), *range(BOUNDS + len(keys), len(fields))]
        return replace(
            super().evolved(evolution),
            slots=slots,
            result_schema=StructType([fields[index] for index in at]) if keys else self.result_schema,
            emitted=tuple(field.name for field in fields) if keys else (),
        )

    @cached_property
    def emission(self) -> Emission:
        """Which groups reach the sink."""
        return Emission(self.mode, self.window, bool(self.keys))

    @property
    def grouping(self) -> str:
        """What rows are grouped by besides keys, as users read it."""
        if self.separated is not None:
            return f"{self.separated}, each with rows of its own"
        panes = "" if self.window.is_all_time else f", panes of {timedelta(microseconds=self.window.pane_us)}"
        return f"{self.window}{panes}"

    @property
    def explain_lines(self) -> list[tuple[str, str]]:
        """What it does, for `explain`: names, and what there is of each."""
        time = "" if self.window.is_all_time else f", of {self.time.sql}"
        return [
            ("window", f"{self.grouping}{time}"),
            *(("key", f"{key.sql}: {key.type}") for key in self.keys),
            *(
                ("aggregate", f"{aggregate.sql}{' in buffers of Spark' if aggregate.is_buffer else ''}")
                for aggregate in self.aggregates
            ),
        ]

    @property
    def summary(self) -> str:
        """What it does, in one line of a log."""
        return f"{self.grouping}; keys: {len(self.keys)}, aggregates: {len(self.aggregates)}"

    @property
    def has_buffers(self) -> bool:
        """Whether some of its state are buffers that Spark's own code makes."""
        return _has_buffers(self.aggregates)

    @property
    def folds_buffers(self) -> bool:
        """Whether no watermark ends groups that have such buffers."""
        return any(aggregate.folds for aggregate in self.aggregates)

    @property
    def backfill_obstacle(self) -> str:
        """Why its state cannot be put together with what another run has made of other rows; empty if it can."""
        if self.folds_buffers:
            return (
                "it has functions that Spark's own code computes, of groups that no watermark ends. Their buffers are "
                "folded now and then, and those of another run are not in the order of this one's"
            )
        if self.separated is not None:
            return "it has functions that Spark's own code computes over overlapping windows"
        return ""

    @property
    def ordered_by_arrival(self) -> str:
        """Its functions that go by the order of rows, or all of it."""
        return ", ".join(one.sql for one in self.aggregates if one.goes_by_order) or super().ordered_by_arrival

    @cached_property
    def input_columns(self) -> str:
        """The columns of the input, as `OperatorCut.begin` takes them."""
        return _input_columns(self.slots, self.columns)

    @classmethod
    def of(
        cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode, windows_truncated: bool
    ) -> Self:
        """Read it from the physical plan of a query that has not started.

        Raises:
            Uncovered: the message is the reason.
        """
        found = cls._found(bridge, plan, node, mode)
        shape = str(found.shape())
        window = cls._window(found, windows_truncated)
        functions = cls._functions(found)
        functions = functions if found.isTimed() else folding(functions)
        separated = window if cls._separates_windows(found, functions, window) else None
        window = _separate(found, window) if separated is not None else window
        _keep_buffers(found, functions, window)
        carried = cls._input(found, functions)
        keys, aggregates, inputs = cls._groups(found, carried, functions)
        schema = _result_schema(found, aggregates)
        if not aggregates:
            # SELECT DISTINCT k: groups without aggregates. The row count that groups keep anyway serves as one.
            aggregates, inputs = [Aggregate("count", False, "count(1)")], [[]]
            schema = schema.add("count", LongType(), False)
        return cls(
            mode=mode,
            time=time_of(found),
            keys=[carried.columns[index - 1] for index in keys],
            aggregates=aggregates,
            columns=carried.columns,
            slots=carried.slots,
            shape=shape,
            spec=cls._spec(found, window, carried.columns, keys, _calls(aggregates, inputs)),
            result_schema=schema,
            scan_obstacle=bridge.scanObstacle(found.input(_input_columns(carried.slots, carried.columns))),
            windows_truncated=windows_truncated,
            separated=separated,
            fingerprint=hashlib.sha256(str(found.fingerprint()).encode()).hexdigest(),
        )

    def without(self, bridge: JavaObject, plan: JavaObject, node: JavaObject, session: SparkSession) -> JavaObject:
        """The plan with no rows instead of the operator, in which the operators above it are found."""
        found = self._found(bridge, plan, node, self.mode)
        return found.overNothing(session._jsparkSession, self.result_schema.json())

    def cut(self, bridge: JavaObject, plan: JavaObject, node: JavaObject) -> JavaCut:
        """The operator in the plan of a micro-batch.

        Raises:
            Uncovered: Spark has planned this micro-batch otherwise.
        """
        found = self._found(bridge, plan, node, self.mode)
        understood(lambda: found.keepShape(self.shape))
        if self.separated is not None:
            _separate(found, self.separated)
        _keep_buffers(found, self.aggregates, self.window)
        return JavaCut(found)

    # What of this other operators do in another way.

    @classmethod
    def _found(cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode) -> JavaObject:
        """The `io.pyslash.catalyst.StreamingOperator`."""
        return understood(lambda: bridge.aggregate(plan, node, mode, cls.by_keys))

    @classmethod
    def _window(cls, found: JavaObject, windows_truncated: bool) -> TimeWindow:
        parameters = list(understood(lambda: found.window(windows_truncated)))
        return TimeWindow(*parameters) if parameters else TimeWindow.all_time()

    @classmethod
    def _functions(cls, found: JavaObject) -> list[Aggregate]:
        """The aggregates, in the order of Spark's."""
        return [
            aggregate_of(function, elements(values))
            for function, values in zip(items(found.functions()), elements(found.inputs()), strict=True)
        ]

    @classmethod
    def _separates_windows(cls, found: JavaObject, functions: list[Aggregate], window: TimeWindow) -> bool:
        """Whether rows stand in each of their windows by themselves: buffers do that are of no use in panes.

        Raises:
            Uncovered: native code cannot keep the buffers that Spark's own code makes for functions.
        """
        buffers = [one for one in functions if one.is_buffer]
        in_panes = found.isTimed() and all(one.merges_anyhow for one in buffers)
        return window.overlap > 1 and bool(buffers) and not in_panes

    @classmethod
    def _input(cls, found: JavaObject, functions: list[Aggregate]) -> InputColumns:
        """The columns that no key and no aggregate reads. Behind a group's rows, those of its buffers have nulls."""
        return InputColumns(found, all_nullable=_has_buffers(functions))

    @classmethod
    def _groups(cls, found: JavaObject, carried: InputColumns, functions: list[Aggregate]) -> Groups:
        keys = [
            carried.add(slot, key, f"the grouping expression {found.describe(key)}")
            for slot, key in enumerate(elements(found.keys()))
        ]
        if _has_buffers(functions):
            carried.separate()  # the rows of buffers have the keys, and no values
        inputs: list[list[int]] = []
        slot = count(len(keys))
        for function, values in zip(functions, elements(found.inputs()), strict=True):
            inputs.append([carried.add(next(slot), value, function.sql) for value in elements(values)])
        return keys, functions, inputs

    @classmethod
    def _spec(
        cls, found: JavaObject, window: TimeWindow, columns: list[Column], keys: list[int], calls: list[AggregateSpec]
    ) -> PlanSpec:
        """The plan of the state."""
        return PlanSpec(
            window=window,
            columns=tuple(column.spec for column in columns),
            keys=tuple(keys),
            aggregates=tuple(calls),
        )


class Aggregation(StatefulOperator):
    """The epochs of an aggregation: partial groups are merged, and kept there if they are emitted before they close."""

    plan_type: ClassVar[type[OperatorPlan]] = AggregationPlan
    folds: ClassVar[bool] = True

    def __init__(self, plan: AggregationPlan, run: RunTools) -> None:
        super().__init__(plan, run)
        self._emitted = plan.emitted
        self._merging = Merging(run.session, plan.text, plan.result_schema, plan.emission, run.conf, run.reading)
        self._folding = BufferFolding(plan, plan.result_schema, run) if plan.folds_buffers else None

    def update(self, inputs: EpochInputs) -> Update:
        """Turn the epoch's rows into state, and now and then the buffers of each group into one."""
        if self._folding is None or not self._folding.is_due(inputs.epoch):
            return super().update(inputs)
        folded = self._folding.fold(inputs)
        rows = self._take_rows(inputs)
        return Update([*inputs.taken, *folded, *rows], rows)

    def merge(self, batch: SparkBatch, inputs: MergeInputs) -> Merged:
        """Merge the groups that the epoch emits: now, if they are few, else when the sink runs the plan."""
        kept, version = self._kept(inputs.manifest), inputs.version
        if self._folding is not None and self.plan.emission.changes_only:
            batch.cut.java.onlyChangedIn(inputs.manifest.epoch)
        if self.plan.spec.moments and self.plan.emission.as_windows_close:
            batch.cut.java.onlyClosedBetween(inputs.manifest.emitted_us, inputs.manifest.watermark_us)
        rows, figures = self._merging.merge(batch.session, version, inputs.windows, kept, self._alone(inputs))
        return Merged(batch.over(rows.select(*self._emitted) if self._emitted else rows), figures)

    def new_counts(self) -> dict[str, int]:
        """What tasks have read and returned since the last call."""
        return self._merging.new_counts()

    def forget(self) -> None:
        """Have executors drop the groups that they keep."""
        self._merging.forget()

    def close(self) -> None:
        """The run is over."""
        self._merging.close()

    def _kept(self, manifest: Manifest) -> HomeUpdate:
        """What executors keep of the epoch's groups."""
        is_folded = self._folding is not None and self._folding.is_due(manifest.epoch)
        # They forget the buffers that others stand for.
        step = replace(manifest.step, before="") if is_folded else manifest.step
        return HomeUpdate(step, manifest.epoch, manifest.emitted_us)

    def _alone(self, inputs: MergeInputs) -> list[LiveBlock] | None:
        """The blocks that have all of what the epoch emits, if it is not in all that are live."""
        return None


def _input_columns(slots: list[list[int]], columns: list[Column]) -> str:
    """As `io.pyslash.catalyst.StreamingAggregate` takes them: one text, since py4j sends a list element by element."""
    of_slots = columns[len(columns) - len(slots) :]
    return json.dumps(
        [{"slots": read, "nullable": column.nullable} for read, column in zip(slots, of_slots, strict=True)]
    )


def _has_buffers(functions: list[Aggregate]) -> bool:
    return any(function.is_buffer for function in functions)


def _keep_buffers(found: JavaObject, functions: list[Aggregate], window: TimeWindow) -> None:
    """Has Spark's own code compute what has no native form."""
    kept = [number for number, function in enumerate(functions) if function.is_buffer]
    if kept:
        folds = any(function.folds for function in functions)
        found.keepBuffers(json.dumps(kept), window.pane_us, window.start_offset_us, folds)


def _separate(found: JavaObject, window: TimeWindow) -> TimeWindow:
    """Has rows stand in each of these windows by themselves; the windows that they are in then."""
    found.separateWindows(window.size_us, window.slide_us, window.start_offset_us)
    return TimeWindow(window.slide_us, window.slide_us, (window.start_offset_us + window.size_us) % window.slide_us)


def time_of(found: JavaObject) -> Column:
    """The event time of a `StreamingOperator`."""
    time = found.time()
    native = native_type(str(time.dataType().simpleString()), "the event time")
    return Column(native, True, str(found.describe(time)))


def _result_schema(found: JavaObject, aggregates: list[Aggregate]) -> StructType:
    """Schema of merged rows: window_start, window_end, keys, aggregates, as Spark types them.

    Keys and results that Spark has yet to make of what native code gives are binaries.
    """
    bound = _spark_type(found.time())
    keys = elements(found.keys())
    types = [_spark_type(key) for key in keys]
    results = elements(found.results())
    for target, aggregate in zip(results[len(keys) :], aggregates, strict=True):
        is_kept = not is_native(str(target.dataType().simpleString()))
        types.append(BinaryType() if aggregate.is_finished_by_spark or is_kept else _spark_type(target))
    fields = [StructField("window_start", bound, False), StructField("window_end", bound, False)]
    fields += [
        StructField(f"result{index}", kind, bool(target.nullable()))
        for index, (kind, target) in enumerate(zip(types, results, strict=True))
    ]
    return StructType(fields)


def _spark_type(expression: JavaObject) -> DataType:
    return _parse_datatype_json_string(expression.dataType().json())


def _calls(aggregates: list[Aggregate], inputs: list[list[int]]) -> list[AggregateSpec]:
    """The aggregates, each of which reads these columns."""
    return [
        AggregateSpec(one.function, tuple(of), one.ansi, one.parameter)
        for one, of in zip(aggregates, inputs, strict=True)
    ]
