"""A checkpoint that an earlier version of pyslash has left, continued by this one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.attempt import attempt
from tests.support.old_checkpoint import BATCHES, BEFORE, SCHEMA, add, query, unpacked
from tests.support.stream import Stream


@pytest.mark.parametrize("now", [BEFORE, ("avg(v)", "first(d)", "count(v)")], ids=["the same query", "a changed one"])
def test_a_checkpoint_of_manifests_of_format_6_continues(
    spark: SparkSession, tmp_path: Path, now: tuple[str, ...]
) -> None:
    stream = Stream(spark, tmp_path, SCHEMA, delay_seconds=10)
    add(stream, BATCHES)
    checkpoint = unpacked("manifests-6.tar.gz", tmp_path, tmp_path / "in")
    attempt(query(stream, *now), tmp_path / "spark", "off")
    add(stream, 2)
    found = attempt(query(stream, *now), checkpoint)
    expected = attempt(query(stream, *now), tmp_path / "spark", "off")
    assert found.error is None
    assert found.ran_on_pyslash
    assert found.batches == expected.batches
    assert any(rows for _, rows in found.batches)
