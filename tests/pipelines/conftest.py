"""A broker, and a session of a PySpark that has a connector for it and Delta."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec

import pyspark
import pytest
from pyspark.sql import SparkSession

from eval.broker import BrokerError, avro, broker, connector, delta
from eval.pipelines.job import DELTA_SETTINGS, KEEP_LOGS
from tests.support.jvm import SMALL_PAGES


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """The address of a broker."""
    try:
        if f"-{pyspark.__version__}.jar" not in connector():
            pytest.skip(
                f"PySpark {pyspark.__version__} has no connector here: scripts/test_pipelines.sh has one that does"
            )
        if find_spec("confluent_kafka") is None:
            pytest.skip("there is no client for Kafka here: scripts/pipelines.sh brings it")
        with broker() as address:
            yield address
    except BrokerError as error:
        pytest.skip(f"no Kafka: {error}")


@pytest.fixture(scope="session")
def delta_jars() -> str:
    """Delta, as `spark.jars` takes it."""
    try:
        return delta()
    except BrokerError as error:
        pytest.skip(f"no Delta: {error}")


@pytest.fixture(scope="session")
def avro_jars() -> str:
    """Spark's Avro, as `spark.jars` takes it."""
    try:
        return avro()
    except BrokerError as error:
        pytest.skip(f"no Avro: {error}")


@pytest.fixture(scope="session")
def spark(kafka: str) -> Iterator[SparkSession]:
    """A local session with Spark's connector, and with Delta if it is there."""
    jars, settings = [connector()], {**KEEP_LOGS, **SMALL_PAGES}
    with suppress(BrokerError):  # what needs Delta asks for `delta_jars`
        jars.append(delta())
        settings.update(DELTA_SETTINGS)
    with suppress(BrokerError):
        jars.append(avro())
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(jars))
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.slash.arena.size", "256m")
        .config(map=settings)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
