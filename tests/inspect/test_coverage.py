"""The page of what is covered is what pyslash decides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyslash.inspect import coverage

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"


def test_the_page_is_what_pyslash_decides(spark: SparkSession) -> None:
    if not spark.version.startswith("4.3."):
        pytest.skip(f"the page is of PySpark 4.3, and this is {spark.version}")
    assert coverage.page(spark).splitlines()[5:] == PAGE.read_text().splitlines()[5:]


def test_pyspark_may_log_by_its_own_logger_afterwards() -> None:
    """In a process where nobody has asked for that logger before."""
    program = (
        "from pyslash.inspect.coverage import _refusals_unlogged\n"
        "from pyspark.errors.exceptions.base import PySparkLogger\n"
        "with _refusals_unlogged():\n"
        "    pass\n"
        "PySparkLogger.getLogger('SQLQueryContextLogger').error('refused', errorClass='A_CLASS')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "A_CLASS" in done.stderr
