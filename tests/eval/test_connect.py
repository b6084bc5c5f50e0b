"""What the bench of Spark Connect makes of figures; and one short run of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eval.connect import bar


@pytest.mark.parametrize(
    ("client", "classic", "figure", "met"),
    [
        ([103.0] * 5, [100.0] * 5, "1.030 ± 0.000", True),
        ([107.0] * 5, [100.0] * 5, "1.070 ± 0.000", False),
        ([90.0, 104, 104, 104, 200], [100.0] * 5, "1.040 ± 0.457", None),
        ([100.0], [100.0], "1.000", None),
    ],
)
def test_the_ratio_is_that_of_the_median_pair(
    client: list[float], classic: list[float], figure: str, met: bool | None
) -> None:
    found = bar("time", client, classic)
    assert (found.figure, found.met) == (figure, met)


@pytest.mark.nightly
def test_a_short_run(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect's client needs grpcio")
    out = tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "eval", "connect", "--rows", "20000", "--batches", "2", "--pairs", "2"]
    done = subprocess.run(
        [*command, "--cache", str(tmp_path), "--out", str(out)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    runs = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(one["way"], one["pair"]) for one in runs] == [("classic", 0), ("client", 0), ("client", 1), ("classic", 1)]
    assert all(one["seconds"] > 0 < one["cpu_seconds"] and len(one["batch_ms"]) >= 2 for one in runs)
    assert "processor time of a client over a classic session" in done.stdout
