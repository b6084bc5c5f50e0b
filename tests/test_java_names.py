"""What pyslash takes of Spark by name: all of it is there, and what a release lacks is said."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pyslash.errors import RowBridgeUnavailableError, UnknownSparkError
from pyslash.spark.job import slash_error
from pyslash.spark.jvm_bridge import JvmBridge


def _shim(spark: SparkSession, name: str) -> Any:
    """A class of the package that reflects."""
    JvmBridge(spark)  # adds the jar
    loader = spark._jsparkSession.sharedState().jarClassLoader()
    jvm: Any = spark._jvm
    return jvm.java.lang.Class.forName(f"io.pyslash.shim.{name}", True, loader)


def _array(spark: SparkSession, of: Any, *values: Any) -> Any:
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(of, len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array


def _called(spark: SparkSession, class_name: str, method: str, *names: str) -> None:
    lang: Any = spark._jvm.java.lang  # type: ignore[union-attr]
    shim = _shim(spark, class_name)
    found = next(one for one in shim.getDeclaredMethods() if one.getName() == method)
    found.setAccessible(True)
    arguments = [_array(spark, lang.String, *names)] if names else []
    found.invoke(None, _array(spark, lang.Object, *arguments))


def test_this_release_has_every_name(spark: SparkSession) -> None:
    _called(spark, "SparkShim", "check")
    assert JvmBridge(spark).java is not None


def test_a_name_that_a_release_lacks_is_said_with_the_release(spark: SparkSession) -> None:
    with pytest.raises(Py4JJavaError) as raised:
        _called(spark, "Member", "type", "org.apache.spark.NoSuchThing", "org.apache.spark.Nor")
    error = slash_error(raised.value)
    assert isinstance(error, UnknownSparkError)
    assert isinstance(error, RowBridgeUnavailableError)  # the query is left to Spark
    assert str(error) == f"Spark {spark.version} has no class org.apache.spark.NoSuchThing or org.apache.spark.Nor"
