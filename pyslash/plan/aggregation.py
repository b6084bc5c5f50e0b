"""The `AggregationPlan`: everything that pyslash needs to know of a query, read once from its analysed plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructField, StructType, _parse_datatype_json_string

from pyslash.plan.aggregates import Aggregate, aggregate_of
from pyslash.plan.catalyst import Catalyst, JavaObject, children, expr_id, items, name_of, references, walk
from pyslash.plan.identity import PlanIdentity
from pyslash.plan.reasons import Uncovered
from pyslash.plan.types import native_type
from pyslash.plan.window import TimeWindow, WindowedInput, windowed_input

# Operators with state of their own under the aggregation: Spark then delays the watermark between the two.
_STATEFUL = frozenset(
    {
        "Aggregate",
        "Distinct",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "FlatMapGroupsWithState",
        "FlatMapGroupsInPandasWithState",
        "TransformWithState",
        "TransformWithStateInPySpark",
        "TransformWithStateInPandas",
        "GlobalLimit",
        "LocalLimit",
    }
)


@dataclass(frozen=True)
class Column:
    """A column that crosses into native code."""

    expression: JavaObject
    type: str
    nullable: bool
    sql: str


@dataclass
class AggregationPlan:
    """A covered query.

    `text` is the plan as native code reads it; column 0 of the input is the event time. `input` is the job's own plan
    under the aggregation with a projection to exactly the columns that native code needs: Spark evaluates every
    expression. `finish()` puts the job's projections and filters back on top of merged rows.
    """

    window: TimeWindow
    time_type: str
    keys: list[Column]
    aggregates: list[Aggregate]
    columns: list[Column]
    text: str
    input: JavaObject
    _catalyst: Catalyst
    _time: JavaObject = field(repr=False)
    _targets: list[JavaObject] = field(repr=False)
    _output: list[JavaObject] = field(repr=False)
    _above: list[JavaObject] = field(repr=False)

    @property
    def session(self) -> SparkSession:
        """The session whose query this is."""
        return self._catalyst.spark

    @cached_property
    def result_schema(self) -> StructType:
        """Schema of merged rows: window_start, window_end, keys, aggregates, as Spark types them."""
        time = _spark_type(self._time)
        fields = [StructField("window_start", time, False), StructField("window_end", time, False)]
        fields += [
            StructField(f"result{i}", _spark_type(target), bool(target.nullable()))
            for i, target in enumerate(self._targets[1:])
        ]
        return StructType(fields)

    @cached_property
    def identity(self) -> PlanIdentity:
        """What state of this query can be told by from state of another."""
        return PlanIdentity(self.text, tuple(str(column.expression.sql()) for column in self.columns))

    def input_dataset(self) -> JavaObject:
        """The streaming Dataset of the input rows."""
        return self._catalyst.dataset(self._catalyst.spark._jsparkSession, self.input)

    @property
    def analysed_input(self) -> JavaObject:
        """The logical plan of `input_dataset`."""
        return self.input_dataset().queryExecution().analyzed()

    def finish(self, session: JavaObject, merged: JavaObject) -> JavaObject:
        """The job's result over merged rows.

        Args:
            session: the JVM session of the micro-batch.
            merged: Dataset with the columns of the native result: window_start, window_end, keys, aggregates.
        """
        catalyst = self._catalyst
        renamed, output = self._projections
        plan = catalyst.project_seq(output, catalyst.project_seq(renamed, merged.queryExecution().analyzed()))
        for node in reversed(self._above):
            plan = catalyst.rebuild(node, [plan])
        return catalyst.dataset(session, plan)

    @cached_property
    def _projections(self) -> tuple[JavaObject, JavaObject]:
        """The two lists of expressions between merged rows and the job's own operators.

        The first gives columns of the native result the identities that the job's expressions know them by; it finds
        them by name, so that one list serves every epoch.
        """
        catalyst = self._catalyst
        start, end, *rest = (catalyst.named(name) for name in self.result_schema.names)
        window = catalyst.expression(
            "CreateNamedStruct",
            catalyst.seq([catalyst.literal("start", "string"), start, catalyst.literal("end", "string"), end]),
        )
        renamed = [
            catalyst.alias(value, str(target.name()), same_id_as=target)
            for value, target in zip([window, *rest], self._targets, strict=True)
        ]
        return catalyst.seq(renamed), catalyst.seq(self._output)


def plan_aggregation(df: DataFrame) -> AggregationPlan:
    """The plan of a streaming DataFrame.

    Raises:
        Uncovered: the query is not one that pyslash takes over; the message is the reason.
    """
    if not df.isStreaming:
        raise Uncovered("it is not a streaming DataFrame")
    catalyst = Catalyst(df.sparkSession)
    above: list[JavaObject] = []
    node = df._jdf.queryExecution().analyzed()
    while name_of(node) in ("Project", "Filter", "SubqueryAlias", "View"):
        if name_of(node) in ("Project", "Filter"):
            above.append(node)
        node = children(node)[0]
    if name_of(node) != "Aggregate":
        raise Uncovered(_not_an_aggregation(node))
    source = windowed_input(catalyst, children(node)[0])
    _check_input(source.plan)
    return _assemble(catalyst, node, source, above)


def _not_an_aggregation(node: JavaObject) -> str:
    if any(name_of(inner) == "Aggregate" for inner in walk(node)):
        return f"the operator {name_of(node)} above the aggregation is not covered"
    return "it has no aggregation: there is no state to keep"


def _check_input(plan: JavaObject) -> None:
    watermarks = 0
    for node in walk(plan):
        name = name_of(node)
        if not node.isStreaming():
            continue
        watermarks += name == "EventTimeWatermark"
        if name in _STATEFUL:
            raise Uncovered(f"another stateful operator ({name}) feeds the aggregation")
        if name == "Join" and all(child.isStreaming() for child in children(node)):
            raise Uncovered("a join of two streams feeds the aggregation")
    if watermarks != 1:
        raise Uncovered(f"the input has {watermarks} watermarks; pyslash covers exactly one")


def _assemble(
    catalyst: Catalyst, aggregate: JavaObject, source: WindowedInput, above: list[JavaObject]
) -> AggregationPlan:
    unavailable = source.struct_ids | source.derived_ids
    columns: list[Column] = []

    def column(expression: JavaObject, what: str) -> int:
        """Index (1-based) of an input column; the same expression is carried once."""
        if references(expression) & unavailable:
            raise Uncovered(f"{what} reads the window itself; only the result may")
        for index, known in enumerate(columns, 1):
            if known.expression.semanticEquals(expression):
                return index
        native = native_type(str(expression.dataType().simpleString()), what)
        columns.append(Column(expression, native, bool(expression.nullable()), what))
        return len(columns)

    window_attribute = None
    groupings: list[tuple[JavaObject, JavaObject]] = []  # (grouping expression, the attribute that stands for it)
    key_columns: list[int] = []
    for grouping in items(aggregate.groupingExpressions()):
        if name_of(grouping) == "AttributeReference" and expr_id(grouping) in source.struct_ids:
            if window_attribute is not None:
                raise Uncovered("it groups by more than one window")
            window_attribute = grouping
            continue
        if not grouping.deterministic():
            raise Uncovered(f"the grouping expression {grouping.sql()} is not deterministic")
        if any(grouping.semanticEquals(known) for known, _ in groupings):
            continue
        key_columns.append(column(grouping, f"grouping expression {grouping.sql()}"))
        groupings.append((grouping, _attribute_for(catalyst, grouping, f"key{len(groupings)}")))
    if window_attribute is None:
        raise Uncovered("there is no time window() among the grouping expressions")

    aggregates: list[Aggregate] = []
    aggregate_columns: list[int | None] = []
    results: list[tuple[JavaObject, JavaObject]] = []

    def standing_for(node: JavaObject) -> JavaObject | None:
        name = name_of(node)
        if name == "AggregateExpression":
            for known, attribute in results:
                if known.semanticEquals(node):
                    return attribute
            found = aggregate_of(catalyst, node)
            aggregates.append(found)
            aggregate_columns.append(None if found.input is None else column(found.input, found.sql))
            results.append((node, _attribute_for(catalyst, node, f"aggregate{len(results)}")))
            return results[-1][1]
        for grouping, attribute in groupings:
            if grouping.semanticEquals(node):
                return attribute
        return None

    output = [
        _keep_name(catalyst, item, catalyst.transform(item, standing_for))
        for item in items(aggregate.aggregateExpressions())
    ]
    if not aggregates:
        # SELECT DISTINCT window, k: groups without aggregates. The row count that groups keep anyway serves as one.
        aggregates.append(Aggregate("count", None, False, "count(1)"))
        aggregate_columns.append(None)
        one = catalyst.alias(catalyst.literal(1, "bigint"), "aggregate0")
        results.append((one, one.toAttribute()))

    carried = [catalyst.alias(source.time, "event_time")]
    carried += [catalyst.alias(c.expression, f"column{i}") for i, c in enumerate(columns, 1)]
    time_type = native_type(str(source.time.dataType().simpleString()), "the event time")
    return AggregationPlan(
        window=source.window,
        time_type=time_type,
        keys=[columns[i - 1] for i in key_columns],
        aggregates=aggregates,
        columns=columns,
        text=_text(source.window, columns, key_columns, aggregates, aggregate_columns),
        input=catalyst.project(carried, source.plan),
        _catalyst=catalyst,
        _time=source.time,
        _targets=[window_attribute, *(a for _, a in groupings), *(a for _, a in results)],
        _output=output,
        _above=above,
    )


def _spark_type(attribute: JavaObject) -> DataType:
    return _parse_datatype_json_string(attribute.dataType().json())


def _attribute_for(catalyst: Catalyst, expression: JavaObject, name: str) -> JavaObject:
    """The attribute that stands for a grouping or aggregate in the result: itself, or a fresh one of its type."""
    if name_of(expression) == "AttributeReference":
        return expression
    return catalyst.alias(expression, name).toAttribute()


def _keep_name(catalyst: Catalyst, item: JavaObject, rewritten: JavaObject) -> JavaObject:
    """A result column keeps its name and id even where it was a bare grouping attribute."""
    if name_of(rewritten) == "Alias" or expr_id(item) == expr_id(rewritten):
        return rewritten
    return catalyst.alias(rewritten, str(item.name()), same_id_as=item)


def _text(
    window: TimeWindow,
    columns: list[Column],
    keys: list[int],
    aggregates: list[Aggregate],
    aggregate_columns: list[int | None],
) -> str:
    """The plan as native code reads it; docs/block-format.md has the grammar."""
    lines = ["pyslash-plan 1", f"window {window.size_us} {window.slide_us} {window.start_offset_us}"]
    lines += [f"column {c.type} {int(c.nullable)}" for c in columns]
    lines += [f"key {index}" for index in keys]
    lines += [
        f"aggregate {a.function} {'-' if index is None else index} {int(a.ansi)}"
        for a, index in zip(aggregates, aggregate_columns, strict=True)
    ]
    return "\n".join(lines) + "\n"
