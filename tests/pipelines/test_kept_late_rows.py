"""Late rows in a Delta table, which takes each epoch once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.streaming.test_kept_late_rows import dropped, made, numbers, put_back
from tests.support.attempt import attempt
from tests.support.ran import ran


@pytest.mark.usefixtures("delta_jars")
def test_a_delta_table_takes_an_epoch_that_is_repeated_once(spark: SparkSession, tmp_path: Path) -> None:
    stream, late = made(spark, tmp_path / "s", 1), tmp_path / "late"

    def windows() -> DataFrame:
        return stream.read().groupBy(F.window("ts", "5 seconds")).agg(F.collect_list("n").alias("n"))

    kept = {"late": str(late), "late_format": "delta"}
    failed = attempt(windows(), tmp_path / "c", fail_in=3, **kept)
    assert "the sink is out of order" in str(failed.error)
    assert attempt(windows(), tmp_path / "c", **kept).error is None
    given = ran(stream.read(), stream.folder, lambda _: windows(), "append", "off").batches
    (table,) = late.glob("query=*/operator=0/input=0")
    rows = spark.read.format("delta").load(str(table)).collect()
    missing = dropped(stream, numbers(given), lambda row: row["ts"] is not None)
    assert sorted(row["n"] for row in rows) == sorted(missing)
    assert len({row["epoch"] for row in rows}) > 1


@pytest.mark.usefixtures("delta_jars")
def test_a_checkpoint_that_is_put_back_has_them_once(spark: SparkSession, tmp_path: Path) -> None:
    late = tmp_path / "late"
    expected = put_back(spark, tmp_path, late=str(late), late_format="delta")
    (table,) = late.glob("query=*/operator=0/input=0")
    assert sorted(row["n"] for row in spark.read.format("delta").load(str(table)).collect()) == expected
