"""A broker, and a session of a PySpark that has a connector for it."""

from __future__ import annotations

from collections.abc import Iterator

import pyspark
import pytest
from pyspark.sql import SparkSession

from eval.broker import BrokerError, broker, connector


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """The address of a broker."""
    try:
        if f"-{pyspark.__version__}.jar" not in connector():
            pytest.skip(
                f"PySpark {pyspark.__version__} has no connector here: scripts/test_pipelines.sh has one that does"
            )
        with broker() as address:
            yield address
    except BrokerError as error:
        pytest.skip(f"no Kafka: {error}")


@pytest.fixture(scope="session")
def spark(kafka: str) -> Iterator[SparkSession]:
    """A local session with Spark's connector."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", connector())
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.slash.arena.size", "256m")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
