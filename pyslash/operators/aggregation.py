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

from pyslash.cluster.live_state import LiveBlock
from pyslash.emit.merge import HomeUpdate
from pyslash.emit.merging import Merging
from pyslash.operators.base import Merged, MergeInputs, RunTools, StatefulOperator
from pyslash.plan.catalyst import JavaObject, elements, items, understood
from pyslash.plan.columns import Column, InputColumns
from pyslash.plan.cut import JavaCut
from pyslash.plan.emission import Emission
from pyslash.plan.evolution import Evolution
from pyslash.plan.functions import Aggregate, aggregate_of
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.plan.spec import AggregateSpec, PlanSpec
from pyslash.plan.types import native_type
from pyslash.plan.window import TimeWindow
from pyslash.spark.execution import SparkBatch
from pyslash.state.manifest import Manifest

_BOUNDS = 2  # columns of merged rows before the keys: of the window

# Columns (1-based) of keys, the aggregates, and the columns that each of them reads.
Groups = tuple[list[int], list[Aggregate], list[list[int]]]


@dataclass(frozen=True, kw_only=True)
class AggregationPlan(OperatorPlan):
    """An aggregation of a query that is covered.

    `slots` says of each column which key, or behind those which aggregate's input, it is: what several of them read is
    carried once. `result_schema` is that of merged rows: the bounds of the window, keys, aggregates. `emitted` are its
    columns in the order that the query has them in, if its state has its keys in another one.
    """

    node: ClassVar[str] = "StateStoreSaveExec"

    aggregates: list[Aggregate]
    slots: list[int]
    result_schema: StructType
    emitted: tuple[str, ...] = ()

    def evolved(self, evolution: Evolution) -> Self:
        """The same, over the columns that the state of an earlier query has become."""
        without_slot = len(self.columns) - len(self.slots)
        slots = [self.slots[source - 1 - without_slot] for source in evolution.sources[without_slot:]]
        return self._over(evolution, slots)

    def _over(self, evolution: Evolution, slots: list[int]) -> Self:
        fields, keys = self.result_schema.fields, evolution.keys
        at = [*range(_BOUNDS), *(_BOUNDS + key for key in keys), *range(_BOUNDS + len(keys), len(fields))]
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
        window = cls._window(found, windows_truncated)
        functions = cls._functions(found)
        cls._check_buffers(found, functions, window)
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
            spec=cls._spec(found, window, carried.columns, keys, _calls(aggregates, inputs)),
            result_schema=schema,
            scan_obstacle=bridge.scanObstacle(found.input(_input_columns(carried.slots, carried.columns))),
            windows_truncated=windows_truncated,
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
        _keep_buffers(found, self.aggregates, self.window)
        return JavaCut(found)

    # What of this other operators do in another way.

    @classmethod
    def _found(cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode) -> JavaObject:
        """The `io.pyslash.catalyst.StreamingOperator`."""
        return understood(lambda: bridge.aggregate(plan, node, mode))

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
    def _check_buffers(cls, found: JavaObject, functions: list[Aggregate], window: TimeWindow) -> None:
        """Pass if native code can keep the buffers that Spark's own code makes for functions.

        Raises:
            Uncovered: the message is the reason.
        """
        for function in functions:
            if function.is_buffer and not found.isTimed():
                raise Uncovered(
                    f"{function.sql} has no native form, and the buffers that Spark's own code makes for it pile up; "
                    "it is covered over time windows with a watermark, in append and update mode"
                )
            if not function.merges_anyhow and window.overlap > 1:
                raise Uncovered(
                    f"{function.sql} depends on the order in which Spark reads and merges the rows of a window, and "
                    "these windows overlap"
                )

    @classmethod
    def _input(cls, found: JavaObject, functions: list[Aggregate]) -> InputColumns:
        """The columns that no key and no aggregate reads. Behind a group's rows, those of its buffers have nulls."""
        return InputColumns(found.describe, all_nullable=_has_buffers(functions))

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

    def __init__(self, plan: AggregationPlan, run: RunTools) -> None:
        super().__init__(plan, run)
        self._emitted = plan.emitted
        self._merging = Merging(run.session, plan.text, plan.result_schema, plan.emission, run.conf, run.reading)

    def merge(self, batch: SparkBatch, inputs: MergeInputs) -> Merged:
        """Merge the groups that the epoch emits: now, if they are few, else when the sink runs the plan."""
        kept, blocks = self._kept(inputs.manifest), self._read(inputs)
        rows, figures = self._merging.merge(batch.session, blocks, inputs.windows, kept)
        return Merged(batch.over(rows.select(*self._emitted) if self._emitted else rows), figures)

    def new_counts(self) -> dict[str, int]:
        """What tasks have read and returned since the last call."""
        return self._merging.new_counts()

    def forget(self) -> None:
        """Have executors drop the groups that they keep."""
        self._merging.forget()

    def _kept(self, manifest: Manifest) -> HomeUpdate:
        """What executors keep of the epoch's groups."""
        return HomeUpdate(manifest.before, manifest.state, manifest.epoch, manifest.emitted_us)

    def _read(self, inputs: MergeInputs) -> list[LiveBlock]:
        """The blocks that have what the epoch emits."""
        return inputs.blocks


def _input_columns(slots: list[int], columns: list[Column]) -> str:
    """As `io.pyslash.catalyst.StreamingAggregate` takes them: one text, since py4j sends a list element by element."""
    of_slots = columns[len(columns) - len(slots) :]
    return json.dumps(
        [{"slot": slot, "nullable": column.nullable} for slot, column in zip(slots, of_slots, strict=True)]
    )


def _has_buffers(functions: list[Aggregate]) -> bool:
    return any(function.is_buffer for function in functions)


def _keep_buffers(found: JavaObject, functions: list[Aggregate], window: TimeWindow) -> None:
    """Has Spark's own code compute what has no native form."""
    kept = [number for number, function in enumerate(functions) if function.is_buffer]
    if kept:
        found.keepBuffers(json.dumps(kept), window.pane_us, window.start_offset_us)


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
        types.append(BinaryType() if aggregate.is_finished_by_spark else _spark_type(target))
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
