"""Results files of any make: what a line is, and what may be joined with what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval.records import Results, batch_ms, clock_hz, compare, cycles_a_row, note
from tests.eval.report.lines import MACHINE, failed, run


def test_lines_are_told_apart(tmp_path: Path) -> None:
    lines, kernels = tmp_path / "a.jsonl", tmp_path / "kernels.json"
    lines.write_text(json.dumps(run("slash", 1e6)) + "\n\n" + json.dumps({"bytes": 64, "perftest_mib_s": 1.0}) + "\n")
    note(lines, "s", bar="ratio", figure="5x", wanted=">= 6x", met=False)
    note(lines, "s", command="python -m eval bars")
    kernels.write_text(json.dumps({"context": {}, "benchmarks": [{"name": "merge", "cycles/record": 12.5}]}, indent=1))
    results = Results.load([lines, kernels])
    assert [comparison.title for comparison in results.comparisons] == ["tumbling"]
    assert [bar["figure"] for bar in results.bars] == ["5x"]
    assert len(results.reads) == len(results.kernels) == 1


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"engine": "slash"}\n{"engine": ')
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2"):
        Results.load([file])


def test_a_comparison_is_one_session_title_and_workload() -> None:
    records = [
        run("slash", 8e6),
        run("spark-rocksdb", 2e6),
        run("slash", 9e6, session="other"),
        run("slash", 9e6, workload={"keys": 7}),
        run("slash", 9e6, title="sliding"),
    ]
    comparisons = compare(records)
    assert len(comparisons) == 4
    assert comparisons[0].ratio("slash") == 4.0
    assert all(comparison.ratio("slash") is None for comparison in comparisons[1:])
    assert [runs.engine for runs in comparisons[0].measured] == ["slash", "spark-rocksdb"]


def test_one_wrong_run_makes_an_engine_wrong() -> None:
    (comparison,) = compare([run("slash", 1e6), run("slash", 1e6, correct=False), run("slash", 1e6, correct=None)])
    assert comparison.engines["slash"].correct is False


def test_an_engine_that_failed_later_is_not_measured() -> None:
    broken = [failed("slash", error) for error in ("arena full", "gone")]
    (comparison,) = compare([run("slash", 8e6), *broken, run("spark-rocksdb", 2e6)])
    ours, theirs = comparison.engines["slash"], comparison.engines["spark-rocksdb"]
    assert (ours.failed, ours.rate) == ("arena full", 8e6)
    assert theirs.failed is None
    assert comparison.measured == [theirs]
    assert comparison.ratio("slash") is None


def test_cycles_are_counted_or_come_from_cpu_time() -> None:
    assert cycles_a_row(run("slash", 1e6, cpu_seconds=2.0)) == 2.0 * 2.5e9 / 1_000_000
    assert cycles_a_row(run("slash", 1e6, cpu_seconds=2.0, cycles=53e6)) == 53
    # An engine may be measured on its first micro-batches alone.
    assert cycles_a_row(run("slash", 1e6, cpu_seconds=2.0, rows=500_000)) == 2.0 * 2.5e9 / 500_000
    assert cycles_a_row(run("slash", 1e6)) is None
    assert cycles_a_row(run("slash", 1e6, cpu_seconds=2.0, machine={"cpu": "another"})) is None
    assert clock_hz({**MACHINE, "hz": 3e9}) == 3e9


def test_the_median_batch_is_taken_over_all_runs() -> None:
    assert batch_ms([{"batch_ms": [1, 2]}, {"batch_ms": [9]}, {}]) == 2
    assert batch_ms([]) == 0
