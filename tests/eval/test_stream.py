"""A measured stream and what it emitted, on plain Spark: right rows are told from wrong ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from eval import oracle, stream
from eval.engines import ENGINES, CannotRunError, SparkEngine
from eval.steady import Steady
from eval.workloads import Aggregate, Nexmark, Workload
from tests.eval import tiny
from tests.support.nightly import some_at_night


def engine(name: str) -> SparkEngine:
    """One of Spark's."""
    found = ENGINES[name]
    assert isinstance(found, SparkEngine)
    return found


NIGHTLY = [pytest.param(workload, marks=pytest.mark.nightly) for workload in tiny.ALL if workload is not tiny.YSB]


LATE = replace(tiny.TUMBLING, batches=6, late=0.2)


def emitted(spark: SparkSession, workload: Workload, cache: Path) -> tuple[bool, int]:
    """Whether a run's rows are the oracle's, and how many those are."""
    folder = workload.generate(cache)
    oracle.write(spark, workload, folder)
    _, kept = stream.run(spark, engine("spark-hdfs"), workload, folder)
    assert kept is not None
    try:
        return kept.agrees(folder)
    finally:
        kept.close()


@pytest.mark.parametrize("workload", [tiny.YSB, LATE, *NIGHTLY], ids=tiny.name)
def test_sparks_own_stream_agrees_with_the_oracle(spark: SparkSession, tmp_path: Path, workload: Workload) -> None:
    same, rows = emitted(spark, workload, tmp_path)
    assert same
    assert rows > 0


@pytest.mark.nightly
@pytest.mark.parametrize("workload", [LATE, replace(LATE, slide_s=5)], ids=tiny.name)
def test_late_rows_are_dropped_in_the_oracle(spark: SparkSession, tmp_path: Path, workload: Aggregate) -> None:
    folder = workload.generate(tmp_path)
    oracle.write(spark, workload, folder)
    streamed = oracle.expected(folder)
    batch = oracle.flat(workload.query(spark, spark.read.parquet(str(folder / "rows")), folder))
    last = max(streamed["window_end"].to_pylist())
    counted = batch.where(F.col("window_end") <= F.lit(last)).agg(F.sum("count")).first()
    assert counted is not None
    assert 0.8 * counted[0] < sum(streamed["count"].to_pylist()) < 0.99 * counted[0]


@dataclass(frozen=True)
class Wrong(Aggregate):
    """A stream that gives one wrong row."""

    fault: str = ""

    def query(self, spark: SparkSession, rows: DataFrame, folder: Path) -> DataFrame:
        result = super().query(spark, rows, folder)
        if not rows.isStreaming:
            return result
        hit = "key = 7 AND window.start = timestamp_millis(1700000010000)"
        if self.fault == "missing":
            return result.where(f"NOT ({hit})")
        if self.fault == "twice":
            return result.withColumn("again", F.explode(F.expr(f"sequence(1, if({hit}, 2, 1))"))).drop("again")
        changed = {"changed": f"if({hit}, count + 1, count)", "null": f"if({hit}, NULL, count)"}[self.fault]
        return result.selectExpr("window", "key", "sum", f"{changed} AS count", "max")


@pytest.mark.parametrize(
    "fault", ["missing", *(pytest.param(fault, marks=pytest.mark.nightly) for fault in ("changed", "twice", "null"))]
)
def test_a_wrong_row_is_found_and_named(spark: SparkSession, tmp_path: Path, fault: str) -> None:
    workload = Wrong(rows=4_000, batches=2, span_s=60.0, keys=20, fault=fault)
    same, rows = emitted(spark, workload, tmp_path)
    assert not same
    assert rows > 0
    folder = workload.generate(tmp_path)
    (line,) = stream.differences(spark, engine("spark-hdfs"), workload, folder)
    assert {"missing": "missing: ", "twice": "twice: ", "changed": "count is ", "null": "count is None"}[fault] in line
    assert "key=7" in line


@pytest.mark.parametrize("name", some_at_night(["spark-hdfs", "stateless", "noop"], {"spark-hdfs", "noop"}))
def test_a_run_reads_every_row_and_tells_its_batches(spark: SparkSession, tmp_path: Path, name: str) -> None:
    figures, kept = stream.run(spark, engine(name), tiny.TUMBLING, tiny.TUMBLING.generate(tmp_path))
    assert (kept is None) == (name == "noop")
    assert figures["rows"] == tiny.TUMBLING.rows
    assert figures["rows_per_second"] == pytest.approx(figures["rows"] / figures["seconds"])
    assert len(figures["input_batch_ms"]) == tiny.TUMBLING.batches
    # What the last watermark closes is emitted without input.
    assert len(figures["batch_ms"]) == tiny.TUMBLING.batches + (name == "spark-hdfs")
    if kept is None:
        assert figures["moved_bytes"]["shuffle"] == 0


def test_a_steady_part_leaves_out_what_warms(spark: SparkSession, tmp_path: Path) -> None:
    workload = replace(tiny.TUMBLING, rows=6_000, batches=6)
    rule = Steady(warm_batches=2, warm_s=0.0, batches=2, seconds=0.1)
    figures = stream.steady(spark, engine("spark-hdfs"), workload, workload.generate(tmp_path), rule)
    counted = len(figures["batch_ms"])
    assert 2 <= counted <= 4
    assert figures["rows"] == 1_000 * counted
    begin, end = figures["part"]
    assert figures["seconds"] == pytest.approx(end - begin)
    assert figures["rows_per_second"] == pytest.approx(figures["rows"] / figures["seconds"])


def test_a_stream_that_is_never_warm_has_no_figures(spark: SparkSession, tmp_path: Path) -> None:
    rule = Steady(warm_batches=1, warm_s=3600.0, seconds=0.0)
    with pytest.raises(RuntimeError, match="was through 3 micro-batches before it was warm"):
        stream.steady(spark, engine("spark-hdfs"), tiny.TUMBLING, tiny.TUMBLING.generate(tmp_path), rule)


def test_a_floor_has_the_rows_that_the_query_aggregates(spark: SparkSession, tmp_path: Path) -> None:
    folder = tiny.YSB.generate(tmp_path)
    rows = spark.read.parquet(str(folder / "rows"))
    below = engine("noop").result(tiny.YSB, spark, rows, folder)
    assert below.columns == ["event_time", "campaign_id"]
    counted = tiny.YSB.query(spark, rows, folder).agg({"views": "sum"}).first()
    assert counted is not None
    assert below.count() == counted[0] < rows.count()


def test_a_query_with_state_that_was_not_pyslashs_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyslash.progress", lambda query: [])
    with pytest.raises(RuntimeError, match="nexmark-q5 ran on plain Spark"):
        stream.slash_figures(None, Nexmark(q=5), {0})
    assert stream.slash_figures(None, Nexmark(q=0), {0})["epochs"] == 0


def test_real_time_mode_refuses_files_in_its_own_words(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CannotRunError, match=r"(?i)real.?time"):
        stream.run(spark, engine("spark-rtm"), tiny.TUMBLING, tiny.TUMBLING.generate(tmp_path))
