"""What the JVM's own classes hide, for tests of a moment that no job brings about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from pyslash.spark.jvm_bridge import JvmBridge


class Inside:
    """A class of `io.pyslash`, whose members any package may use."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        JvmBridge(spark)  # adds the jar
        self._gateway: Any = spark.sparkContext._gateway
        loader = spark._jsparkSession.sharedState().jarClassLoader()
        self._class = self._gateway.jvm.java.lang.Class.forName(f"io.pyslash.{name}", True, loader)

    def new(self, *values: Any) -> Any:
        """By its only constructor."""
        (constructor,) = self._class.getDeclaredConstructors()
        constructor.setAccessible(True)
        return constructor.newInstance(self._array(values))

    def call(self, of: Any, method: str, *values: Any) -> Any:
        """The method of this name that takes so many values; `of`: None if it is static."""
        (found,) = (
            one
            for one in self._class.getDeclaredMethods()
            if one.getName() == method and one.getParameterCount() == len(values)
        )
        found.setAccessible(True)
        return found.invoke(of, self._array(values))

    def field(self, name: str) -> Any:
        """A `java.lang.reflect.Field`."""
        found = self._class.getDeclaredField(name)
        found.setAccessible(True)
        return found

    def _array(self, values: tuple[Any, ...]) -> Any:
        array = self._gateway.new_array(self._gateway.jvm.java.lang.Object, len(values))
        for i, value in enumerate(values):
            array[i] = value
        return array


@contextmanager
def a_task(spark: SparkSession) -> Iterator[None]:
    """The thread that answers us runs a task, which ends."""
    jvm: Any = spark._jvm
    context = getattr(getattr(jvm.org.apache.spark, "TaskContext$"), "MODULE$")
    task = context.empty()
    context.setTaskContext(task)
    try:
        yield
        task.markTaskCompleted(jvm.scala.Option.empty())
    finally:
        context.unset()
