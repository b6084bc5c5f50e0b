"""The page of what is covered is what pyslash decides."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyslash.inspect import coverage

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"


def test_the_page_is_what_pyslash_decides(spark: SparkSession) -> None:
    if not spark.version.startswith("4.3."):
        pytest.skip(f"the page is of PySpark 4.3, and this is {spark.version}")
    assert coverage.page(spark).splitlines()[5:] == PAGE.read_text().splitlines()[5:]
