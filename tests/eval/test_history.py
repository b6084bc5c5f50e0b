"""What the bench of histories makes of a query's progress; and one short run of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eval.history.trickle import micro_batches, p99_bar


def entry(second: int, ms: int, rows: int = 1) -> dict[str, Any]:
    took = {"triggerExecution": ms, "addBatch": ms}
    return {"timestamp": f"1970-01-01T00:00:{second:02}.000Z", "numInputRows": rows, "durationMs": took}


def test_micro_batches_count_that_run_at_that_time_and_have_rows() -> None:
    entries = [entry(1, 900), entry(2, 1500), entry(4, 100), entry(5, 200, rows=0), entry(6, 300), entry(8, 400)]
    entries.insert(0, {"timestamp": "1970-01-01T00:00:04.000Z", "numInputRows": 0, "durationMs": {}})
    assert micro_batches(entries, 3.0, 7.0) == {"batches": 3, "p50_ms": 300, "p99_ms": 1500, "most_ms": 1500}
    with pytest.raises(RuntimeError, match="no micro-batch"):
        micro_batches(entries, 20.0, 30.0)


@pytest.mark.parametrize(
    ("batches", "meanwhile", "met"), [((100, 100), 150, True), ((100, 100), 151, False), ((100, 99), 100, None)]
)
def test_few_micro_batches_judge_nothing(batches: tuple[int, int], meanwhile: int, met: bool | None) -> None:
    before, beside = ({"batches": count, "p99_ms": ms} for count, ms in zip(batches, (100, meanwhile), strict=True))
    assert p99_bar("p99", before, beside, 1.5).met is met


@pytest.mark.nightly
def test_a_short_run(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    sizes = ["--rows", "20000", "--keys", "500", "--groups", "5000", "--seconds", "2", "--nice", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "eval", "history", *sizes, "--cache", str(tmp_path), "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    backfill, state, lost = (json.loads(line) for line in out.read_text().splitlines())
    assert backfill["groups_that_differ"] == 0 < backfill["groups"]
    assert state["last"]["groups"] == 5000 < state["last"]["sum"]
    assert lost["correct"]
    assert lost["replaced_after_seconds"]
    assert len(done.stdout.split("bars\n")[1].splitlines()) == 12
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
