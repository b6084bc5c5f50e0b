"""The page about NEXMark: as the code has the queries, and what a cell says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from eval.records import Comparison, Results, compare
from eval.report.keep import KEPT
from eval.report.nexmark import figures, left_out, missed, page, profile, queries
from eval.suites import nexmark_title
from eval.workloads.nexmark import LEFT_OUT, QUERIES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "nexmark.md"


def run(q: int, engine: str, rate: float | None = None, **fields: Any) -> dict[str, Any]:
    """A record of one run."""
    figure = {"rows_per_second": rate} if rate else {}
    return {"session": "now", "title": nexmark_title(q), "engine": engine, "correct": True, **figure, **fields}


def measured(records: list[dict[str, Any]]) -> dict[int, Comparison]:
    """What the page makes of them."""
    return {int(each.title.rpartition("q")[2]): each for each in compare(records)}


def test_the_page_is_what_the_code_and_the_kept_session_give() -> None:
    session = Results.load([KEPT.with_name("NEXMARK.jsonl")])
    assert PAGE.read_text() == page(session), "python -m eval nexmark eval/results/NEXMARK.jsonl --out docs/nexmark.md"
    assert {nexmark_title(q) for q in QUERIES} == {each.title for each in session.comparisons}
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
    assert cell in figures(measured([record]), "250,000")


def test_a_cell_of_an_engine_that_failed_later_says_so_and_has_no_ratio() -> None:
    records = [run(5, "slash", 6e6, epochs=8), run(5, "spark-rocksdb", 2e6), run(5, "spark-rocksdb", error="gone")]
    assert "| q5 | 6.000 | 2.000, failed: gone |" in figures(measured(records), "250,000")


def test_a_ratio_is_to_each_engine() -> None:
    records = [run(5, "slash", 6e6, epochs=8), run(5, "spark-rocksdb", 2e6), run(5, "flink", 4e6)]
    assert "| q5 | 6.000 | 2.000 (3.0x) |  | 4.000 (1.5x) |  |" in figures(measured(records), "250,000")


def test_the_mean_is_of_the_queries_with_state() -> None:
    records = [run(q, "slash", 6e6, epochs=8) for q in (0, 5, 7)]
    records += [run(0, "spark-rocksdb", 6e5), run(5, "spark-rocksdb", 3e6), run(7, "spark-rocksdb", 0.75e6)]
    assert "| with state |  | 4.0x of 2 |  |  |  |" in figures(measured(records), "250,000")


def test_the_parts_of_a_micro_batch_come_to_all_of_it() -> None:
    spark = {"batch_ms": [90, 110], "spark_ms": {"triggerExecution": 200, "addBatch": 120}}
    parts = {"update_ms": 40, "commit_ms": 6, "merge_ms": 14, "sink_ms": 20}
    records = [run(5, "slash", 6e6, epochs=2, **spark, **parts), run(5, "spark-rocksdb", 2e6, **spark)]
    assert "| q5 | 40 | 20 |  | 10 | 10 | 20 | 100 | 100 |" in profile(measured(records))
    records[0] |= {"checkpoint_ms": 24, "replica_ms": 8}
    assert "| q5 | 40 | 20 | 16 | 10 | 10 | 4 | 100 | 100 |" in profile(measured(records))
    assert "q5" not in profile(measured([run(5, "slash", error="it failed")]))


def test_bars_that_were_not_met_are_named() -> None:
    rates = {"slash": 4e6, "spark-rocksdb": 2e6, "flink": 1e6, "flink-rocksdb": 1e6}
    records = [run(q, engine, rate, epochs=8) for q in QUERIES for engine, rate in rates.items()]
    lines = missed(compare(records)).splitlines()
    (missing,) = (line for line in lines if line.startswith("| NEXMark, geometric mean"))
    assert re.search(r"geometric mean of \d+ queries with state: slash / spark-rocksdb \| 2.00x \| >= 3x", missing)
    behind = lines.index("These were not measured in the session:")
    assert all("| - |" not in line for line in lines)
    assert any("large micro-batches" in line and ">= 5x" in line for line in lines[behind:])
    others = [each for each in records if each["engine"] != "slash"]
    fast = [run(q, "slash", 12e6, epochs=8) for q in QUERIES]
    large = [each | {"title": f"{each['title']}, large micro-batches"} for each in [*others, *fast]]
    assert missed(compare([*others, *fast, *large])) == "All bars were met.\n"
