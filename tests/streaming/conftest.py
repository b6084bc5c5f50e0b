"""What tests of streams share beside the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pyslash.spark.session import changed
from tests.support.processors import STORE


@pytest.fixture
def processor_store(spark: SparkSession) -> Iterator[None]:
    """Spark has the state store that it wants for processors."""
    with changed(spark, STORE):
        yield
