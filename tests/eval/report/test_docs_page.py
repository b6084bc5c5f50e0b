"""Every figure of docs/benchmarks.md and of the README's table is one of the session that is in the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eval.records import Results
from eval.report.docs_page import rewritten
from eval.report.keep import KEPT
from tests.eval.report.lines import MACHINE, failed, run

ROOT = Path(__file__).resolve().parents[3]
# The comparisons that the README's lines about Parquet are of.
PARQUET = (
    "10 s tumbling",
    "10 s tumbling, string keys",
    "10 s sliding by 1 s",
    "YSB",
)


def test_the_page_is_what_the_kept_session_gives() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert page == rewritten(page, Results.load([KEPT])), "python -m eval report FILE --docs docs/benchmarks.md"


def test_the_readme_has_the_kept_sessions_medians() -> None:
    comparisons = {comparison.title: comparison for comparison in Results.load([KEPT]).comparisons}
    text = (ROOT / "README.md").read_text()
    of_parquet = re.findall(r"^\| Parquet:[^|]*\|([^|]*)\|([^|]*)\| *([^|]*)x \|$", text, re.MULTILINE)
    for title, figures in zip(PARQUET, of_parquet, strict=True):
        wanted = [comparisons[title].engines[engine].rate / 1e6 for engine in ("slash", "spark-rocksdb")]
        for shown, exact in zip(map(str.strip, figures), [*wanted, comparisons[title].ratio("slash")], strict=True):
            assert float(shown) == pytest.approx(exact, abs=_last_place(shown)), title


def test_missed_bars_and_what_was_left_out_are_on_the_page(tmp_path: Path) -> None:
    machine = {**MACHINE, "commit": "0123456789ab", "memory_gib": 8}
    machine |= {"kernel": "6.1", "python": "3.11", "java": "17", "pyspark": "4.3"}
    start = {"session": "2026-01-31T12:00:00+00:00", "command": "python -m eval suite", "machine": machine}
    records = [
        start,
        run("slash", 2e6),
        run("spark-rocksdb", 1e6),
        {"bar": "met", "figure": "1", "wanted": "1", "met": True},
        {"bar": "missed", "figure": "1", "wanted": "2", "met": False},
        {"suite": "joins", "title": "inner", "not_measured": "out of time"},
    ]
    names = ("session", "figures", "missed", "unmeasured")
    page = rewritten("".join(f"<!-- {name} -->\nold\n<!-- /{name} -->\n" for name in names), Results(records, []))
    assert "0123456789ab" in page
    assert "| A Processor @ 2.50GHz, 2 cores, 8 GiB, Linux 6.1 |" in page
    assert "| Python 3.11, PySpark 4.3, 17 |" in page
    assert re.search(r"`slash` \| 2\.00 .*2\.00x", page)
    assert "| missed | 1 | 2 |" in page
    assert "| met |" not in page
    assert "- `joins`: inner" in page
    assert "old" not in page


def test_a_figure_of_an_engine_that_failed_later_says_so() -> None:
    records = [run("slash", 2e6), run("spark-rocksdb", 1e6), failed("slash", "arena full")]
    page = rewritten("<!-- figures -->\n<!-- /figures -->\n", Results(records, []))
    assert re.search(r"`slash` \| 2\.00 .*\| Spark's, \*\*failed\*\*: arena full \|", page)
    assert "2.00x" not in page


def _last_place(figure: str) -> float:
    """Half a unit of the last place that is shown, and a little for decimal fractions."""
    decimals = len(figure.partition(".")[2])
    return 0.5000001 * 10.0**-decimals
