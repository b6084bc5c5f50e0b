"""A session with Iceberg, and a catalog `lake` in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

RUNTIMES = Path(__file__).resolve().parents[2] / "build" / "iceberg"  # scripts/test_oldest.sh brings it


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session of two cores."""
    minor = ".".join(pyspark.__version__.split(".")[:2])
    jars = list(RUNTIMES.glob(f"iceberg-spark-runtime-{minor}_*.jar"))
    if not jars:
        pytest.skip(f"no Iceberg runtime for PySpark {minor} in {RUNTIMES}: scripts/test_oldest.sh brings one for 4.0")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", str(jars[0]))
        .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.lake.type", "hadoop")
        .config("spark.sql.catalog.lake.warehouse", str(tmp_path_factory.mktemp("lake")))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.slash.arena.size", "256m")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
