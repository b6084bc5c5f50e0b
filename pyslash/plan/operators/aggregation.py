"""Aggregation, by fixed windows of event time or without: Spark's `StateStoreSaveExec` and the aggregates around it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from itertools import count
from typing import ClassVar, Self

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, DataType, LongType, StructField, StructType, _parse_datatype_json_string

from pyslash.plan.catalyst import JavaObject, elements, items
from pyslash.plan.emission import Emission
from pyslash.plan.evolution import Evolution
from pyslash.plan.functions import Aggregate, aggregate_of
from pyslash.plan.identity import PlanIdentity
from pyslash.plan.operators.base import EventTimes
from pyslash.plan.operators.columns import Column, InputColumns
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.plan.types import native_type
from pyslash.plan.window import NO_WATERMARK_US, TimeWindow

_NO_WATERMARK_MS = -(1 << 63)
_BOUNDS = 2  # columns of merged rows before the keys: of the window

# Columns (1-based) of keys, the aggregates, and the columns that each of them reads.
Groups = tuple[list[int], list[Aggregate], list[list[int]]]


@dataclass(frozen=True)
class Aggregation:
    """An aggregation of a query that is covered.

    `text` is the plan as native code reads it (docs/block-format.md); column 0 of the input is the event time.
    `slots` says of each further column which key, or behind those which aggregate's input, it is: what several of them
    read is carried once. Spark evaluates every expression. `fingerprint` is a digest of all that decides which rows
    there are. `scan_obstacle` is why only Spark can read the input, if it were of Parquet files. `watermarks` counts
    the input's `withWatermark()`: a union may have several. `thinned`: the plan has only some of a row's windows, too
    many for Spark to plan in each micro-batch. `stands_on_others`: its input has rows of other operators with state.
    `since` and `is_adopted` as of `PlanIdentity`. `emitted` are the columns of `result_schema` in the order that the
    query has them in, if its state has its keys in another one.
    """

    node: ClassVar[str] = "StateStoreSaveExec"

    mode: OutputMode
    window: TimeWindow
    time: Column
    keys: list[Column]
    aggregates: list[Aggregate]
    columns: list[Column]
    slots: list[int]
    text: str
    result_schema: StructType
    fingerprint: str
    scan_obstacle: str | None
    watermarks: int
    thinned: bool
    stands_on_others: bool = False
    since: tuple[int, ...] = ()
    is_adopted: bool = False
    emitted: tuple[str, ...] = ()

    @cached_property
    def identity(self) -> PlanIdentity:
        """What state of this query can be told by from state of another."""
        columns = tuple(column.sql for column in self.columns)
        return PlanIdentity(self.text, columns, self.time.sql, self.since, self.is_adopted)

    def evolved(self, evolution: Evolution) -> Self:
        """The same, over the columns that the state of an earlier query has become."""
        without_slot = len(self.columns) - len(self.slots)
        slots = [self.slots[source - 1 - without_slot] for source in evolution.sources[without_slot:]]
        return self._over(evolution, slots)

    def _over(self, evolution: Evolution, slots: list[int]) -> Self:
        plan = evolution.plan
        columns = [Column(column.type, column.nullable, column.sql) for column in plan.inputs]
        fields, keys = self.result_schema.fields, evolution.keys
        at = [*range(_BOUNDS), *(_BOUNDS + key for key in keys), *range(_BOUNDS + len(keys), len(fields))]
        return replace(
            self,
            columns=columns,
            keys=[columns[place - 1] for place in plan.key_places],
            slots=slots,
            text=plan.text,
            since=plan.since,
            is_adopted=plan.is_adopted,
            # Of a join it is empty: only keys in another order change it.
            result_schema=StructType([fields[place] for place in at]) if keys else self.result_schema,
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
    def told(self) -> list[tuple[str, str]]:
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

    @cached_property
    def carried(self) -> str:
        """The columns of the input, as `OperatorCut.begin` takes them."""
        return _input_columns(self.slots, self.columns)

    @classmethod
    def of(cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode, thinned: bool) -> Self:
        """Read it from the physical plan of a query that has not started.

        Args:
            bridge: the JVM's `io.pyslash.Bridge`.
            plan: the physical plan.
            node: the operator in it.
            mode: of the query.
            thinned: the plan has only some of a row's windows.

        Raises:
            Uncovered: the message is the reason.
        """
        found = cls._found(bridge, plan, node, mode)
        window = cls._window(found, thinned)
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
            window=window,
            time=time_of(found),
            keys=[carried.columns[index - 1] for index in keys],
            aggregates=aggregates,
            columns=carried.columns,
            slots=carried.slots,
            text=plan_text(cls._window_lines(found, window), carried.columns, keys, _calls(aggregates, inputs)),
            result_schema=schema,
            scan_obstacle=bridge.scanObstacle(found.input(_input_columns(carried.slots, carried.columns))),
            watermarks=len(found.delays().split()),
            thinned=thinned,
            fingerprint=hashlib.sha256(str(found.fingerprint()).encode()).hexdigest(),
        )

    def without(self, bridge: JavaObject, plan: JavaObject, node: JavaObject, session: SparkSession) -> JavaObject:
        """The plan with no rows instead of the operator, in which the operators above it are found."""
        found = self._found(bridge, plan, node, self.mode)
        return found.overNothing(session._jsparkSession, self.result_schema.json())

    def cut(self, bridge: JavaObject, plan: JavaObject, node: JavaObject) -> AggregationCut:
        """The operator in the plan of a micro-batch.

        Raises:
            Uncovered: Spark has planned this micro-batch otherwise.
        """
        found = self._found(bridge, plan, node, self.mode)
        _keep_buffers(found, self.aggregates, self.window)
        return AggregationCut(found)

    # What of this other operators do in another way.

    @classmethod
    def _found(cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode) -> JavaObject:
        """The `io.pyslash.StreamingOperator`."""
        return understood(lambda: bridge.aggregate(plan, node, mode))

    @classmethod
    def _window(cls, found: JavaObject, thinned: bool) -> TimeWindow:
        parameters = list(understood(lambda: found.window(thinned)))
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
    def _window_lines(cls, found: JavaObject, window: TimeWindow) -> list[str]:
        """The lines of the plan's text before its columns."""
        return [window.line]


