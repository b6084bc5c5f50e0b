"""A measured stream and its check, on plain Spark: the check tells right rows from wrong ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from eval import stream
from eval.engines import ENGINES
from eval.stream import Checksum
from eval.workloads import Aggregate, Workload, Ysb

TINY = [
    Aggregate(rows=4_000, batches=2, span_s=60.0, keys=20, slide_s=5),
    Ysb(rows=4_000, batches=2, span_s=60.0, campaigns=10),
]


@pytest.mark.parametrize("workload", TINY, ids=lambda w: w.name)
def test_sparks_own_stream_agrees_with_batch(spark: SparkSession, tmp_path: Path, workload: Workload) -> None:
    same, rows = stream.check(spark, ENGINES["spark-hdfs"], workload, workload.generate(tmp_path))
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
    same, rows = stream.check(spark, ENGINES["spark-hdfs"], workload, workload.generate(tmp_path))
    assert not same
    assert rows > 0


def test_a_checksum_follows_rows_and_not_their_order(spark: SparkSession) -> None:
    query = "SELECT named_struct('start', a, 'end', a + 1) AS window, b FROM VALUES {} AS t(a, b)"
    first = stream.checksum(spark.sql(query.format("(1, 2), (3, 4)")))
    assert first == stream.checksum(spark.sql(query.format("(3, 4), (1, 2)")))
    assert first != stream.checksum(spark.sql(query.format("(3, 2), (1, 4)")))
    assert first != stream.checksum(spark.sql(query.format("(1, 2), (1, 2)")))
    assert first + Checksum(0, 0) == first


@pytest.mark.parametrize("engine", ["spark-hdfs", "noop"])
def test_a_run_reads_every_row_and_tells_its_batches(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    workload = TINY[0]
    figures = stream.run(spark, ENGINES[engine], workload, workload.generate(tmp_path))
    assert figures["rows_per_second"] == pytest.approx(workload.rows / figures["seconds"])
    assert len(figures["batch_ms"]) == workload.batches
