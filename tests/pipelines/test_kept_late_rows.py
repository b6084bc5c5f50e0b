"""Late rows in a Delta table, which takes each epoch once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyslash
from tests.streaming.test_kept_late_rows import dropped, made, numbers
from tests.support.attempt import settings


@pytest.mark.usefixtures("delta_jars")
def test_a_delta_table_takes_an_epoch_that_is_repeated_once(spark: SparkSession, tmp_path: Path) -> None:
    stream, late = made(spark, tmp_path / "s", 1), tmp_path / "late"
    given: list[list[Any]] = []

    def attempt(failing: int) -> None:
        def sink(batch: DataFrame, epoch: int) -> None:
            if epoch == failing:
                raise OSError("the sink is full")
            given.append(batch.collect())

        windows = stream.read().groupBy(F.window("ts", "5 seconds")).agg(F.collect_list("n").alias("n"))
        writer = windows.writeStream.option("checkpointLocation", str(tmp_path / "c")).foreachBatch(sink)
        conf = {"mode": "require", "late": str(late), "late.format": "delta"}
        with settings(spark, {f"spark.slash.{name}": value for name, value in conf.items()}):
            writer.trigger(availableNow=True).start().awaitTermination()

    pyslash.enable(spark)
    try:
        with pytest.raises(StreamingQueryException, match="the sink is full"):
            attempt(3)
        attempt(-1)
    finally:
        pyslash.disable()
    (table,) = late.glob("query=*/operator=0/input=0")
    rows = spark.read.format("delta").load(str(table)).collect()
    missing = dropped(stream, numbers(given), lambda row: row["ts"] is not None)
    assert sorted(row["n"] for row in rows) == sorted(missing)
    assert len({row["epoch"] for row in rows}) > 1
