"""Catalyst's trees seen from Python: the few ways in which pyslash reads and rebuilds expressions and plans.

Everything here goes through py4j, a fraction of a millisecond a call, and as much for each dot in a class's name: a
query's plan is read once, when it starts, and what every epoch needs again is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

JavaObject = Any

# PySpark's own: the attribute metadata key that EventTimeWatermark sets, in milliseconds.
WATERMARK_KEY = "spark.watermarkDelayMs"


def name_of(node: JavaObject) -> str:
    """The class name of a tree node without its package: `Project`, `AttributeReference`."""
    return str(node.getClass().getSimpleName())


def items(seq: JavaObject) -> list[JavaObject]:
    """A Scala `Seq` as a list."""
    return [seq.apply(i) for i in range(seq.size())]


def children(node: JavaObject) -> list[JavaObject]:
    """The children of an expression or plan."""
    return items(node.children())


def walk(node: JavaObject) -> Iterator[JavaObject]:
    """The node and everything under it, parents first."""
    yield node
    for child in children(node):
        yield from walk(child)


def expr_id(attribute: JavaObject) -> int:
    """The id by which Catalyst knows an attribute, whatever its name."""
    return int(attribute.exprId().id())


def references(expression: JavaObject) -> set[int]:
    """The ids of the attributes that an expression reads."""
    return {expr_id(node) for node in walk(expression) if name_of(node) == "AttributeReference"}


def optional(option: JavaObject) -> JavaObject | None:
    """A Scala `Option` as a value or None."""
    return option.get() if option.isDefined() else None


class Catalyst:
    """Builds Catalyst objects for one session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.jvm: Any = spark._jvm
        self._expressions: Any = self.jvm.org.apache.spark.sql.catalyst.expressions

    def seq(self, values: Iterable[JavaObject]) -> JavaObject:
        """A Scala `Seq` of the values."""
        array = self.jvm.java.util.ArrayList()
        for value in values:
            array.add(value)
        return self.jvm.PythonUtils.toSeq(array)

    def literal(self, value: object, type_ddl: str) -> JavaObject:
        """A literal of a SQL type; None is a typed null."""
        data_type = self.jvm.org.apache.spark.sql.types.DataType.fromDDL(type_ddl)
        return self._expressions.Literal.create(value, data_type)

    def null_like(self, expression: JavaObject) -> JavaObject:
        """A null literal of the expression's type."""
        return self._expressions.Literal.create(None, expression.dataType())

    def named(self, column: str) -> JavaObject:
        """A column of whatever plan this will be put above, to be found by its name."""
        return self.jvm.org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute.quoted(column)

    def expression(self, class_name: str, *args: JavaObject) -> JavaObject:
        """A Catalyst expression by its class name."""
        return getattr(self._expressions, class_name)(*args)

    def alias(self, child: JavaObject, name: str, same_id_as: JavaObject | None = None) -> JavaObject:
        """`child AS name`, under the expression id of another attribute or a new one."""
        identity = same_id_as.exprId() if same_id_as is not None else self._expressions.NamedExpression.newExprId()
        return self._expressions.Alias(child, name, identity, self.seq([]), self._none(), self.seq([]))

    def _none(self) -> JavaObject:
        return self.jvm.scala.Option.empty()

    def project(self, expressions: Iterable[JavaObject], child: JavaObject) -> JavaObject:
        """A `Project` plan node."""
        return self.project_seq(self.seq(expressions), child)

    def project_seq(self, expressions: JavaObject, child: JavaObject) -> JavaObject:
        """A `Project` plan node of expressions that are a Scala `Seq` already."""
        return self._project(expressions, child)

    def dataset(self, session: JavaObject, plan: JavaObject) -> JavaObject:
        """A (classic) Dataset of a logical plan in a JVM session."""
        return self._dataset.ofRows(session, plan)

    @cached_property
    def _project(self) -> Any:
        return self.jvm.org.apache.spark.sql.catalyst.plans.logical.Project

    @cached_property
    def _dataset(self) -> Any:
        return self.jvm.org.apache.spark.sql.classic.Dataset

    def rebuild(self, node: JavaObject, new_children: list[JavaObject]) -> JavaObject:
        """The same node over other children."""
        return node.withNewChildren(self.seq(new_children))

    def transform(self, node: JavaObject, rule: Callable[[JavaObject], JavaObject | None]) -> JavaObject:
        """The tree with every topmost node for which `rule` gives a replacement replaced."""
        replacement = rule(node)
        if replacement is not None:
            return replacement
        old = children(node)
        new = [self.transform(child, rule) for child in old]
        if all(a is b for a, b in zip(old, new, strict=True)):
            return node
        return self.rebuild(node, new)
