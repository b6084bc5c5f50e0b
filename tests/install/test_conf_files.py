"""Every key of spark-conf/*.conf is one that Spark or pyslash knows, with a value that Spark's own entry takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from pyslash.conf import Conf

FOLDER = Path(__file__).resolve().parents[2] / "spark-conf"
FILES = sorted(path.name for path in FOLDER.glob("*.conf"))
# Commented-out settings count too.
SETTING = re.compile(r"^(?:# )?(spark\.[\w.]+)[ =]+(\S+)$", re.MULTILINE)
# Not entries: the one spark-submit's option stands for, and names that a user completes.
FREE = re.compile(
    r"spark\.master|spark\.executorEnv\.\w+|spark\.(worker|executor)\.resource\.\w+\.(amount|discoveryScript)"
)


def settings(file: str) -> list[tuple[str, str]]:
    return SETTING.findall((FOLDER / file).read_text())


@pytest.fixture(scope="module")
def entries(spark: SparkSession) -> Any:
    """Spark's registry, with the entries of YARN and Kubernetes, which are made when their classes are loaded."""
    jvm: Any = spark._jvm
    for name in ("org.apache.spark.deploy.yarn.config.package$", "org.apache.spark.deploy.k8s.Config$"):
        jvm.java.lang.Class.forName(name)
    return jvm.org.apache.spark.internal.config.ConfigEntry


def test_there_are_files_and_a_wrong_key_or_value_is_found(entries: Any) -> None:
    assert {"slash.conf", "standalone.conf", "yarn.conf", "k8s.conf", "roce.conf", "infiniband.conf"} <= set(FILES)
    assert entries.findEntry("spark.yarn.dist.archive") is None
    with pytest.raises(IllegalArgumentException, match="7 gigs"):
        entries.findEntry("spark.executor.memoryOverhead").valueConverter().apply("7 gigs")


@pytest.mark.parametrize("file", FILES)
def test_spark_takes_every_key_and_value(file: str, entries: Any) -> None:
    found = settings(file)
    assert found
    Conf.read(dict(found).get)
    unknown = []
    for key, value in found:
        if key.startswith("spark.slash."):
            continue
        entry = entries.findEntry(key)
        if entry is not None:
            entry.valueConverter().apply(value)  # raises where Spark would
        elif not FREE.fullmatch(key):
            unknown.append(key)
    assert unknown == []


def test_every_key_of_ours_is_documented() -> None:
    known = (FOLDER.parent / "docs" / "conf.md").read_text()
    keys = {key for file in FILES for key, _ in settings(file) if key.startswith("spark.slash.")}
    assert [key for key in sorted(keys) if f"`{key}`" not in known] == []
