"""Aggregation, by fixed windows of event time or without: Spark's `StateStoreSaveExec` and the aggregates around it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import ClassVar

from py4j.protocol import Py4JJavaError
from pyspark.sql.types import DataType, LongType, StructField, StructType, _parse_datatype_json_string

from pyslash.plan.catalyst import JavaObject, elements, items
from pyslash.plan.emission import Emission
from pyslash.plan.functions import Aggregate, aggregate_of
from pyslash.plan.identity import PlanIdentity
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.plan.types import native_type
from pyslash.plan.window import NO_WATERMARK_US, TimeWindow

_NO_WATERMARK_MS = -(1 << 63)


@dataclass(frozen=True)
class Column:
    """A column that crosses into native code."""

    type: str
    nullable: bool
    sql: str


@dataclass(frozen=True)
class Aggregation:
    """An aggregation of a query that is covered.

    `text` is the plan as native code reads it (docs/block-format.md); column 0 of the input is the event time.
    `slots` says of each further column which key, or behind those which aggregate's input, it is: what several of them
    read is carried once. Spark evaluates every expression. `fingerprint` is a digest of all that decides which rows
    there are. `scan_obstacle` is why only Spark can read the input, if it were of Parquet files. `watermarks` counts
    the input's `withWatermark()`: a union may have several. `thinned`: the plan has only some of a row's windows, too
    many for Spark to plan in each micro-batch.
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

    @cached_property
    def identity(self) -> PlanIdentity:
        """What state of this query can be told by from state of another."""
        return PlanIdentity(self.text, tuple(column.sql for column in self.columns), self.time.sql)

    @cached_property
    def emission(self) -> Emission:
        """Which groups reach the sink."""
        return Emission(self.mode, self.window, bool(self.keys))

    @cached_property
    def _input_columns(self) -> str:
        return _input_columns(self.slots, self.columns)

    @classmethod
    def of(cls, bridge: JavaObject, plan: JavaObject, node: JavaObject, mode: OutputMode, thinned: bool) -> Aggregation:
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
        found = _understood(lambda: bridge.aggregate(plan, node, mode))
        window = _window(_understood(lambda: found.window(thinned)))
        time = found.time()
        time_type = native_type(str(time.dataType().simpleString()), "the event time")
        columns: list[Column] = []
        slots: list[int] = []
        carried: list[JavaObject] = []

        def column(slot: int, expression: JavaObject, what: str) -> int:
            """Index (1-based) of an input column."""
            for index, known in enumerate(carried, 1):
                if known.semanticEquals(expression):
                    return index
            if not expression.deterministic():
                raise Uncovered(f"{what} is not deterministic")
            native = native_type(str(expression.dataType().simpleString()), what)
            columns.append(Column(native, bool(expression.nullable()), str(found.describe(expression))))
            slots.append(slot)
            carried.append(expression)
            return len(columns)

        keys = [
            column(slot, key, f"the grouping expression {found.describe(key)}")
            for slot, key in enumerate(elements(found.keys()))
        ]
        aggregates: list[Aggregate] = []
        inputs: list[list[int]] = []
        slot = count(len(keys))
        for function, values in zip(items(found.functions()), elements(found.inputs()), strict=True):
            expressions = elements(values)
            aggregates.append(aggregate_of(function, expressions))
            inputs.append([column(next(slot), value, aggregates[-1].sql) for value in expressions])
        schema = _result_schema(found, time)
        if not aggregates:
            # SELECT DISTINCT k: groups without aggregates. The row count that groups keep anyway serves as one.
            aggregates, inputs = [Aggregate("count", False, "count(1)")], [[]]
            schema = schema.add("count", LongType(), False)
        return cls(
            mode=mode,
            window=window,
            time=Column(time_type, True, str(found.describe(time))),
            keys=[columns[index - 1] for index in keys],
            aggregates=aggregates,
            columns=columns,
            slots=slots,
            text=_text(window, columns, keys, aggregates, inputs),
            result_schema=schema,
            scan_obstacle=bridge.scanObstacle(found.input(_input_columns(slots, columns))),
            watermarks=len(found.watermarks()),
            thinned=thinned,
            fingerprint=hashlib.sha256(str(found.fingerprint()).encode()).hexdigest(),
        )

    def cut(self, bridge: JavaObject, plan: JavaObject, node: JavaObject) -> AggregationCut:
        """The aggregation in the plan of a micro-batch.

        Raises:
            Uncovered: Spark has planned this micro-batch otherwise.
        """
        return AggregationCut(_understood(lambda: bridge.aggregate(plan, node, self.mode)), self._input_columns)


