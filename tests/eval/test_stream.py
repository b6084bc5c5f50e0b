"""A measured stream and its check, on plain Spark: the check tells right rows from wrong ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from eval import stream
from eval.engines import ENGINES, CannotRunError, SparkEngine
from eval.workloads import Aggregate, Workload
from tests.eval import tiny


def engine(name: str) -> SparkEngine:
    """One of Spark's."""
    found = ENGINES[name]
    assert isinstance(found, SparkEngine)
    return found


NIGHTLY = [pytest.param(workload, marks=pytest.mark.nightly) for workload in (tiny.TUMBLING, *tiny.OTHERS)]


@pytest.mark.parametrize("workload", [tiny.SLIDING, tiny.YSB, tiny.READ_ONLY, *NIGHTLY], ids=tiny.name)
def test_sparks_own_stream_agrees_with_batch(spark: SparkSession, tmp_path: Path, workload: Workload) -> None:
    same, rows = stream.check(spark, engine("spark-hdfs"), workload, workload.generate(tmp_path))
    assert same
    assert rows > 0


@dataclass(frozen=True)
class OffByOne(Aggregate):
    """A stream that gives one wrong value."""

    def query(self, spark: SparkSession, rows: DataFrame, folder: Path) -> DataFrame:
        result = super().query(spark, rows, folder)
        if not rows.isStreaming:
            return result
        return result.selectExpr("window", "key", "sum", "if(key = 7, count + 1, count) AS count", "max")


def test_a_wrong_value_is_found(spark: SparkSession, tmp_path: Path) -> None:
    workload = OffByOne(rows=4_000, batches=2, span_s=60.0, keys=20)
    same, rows = stream.check(spark, engine("spark-hdfs"), workload, workload.generate(tmp_path))
    assert not same
    assert rows > 0


@pytest.mark.parametrize("name", ["spark-hdfs", "noop", "bare-arrow"])
def test_a_run_reads_every_row_and_tells_its_batches(spark: SparkSession, tmp_path: Path, name: str) -> None:
    figures = stream.run(spark, engine(name), tiny.TUMBLING, tiny.TUMBLING.generate(tmp_path))
    assert figures["rows"] == tiny.TUMBLING.rows
    assert figures["rows_per_second"] == pytest.approx(figures["rows"] / figures["seconds"])
    assert len(figures["batch_ms"]) == tiny.TUMBLING.batches
    assert (figures["moved_bytes"]["shuffle"] > 0) == (name == "spark-hdfs")


def test_a_floor_has_the_rows_that_the_query_aggregates(spark: SparkSession, tmp_path: Path) -> None:
    folder = tiny.YSB.generate(tmp_path)
    rows = spark.read.parquet(str(folder / "rows"))
    below = engine("noop").result(tiny.YSB, spark, rows, folder)
    assert below.columns == ["event_time", "campaign_id"]
    counted = tiny.YSB.query(spark, rows, folder).agg({"views": "sum"}).first()
    assert counted is not None
    assert below.count() == counted[0] < rows.count()


def test_real_time_mode_refuses_files_in_its_own_words(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CannotRunError, match=r"(?i)real.?time"):
        stream.run(spark, engine("spark-rtm"), tiny.TUMBLING, tiny.TUMBLING.generate(tmp_path))
