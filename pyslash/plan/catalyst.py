"""Catalyst's trees seen from Python: the few ways in which pyslash reads expressions and plans.

Everything here goes through py4j, at a fraction of a millisecond for each call. So the plan of a query is read once,
when the query starts, and an epoch makes one call to `io.pyslash.Bridge`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from pyslash.plan.reasons import Uncovered

JavaObject = Any


def name_of(node: JavaObject) -> str:
    """The class name of a tree node without its package: `ProjectExec`, `AttributeReference`."""
    return str(node.getClass().getSimpleName())


def items(seq: JavaObject) -> list[JavaObject]:
    """A Scala `Seq` as a list."""
    return [seq.apply(i) for i in range(seq.size())]


def elements(found: JavaObject) -> list[JavaObject]:
    """A Java `List` as a list; py4j's own iterator finds its end by an exception, which costs a scan of every jar."""
    return [found.get(i) for i in range(found.size())]


def children(node: JavaObject) -> list[JavaObject]:
    """The children of an expression or plan."""
    return items(node.children())


def optional(option: JavaObject) -> JavaObject | None:
    """A Scala `Option` as a value or None."""
    return option.get() if option.isDefined() else None


def frame_of(plan: JavaObject, session: SparkSession) -> DataFrame:
    """The rows of a logical plan."""
    jvm: Any = session._jvm
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan), session)


def answer(text: JavaObject) -> Any:
    """What the JVM tells as JSON: each element of its lists, and each field of its objects, would be a call."""
    return json.loads(str(text))


def understood(call: Callable[[], JavaObject]) -> JavaObject:
    """What the call gives; what the JVM does not understand is a reason, anything else an error."""
    try:
        return call()
    except Py4JJavaError as error:
        if str(error.java_exception.getClass().getName()).endswith("OnlySpark"):
            raise Uncovered(str(error.java_exception.getMessage())) from error
        raise