class AggregationCut:
    """An aggregation cut out of the physical plan of a micro-batch."""

    def __init__(self, java: JavaObject, columns: str) -> None:
        """`java`: the `io.pyslash.StreamingAggregate`; `columns`: of the input, as it takes them."""
        self._java = java
        self._columns = columns

    @property
    def late_us(self) -> int:
        """Rows of windows that end at or before this are late; of no group where there is no watermark."""
        return _microseconds(int(self._java.lateWatermark()))

    @property
    def eviction_us(self) -> int:
        """Windows that end at or before this are closed."""
        return _microseconds(int(self._java.evictionWatermark()))

    @property
    def is_without_rows(self) -> bool:
        """Whether the micro-batch has no input."""
        return bool(self._java.isWithoutRows())

    @cached_property
    def watermarks(self) -> list[JavaObject]:
        """Spark's operators below that collect event times."""
        return elements(self._java.watermarks())

    def reset_counts(self) -> None:
        """Rows below are going to be read once more: what Spark has counted of them is forgotten."""
        self._java.resetCounts()

    def input(self) -> JavaObject:
        """The event time and the columns, as a physical plan."""
        return _understood(lambda: self._java.input(self._columns))

    def above(self, session: JavaObject, merged: JavaObject, schema: JavaObject) -> JavaObject:
        """The Dataset of the query's result, with its schema, over merged rows."""
        return self._java.above(session, merged, schema)

    def count(self, **metrics: int) -> None:
        """Set Spark's own metrics of the operator."""
        self._java.count(" ".join(f"{name}={value}" for name, value in metrics.items()))


def _understood(call: Callable[[], JavaObject]) -> JavaObject:
    """What the call gives; what the JVM does not understand is a reason, anything else an error."""
    try:
        return call()
    except Py4JJavaError as error:
        if str(error.java_exception.getClass().getName()).endswith("OnlySpark"):
            raise Uncovered(str(error.java_exception.getMessage())) from error
        raise


def _input_columns(slots: list[int], columns: list[Column]) -> str:
    """As `io.pyslash.StreamingAggregate` takes them: one text, since py4j sends a list element by element."""
    return " ".join(f"{slot}{'?' if column.nullable else ''}" for slot, column in zip(slots, columns, strict=True))


def _window(parameters: Iterable[int]) -> TimeWindow:
    found = list(parameters)
    return TimeWindow(*found) if found else TimeWindow.all_time()


def _microseconds(milliseconds: int) -> int:
    return milliseconds * 1000 if milliseconds != _NO_WATERMARK_MS else NO_WATERMARK_US


def _result_schema(found: JavaObject, time: JavaObject) -> StructType:
    """Schema of merged rows: window_start, window_end, keys, aggregates, as Spark types them."""
    bound = _spark_type(time)
    fields = [StructField("window_start", bound, False), StructField("window_end", bound, False)]
    fields += [
        StructField(f"result{index}", _spark_type(target), bool(target.nullable()))
        for index, target in enumerate(elements(found.results()))
    ]
    return StructType(fields)


def _spark_type(attribute: JavaObject) -> DataType:
    return _parse_datatype_json_string(attribute.dataType().json())


def _text(
    window: TimeWindow,
    columns: list[Column],
    keys: list[int],
    aggregates: list[Aggregate],
    inputs: list[list[int]],
) -> str:
    """The plan as native code reads it; docs/block-format.md has the grammar."""
    lines = ["pyslash-plan 1", f"window {window.size_us} {window.slide_us} {window.start_offset_us}"]
    lines += [f"column {c.type} {int(c.nullable)}" for c in columns]
    lines += [f"key {index}" for index in keys]
    lines += [
        f"aggregate {a.function} {','.join(map(str, of)) or '-'} {int(a.ansi)} {a.parameter}".rstrip()
        for a, of in zip(aggregates, inputs, strict=True)
    ]
    return "\n".join(lines) + "\n"
