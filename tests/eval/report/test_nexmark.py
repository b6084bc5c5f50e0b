"""The page about NEXMark: as the code has the queries, and what a cell says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval.report.nexmark import figures, left_out, page, queries
from eval.report.records import compare
from eval.suites import nexmark_title
from eval.workloads.nexmark import LEFT_OUT, QUERIES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "nexmark.md"


def run(q: int, engine: str, rate: float | None = None, **fields: Any) -> dict[str, Any]:
    """A record of one run."""
    figure = {"rows_per_second": rate} if rate else {}
    return {"session": "now", "title": nexmark_title(q), "engine": engine, "correct": True, **figure, **fields}


def test_docs_have_the_queries_as_the_code_has_them() -> None:
    written = PAGE.read_text()
    assert written.startswith(page([]))
    assert all(f"| q{q} |" in queries() for q in QUERIES)
    assert all(f"| q{q} |" in left_out() for q in LEFT_OUT)


@pytest.mark.parametrize(
    ("record", "cell"),
    [
        (run(5, "slash", 6e6, epochs=8), "| 6.000 |"),
        (run(5, "slash", 6e6, epochs=0), "| 6.000, plain Spark |"),
        (run(5, "slash", 6e6, epochs=8, correct=None), "| 6.000, rows not compared |"),
        (run(5, "slash", 6e6, epochs=8, correct=False), "| 6.000, WRONG ROWS |"),
        (run(5, "slash", error="q5 ran on plain Spark"), "| failed: q5 ran on plain Spark |"),
        (run(5, "flink", cannot="has no form"), "| cannot: has no form |"),
    ],
)
def test_a_cell_says_who_ran_the_query_and_whether_rows_were_right(record: dict[str, Any], cell: str) -> None:
    assert cell in figures(compare([record]))


def test_a_ratio_is_to_each_engine() -> None:
    records = [run(5, "slash", 6e6, epochs=8), run(5, "spark-rocksdb", 2e6), run(5, "flink", 4e6)]
    assert "| q5 | 6.000 | 2.000 (3.0x) |  | 4.000 (1.5x) |  |" in figures(compare(records))