class AggregationCut:
    """An aggregation cut out of the physical plan of a micro-batch."""

    def __init__(self, java: JavaObject) -> None:
        """`java`: the `io.pyslash.StreamingAggregate`."""
        self._java = java
        self._columns = ""

    @property
    def late_us(self) -> int:
        """Rows of windows that end at or before this are late; of no group where there is no watermark."""
        return self._times[0]

    @property
    def eviction_us(self) -> int:
        """Windows that end at or before this are closed."""
        return self._times[1]

    @property
    def late_rows(self) -> int:
        """None: native code counts them."""
        return 0

    @property
    def is_without_rows(self) -> bool:
        """Whether the micro-batch has no input."""
        return bool(self._times[2])

    @property
    def collects_times(self) -> bool:
        """Whether Spark collects the event times of all rows of the input."""
        return bool(self._times[3])

    @cached_property
    def _times(self) -> tuple[int, int, int, int]:
        late, eviction, is_without_rows, collects_times = map(int, self._java.times().split())
        return _microseconds(late), _microseconds(eviction), is_without_rows, collects_times

    @property
    def delays_ms(self) -> list[int]:
        """The delays of Spark's operators below that collect event times, from the top down, in milliseconds."""
        return [int(delay) for delay in self._java.delays().split()]

    def event_times(self) -> list[EventTimes]:
        """What each of these operators has collected; of a job's rows when it has ended."""
        lines = (line.split() for line in self._java.eventTimes().splitlines())
        return [(int(count), int(least), int(greatest), float(mean)) for count, least, greatest, mean in lines]

    def add_event_times(self, watermark: int, times: EventTimes) -> None:
        """Have one of them collect these as well, by its place in `delays_ms`."""
        self._java.addEventTimes(watermark, *times)

    def reset_counts(self) -> None:
        """Rows below are going to be read once more: what Spark has counted of them is forgotten."""
        self._java.resetCounts()

    def begin(self, epoch: int, evicted_us: int, columns: str) -> None:
        """Its rows are the same in any epoch; their columns are these."""
        self._columns = columns

    def input(self) -> JavaObject:
        """The event time and the columns, as a physical plan."""
        return understood(lambda: self._java.input(self._columns))

    def over(self, merged: JavaObject) -> JavaObject:
        """The plan of the micro-batch with merged rows instead of the operator."""
        return understood(lambda: self._java.over(merged))

    def count(self, **metrics: int) -> None:
        """Set Spark's own metrics of the operator."""
        self._java.count(" ".join(f"{name}={value}" for name, value in metrics.items()))


def understood(call: Callable[[], JavaObject]) -> JavaObject:
    """What the call gives; what the JVM does not understand is a reason, anything else an error."""
    try:
        return call()
    except Py4JJavaError as error:
        if str(error.java_exception.getClass().getName()).endswith("OnlySpark"):
            raise Uncovered(str(error.java_exception.getMessage())) from error
        raise


def _input_columns(slots: list[int], columns: list[Column]) -> str:
    """As `io.pyslash.StreamingAggregate` takes them: one text, since py4j sends a list element by element."""
    of_slots = columns[len(columns) - len(slots) :]
    return " ".join(f"{slot}{'?' if column.nullable else ''}" for slot, column in zip(slots, of_slots, strict=True))


def _microseconds(milliseconds: int) -> int:
    return milliseconds * 1000 if milliseconds != _NO_WATERMARK_MS else NO_WATERMARK_US


def _has_buffers(functions: list[Aggregate]) -> bool:
    return any(function.is_buffer for function in functions)


def _keep_buffers(found: JavaObject, functions: list[Aggregate], window: TimeWindow) -> None:
    """Has Spark's own code compute what has no native form."""
    kept = [str(number) for number, function in enumerate(functions) if function.is_buffer]
    if kept:
        found.keepBuffers(" ".join(kept), window.pane_us, window.start_offset_us)


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


def plan_text(window_lines: list[str], columns: list[Column], keys: list[int], calls: list[str]) -> str:
    """The plan as native code reads it; docs/block-format.md has the grammar.

    Args:
        window_lines: what stands before the columns.
        columns: of the input, but the event time.
        keys: columns (1-based).
        calls: what stands behind the keys.
    """
    lines = ["pyslash-plan 1", *window_lines]
    lines += [f"column {c.type} {int(c.nullable)}" for c in columns]
    lines += [f"key {index}" for index in keys]
    return "\n".join([*lines, *calls]) + "\n"


def _calls(aggregates: list[Aggregate], inputs: list[list[int]]) -> list[str]:
    """The lines of aggregates, each of which reads these columns."""
    return [
        f"aggregate {a.function} {','.join(map(str, of)) or '-'} {int(a.ansi)} {a.parameter}".rstrip()
        for a, of in zip(aggregates, inputs, strict=True)
    ]
