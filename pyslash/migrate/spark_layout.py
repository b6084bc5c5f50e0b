"""What Spark's state store has of an operator: which fields of its keys and values are what."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from pyslash.errors import InvalidInputError
from pyslash.migrate.spark_buffers import Field, fields_of
from pyslash.plan.change.identity import Output, PlanIdentity
from pyslash.plan.reasons import Uncovered
from pyslash.plan.types import native_type


def check_movable(plan: PlanIdentity) -> None:
    """Pass if the state of this operator is one that Spark's state store can tell, and be told.

    Raises:
        Uncovered: the message names what it is that cannot be moved, and why.
    """
    if plan.join:
        raise Uncovered(
            "the state of a join cannot be moved between plain Spark and pyslash: pyslash also keeps in which "
            "micro-batch a row came, which Spark does not"
        )
    if plan.session:
        raise Uncovered(
            "the state of a session window cannot be moved between plain Spark and pyslash: pyslash keeps the parts of "
            "a session, of which Spark keeps one sum"
        )
    if plan.operator == "deduplication within the watermark":
        raise Uncovered(
            "the state of a deduplication within the watermark cannot be moved between plain Spark and pyslash: "
            "pyslash keeps rows in panes of the time that they expire at, of which Spark keeps the times"
        )
    if plan.spec.moments:
        raise Uncovered(
            "the state of groups by the event time itself cannot be moved between plain Spark and pyslash: pyslash "
            "keeps panes of many moments, and some of those were emitted"
        )
    if plan.window.overlap > 1:
        raise Uncovered(
            "the state of sliding windows cannot be moved between plain Spark and pyslash: pyslash keeps the slices "
            "that windows are made of, and Spark's buffers are of whole windows"
        )
    if plan.operator != "deduplication":
        for aggregate in plan.aggregates:
            if fields_of(aggregate) is None:
                raise Uncovered(
                    f"the state of {aggregate.sql} cannot be moved between plain Spark and pyslash: {_why(aggregate)}"
                )


def _why(aggregate: Output) -> str:
    if aggregate.function in ("first", "last", "max_by", "min_by"):
        return "pyslash also keeps in which micro-batch a row came, which Spark does not"
    if aggregate.function == "collect":
        return "Spark keeps one buffer of its own code a group, and pyslash one for each task"
    return "Spark keeps other sums for this function than pyslash does"


@dataclass(frozen=True)
class SparkLayout:
    """The state of an operator in Spark's store, whose keys and values are these."""

    plan: PlanIdentity
    key: StructType
    value: StructType

    def __post_init__(self) -> None:
        """Hold it against the plan.

        Raises:
            Uncovered: the state is of another query, or cannot be moved.
            InvalidInputError: it has to be exported in another order of its keys than Spark takes.
        """
        check_movable(self.plan)
        expected = [one.type for one in self.plan.keys]
        if [_native(self.key.fields[index].dataType) for index in self.places] != expected:
            if self.plan.key_order:
                raise _reordered(self.plan, self.key)
            raise _other(f"keys {self.key.simpleString()}", ", ".join(expected) or "none")
        buffers = self.buffers
        found = [(field.name, _native(field.dataType)) for field in self.value.fields]
        if self.has_values and found != [(one.name, one.type) for one in buffers]:
            wanted = ", ".join(f"{one.name} {one.type}" for one in buffers)
            raise Uncovered(
                f"plain Spark has noted the aggregates of the query's first start, {self.value.simpleString()}, and "
                f"takes no others: the query's have changed since, or it is another one ({wanted})"
            )

    @property
    def has_values(self) -> bool:
        """Whether groups have buffers: not keys that are unique, nor groups without aggregates."""
        if self.plan.operator == "deduplication":
            return False
        return bool(self.value.fields) or [one.sql for one in self.plan.aggregates] != ["count(*)"]

    @property
    def buffers(self) -> list[Field]:
        """Spark's buffers, aggregate by aggregate."""
        if self.plan.operator == "deduplication":
            return []
        return [field for aggregate in self.plan.aggregates for field in fields_of(aggregate) or []]

    @property
    def window_at(self) -> int:
        """Which field of the key is the window; -1: none."""
        if self.plan.window.is_all_time or self.plan.operator == "deduplication":
            return -1
        structs = [index for index, field in enumerate(self.key.fields) if isinstance(field.dataType, StructType)]
        if len(structs) != 1:
            raise _other(f"keys {self.key.simpleString()}", "one window, and keys that native code reads")
        return structs[0]

    @property
    def places(self) -> list[int]:
        """Of the plan's keys, which field of the key each is: Spark's stand as the query names them."""
        at = self.window_at
        found = [index for index in range(len(self.key.fields)) if index != at]
        return [found[place] for place in self.plan.key_order] or found

    def columns(self) -> list[Column]:
        """A time of the group's pane, the keys and the buffers, of rows with the columns `key` and `value`."""
        columns = [self._time(), *(_field(self.key, "key", index) for index in self.places)]
        if self.has_values:
            columns += [_field(self.value, "value", index) for index in range(len(self.value.fields))]
        elif self.plan.operator != "deduplication":
            columns.append(F.lit(1).cast("bigint"))  # a group without aggregates has seen a row
        return [column.alias(f"c{index}") for index, column in enumerate(columns)]

    def _time(self) -> Column:
        if self.plan.window.is_all_time:
            return F.lit(0).cast("timestamp")
        if self.window_at >= 0:
            return _field(self.key, "key", self.window_at).getField("start")
        timed = [index for index, one in zip(self.places, self.plan.keys, strict=True) if one.sql == self.plan.time]
        return _field(self.key, "key", timed[0])


def _field(kind: StructType, struct: str, index: int) -> Column:
    """A field by its place: several have the same name."""
    names = ",".join(f"f{index}:{field.dataType.simpleString()}" for index, field in enumerate(kind.fields))
    return F.col(struct).cast(f"struct<{names}>").getField(f"f{index}")


def _native(kind: DataType) -> str:
    try:
        return native_type(kind.simpleString(), "")
    except Uncovered:
        return str(kind.simpleString())


def _reordered(plan: PlanIdentity, key: StructType) -> InvalidInputError:
    named = [plan.keys[plan.key_order.index(at)].sql for at in range(len(plan.keys))]
    first = f"({', '.join(key.names)})"
    return InvalidInputError(
        f"the query's last start names its keys as ({', '.join(named)}), and Spark, which has noted them as {first} "
        f"when it first started, takes no other types in these places. Start it once with {first}, until a micro-batch "
        "is done"
    )


def _other(found: str, expected: str) -> Uncovered:
    return Uncovered(f"the state that plain Spark has is of another query, or in another form: {found}, not {expected}")
