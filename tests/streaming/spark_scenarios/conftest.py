"""What the scenarios share: each runs on plain Spark and on pyslash, and says what Spark gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyslash
from tests.streaming.spark_scenarios.job import Job
from tests.streaming.streams.run import folder


@pytest.fixture(scope="module")
def settings(spark: SparkSession) -> Iterator[dict[str, str]]:
    """Enable pyslash."""
    pyslash.enable(spark)
    yield {"spark.sql.streaming.pollingDelay": "1ms", "spark.sql.shuffle.partitions": "1"}
    pyslash.disable()


# What a scenario expects was seen on plain Spark, and is again in `make nightly`: Spark does not change by itself.
@pytest.fixture(params=[pytest.param("spark", marks=pytest.mark.nightly), "pyslash"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def job(spark: SparkSession, settings: dict[str, str], engine: str) -> Iterator[Job]:
    """A job in a session of its own."""
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    session.conf.set("spark.slash.mode", "require" if engine == "pyslash" else "off")
    with folder() as place:
        yield Job(session, Path(place))
        for query in session.streams.active:
            query.stop()
