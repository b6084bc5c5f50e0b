"""Bars, judged by records: reached, not reached, or not measured, never silently one of the first two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval import suites
from eval.bars import Bar, verdicts
from eval.workloads.nexmark import QUERIES


def run(title: str, engine: str, rate: float, **figures: Any) -> dict[str, Any]:
    """A record of one run."""
    return {"title": title, "engine": engine, "rows_per_second": rate, "correct": True, **figures}


def find(bars: list[Bar], text: str) -> Bar:
    """The only bar with `text`."""
    (bar,) = (bar for bar in bars if text in bar.what)
    return bar


def test_without_records_nothing_is_measured_and_nothing_met() -> None:
    bars = verdicts([])
    assert len(bars) > 20
    assert {bar.met for bar in bars} == {None}


@pytest.mark.parametrize(("rate", "met"), [(8e6, True), (7.9e6, False)])
def test_a_ratio_is_of_medians_and_of_one_title(rate: float, met: bool) -> None:
    records = [run(suites.TUMBLING, "slash", each) for each in (1e6, rate, 99e6)]
    records += [run(suites.TUMBLING, "spark-rocksdb", 1e6), run(suites.STRINGS, "slash", 0.6 * rate)]
    bars = verdicts(records)
    assert find(bars, f"{suites.TUMBLING}: slash / spark-rocksdb").met is met
    assert find(bars, f"{suites.LARGE}: slash / spark-rocksdb").met is None
    assert find(bars, "10 s sliding by 1 s: slash").met is None
    assert find(bars, "string keys / with integer keys").figure == "0.60x"


@pytest.mark.parametrize(("ms", "met"), [(55, True), (150, False)])
def test_small_micro_batches_are_compared_with_those_of_the_same_session(ms: int, met: bool) -> None:
    records = [
        run(suites.CLOSING, "slash", 1e4, batch_ms=[ms, ms, 9_000]),
        run(suites.CLOSING, "spark-rocksdb", 1e4, batch_ms=[100]),
        run(suites.CLOSING, "stateless", 1e4, batch_ms=[80]),
    ]
    bars = verdicts(records)
    assert find(bars, "windows closing: slash, under spark-rocksdb").met is met
    floor = find(bars, "windows closing: slash / no aggregation")
    assert floor.figure == f"{ms / 80:.3g}x"
    assert floor.met is met


def test_memory_is_compared_by_its_peaks() -> None:
    records = [
        run(suites.MANY_KEYS, "slash", 1e6, peak_bytes=5_000_000_000),
        run(suites.MANY_KEYS, "spark-hdfs", 1e6, peak_bytes=12_900_000_000),
        run(suites.PINNED[0], "slash", 1e6, pinned_bytes=100),
        run(suites.PINNED[1], "slash", 1e6, pinned_bytes=130),
    ]
    bars = verdicts(records)
    assert find(bars, "peak memory, ").met is True
    assert find(bars, "peak memory, ").wanted == "<= 12.9 GB"
    assert find(bars, "pinned bytes").met is False


def test_a_wrong_row_anywhere_is_named() -> None:
    records = [run("a", "slash", 1e6), run("b", "duckdb", 1e6) | {"correct": False}]
    bar = find(verdicts(records), "rows equal")
    assert bar.met is False
    assert bar.figure == "b: duckdb"


def test_an_engine_that_failed_later_is_not_measured() -> None:
    small = [run(suites.CLOSING, engine, 1e4, batch_ms=[50]) for engine in ("slash", "spark-rocksdb", "stateless")]
    records = [run(suites.TUMBLING, "slash", 9e6), run(suites.TUMBLING, "spark-rocksdb", 1e6), *small]
    told = (f"{suites.TUMBLING}: slash / spark-rocksdb", "windows closing: slash / no aggregation")
    assert [find(verdicts(records), text).met for text in told] == [True, False]
    records += [
        {"title": title, "engine": "slash", "error": "arena full"} for title in (suites.TUMBLING, suites.CLOSING)
    ]
    assert [find(verdicts(records), text).met for text in told] == [None, None]


def nexmark(rates: dict[int, float], **others: float) -> list[dict[str, Any]]:
    """Runs of these queries on pyslash, and at the same rates on `others`."""
    return [
        run(suites.nexmark_title(q), engine.replace("_", "-"), rate)
        for q, ours in rates.items()
        for engine, rate in {"slash": ours, **others}.items()
    ]


def test_nexmark_is_judged_by_the_geometric_mean_and_by_the_least() -> None:
    stateful = [q for q, described in QUERIES.items() if described.has_state]
    rates = dict.fromkeys(stateful, 4e6) | {5: 64e6, 7: 0.25e6}
    bars = verdicts(nexmark(rates, spark_rocksdb=1e6, flink=2e6, flink_rocksdb=1e6))
    assert find(bars, "NEXMark, the least query with state: slash").figure == "0.25x"
    means = [bar for bar in bars if "NEXMark, geometric mean" in bar.what]
    assert [bar.figure for bar in means] == ["4.00x", "2.00x", "4.00x"]
    assert [bar.met for bar in means] == [True, True, True]
    assert find(bars, "NEXMark, the least query without state").met is None
    assert {bar.met for bar in bars if bar.what.startswith("NEXMark, large")} == {None}


def test_nexmark_is_not_judged_where_a_query_is_missing() -> None:
    rates = dict.fromkeys([q for q in QUERIES if q != 23], 6e6)
    bars = verdicts(nexmark(rates, spark_rocksdb=1e6))
    assert {bar.met for bar in bars if "NEXMark" in bar.what and "with state" in bar.what} == {None}
    assert find(bars, "NEXMark, the least query without state").figure == "6.00x"


def test_kernels_come_from_the_native_benchmarks(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels.json"
    names = {"update_columns/ysb_count/10000": 40.0, "update_columns/sum_count_max/100000": 81.0}
    benchmarks = [{"name": name, "cycles/record": cycles} for name, cycles in names.items()]
    kernels.write_text(json.dumps({"benchmarks": [*benchmarks, {"name": "memory_copy"}]}))
    bars = verdicts([], kernels)
    assert [find(bars, name).met for name in names] == [True, False]


def test_a_missing_path_of_kernels_measures_nothing(tmp_path: Path) -> None:
    assert find(verdicts([], tmp_path / "none.json"), "ysb_count").met is None
