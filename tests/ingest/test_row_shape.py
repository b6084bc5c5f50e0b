"""Rows of any types as Spark lays them out: the native check passes each, and no changed one that leads beyond it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pyslash.spark.jvm_bridge import JvmBridge, jar_path

_SOURCE = Path(__file__).parents[1] / "RowMutants.java"
COLUMNS = {
    "fixed": ["id", "cast(id AS boolean)", "cast(id AS tinyint)", "cast(id AS double)", "cast(id AS decimal(18,2))"],
    "bytes": ["s", "encode(s, 'utf-8')", "cast(id AS decimal(30,5))", "s COLLATE UTF8_LCASE"],
    "times": ["date_add(date '2020-01-01', cast(id AS int))", "timestamp_seconds(id)", "null",
              "make_interval(1, cast(id AS int))"],
    "arrays": ["array(s, null, '')", "array(id, null)", "array(cast(id AS tinyint))", "array(array(s), array(), null)",
               "array(cast(id AS decimal(30,2)))", "array(true, null)", "array(null)"],
    "structs": ["named_struct('a', s, 'b', named_struct('c', array(s), 'd', id))", "named_struct('n', null)"],
    "maps": ["map(coalesce(s, ''), id)", "map(id, array(s, null))", "map(named_struct('a', s), map('k', s))", "map()"],
    "variants": ["parse_json('{\"a\": [1, 2.5, \"' || s || '\"]}')", "array(parse_json('1'))"],
}  # fmt: skip


@pytest.fixture(scope="module")
def mutants(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`RowMutants`, in the loader, and so in the package, of what it tests."""
    JvmBridge(spark)
    jars, classes = Path(pyspark.__file__).parent / "jars", tmp_path_factory.mktemp("classes")
    path = f"{jar_path()}{os.pathsep}{jars}/*"
    subprocess.run(["javac", "--release", "17", "-cp", path, "-d", classes, _SOURCE], check=True)
    jar = classes / "mutants.jar"
    subprocess.run(["jar", "--create", f"--file={jar}", "-C", classes, "io"], check=True)
    spark.sql(f"ADD JAR '{jar}'")
    jvm: Any = spark._jvm
    loader = spark._jsparkSession.sharedState().jarClassLoader()
    return jvm.java.lang.Class.forName("io.pyslash.core.RowMutants", True, loader).getConstructors()[0]


@pytest.mark.parametrize("kind", COLUMNS)
def test_mutants_are_refused_or_read_within_their_bytes(spark: SparkSession, mutants: Any, kind: str) -> None:
    seed, rounds = int(os.environ.get("PYSLASH_FUZZ_SEED", "42")), int(os.environ.get("PYSLASH_FUZZ", "1"))
    rows = spark.range(40).withColumn("s", F.expr("if(id % 7 = 0, null, repeat('x', cast(id % 11 AS int)))"))
    rows = rows.selectExpr(*(f"{sql} AS c{index}" for index, sql in enumerate(COLUMNS[kind])))
    gateway: Any = spark.sparkContext._gateway
    arguments = gateway.new_array(gateway.jvm.java.lang.Object, 2)
    arguments[0], arguments[1] = rows._jdf.schema(), gateway.jvm.java.lang.Long(seed)
    checked = mutants.newInstance(arguments)
    assert checked.check(rows._jdf, 50 * rounds) == ""
    figures = {name: checked.getClass().getField(name).getLong(checked) for name in ("rows", "read", "refused")}
    assert figures["rows"] == 40
    assert figures["read"] > 100
    assert figures["refused"] > 0
