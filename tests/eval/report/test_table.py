"""The printed table and the bars' verdicts."""

from __future__ import annotations

from eval.bars import Bar
from eval.report import table
from tests.eval.report.lines import failed, run


def test_the_table_has_medians_spread_and_ratio() -> None:
    records = [run("slash", rate) for rate in (9e6, 6e6, 7e6)] + [run("spark-rocksdb", 1e6)]
    title, _, slash, spark = table(records).strip().splitlines()
    assert title == "tumbling"
    assert slash.split() == ["slash", "7.000", "6.000", "..", "9.000", "20", "-", "7.00x", "agree"]
    assert spark.split()[-2:] == ["1.00x", "agree"]


def test_micro_batches_without_input_count_and_those_with_input_are_told_too() -> None:
    line = table([run("slash", 1e6, batch_ms=[10, 30, 2], input_batch_ms=[10, 30])]).splitlines()[-1]
    assert line.split()[5:7] == ["10", "20"]


def test_failures_and_wrong_rows_stand_out() -> None:
    text = table([{"title": "t", "engine": "slash", "error": "arena full"}, run("spark-hdfs", 1e6, correct=False)])
    assert "failed: arena full" in text
    assert "DIFFER" in text
    assert " - " in table([run("slash", 1e6)])
    assert "cannot: no aggregation" in table([{"title": "t", "engine": "flink", "cannot": "no aggregation"}])


def test_a_figure_of_an_engine_that_failed_later_says_so_and_has_no_ratio() -> None:
    line = table([run("spark-rocksdb", 1e6), run("slash", 9e6), failed("slash", "arena full")]).splitlines()[-1]
    assert "9.000" in line
    assert "9.00x" not in line
    assert line.endswith("agree, failed: arena full")


def test_sessions_are_never_divided_by_each_other() -> None:
    records = [run("slash", 9e6, session="monday"), run("spark-rocksdb", 1e6, session="tuesday")]
    assert "9.00x" not in table(records)


def test_a_batch_engine_is_a_bound_and_has_no_micro_batches() -> None:
    line = table([run("duckdb", 30e6, kind="batch bound", batch_ms=[])]).splitlines()[-1]
    assert line.split() == ["duckdb", "30.000", "30.000", "..", "30.000", "-", "-", "-", "agree", "(batch", "bound)"]


def test_a_bar_that_was_not_measured_is_not_met_silently() -> None:
    assert "NOT MET" in str(Bar("ratio", "5.0x", ">= 6x", False))
    assert "not measured" in str(Bar("ratio", "-", ">= 6x", None))
