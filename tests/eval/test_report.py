"""The printed table and the bars' verdicts."""

from __future__ import annotations

from eval.bars import Bar
from eval.report import batch_ms, table


def record(engine: str, rate: float, correct: bool | None = True) -> dict:
    return {
        "title": "tumbling",
        "engine": engine,
        "rows_per_second": rate,
        "batch_ms": [10, 30, 20],
        "correct": correct,
    }


def test_the_table_has_medians_spread_and_ratio() -> None:
    records = [record("slash", rate) for rate in (9e6, 6e6, 7e6)] + [record("spark-rocksdb", 1e6)]
    title, _, slash, spark = table(records).strip().splitlines()
    assert title == "tumbling"
    assert slash.split() == ["slash", "7.000", "6.000", "..", "9.000", "20", "7.00x", "agree"]
    assert spark.split()[-2:] == ["1.00x", "agree"]


def test_failures_and_wrong_rows_stand_out() -> None:
    text = table([{"title": "t", "engine": "slash", "error": "arena full"}, record("spark-hdfs", 1e6, False)])
    assert "failed: arena full" in text
    assert "DIFFER" in text
    assert " - " in table([record("slash", 1e6)])


def test_the_median_batch_is_taken_over_all_runs() -> None:
    assert batch_ms([{"batch_ms": [1, 2]}, {"batch_ms": [9]}, {}]) == 2
    assert batch_ms([]) == 0


def test_a_bar_that_was_not_measured_is_not_met_silently() -> None:
    assert "NOT MET" in str(Bar("ratio", "5.0x", ">= 6x", False))
    assert "not measured" in str(Bar("ratio", "-", ">= 6x", None))
