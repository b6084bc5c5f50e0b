"""What the bench of watching makes of figures; and one short run of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eval.watch import bar


@pytest.mark.parametrize(
    ("watched", "unwatched", "figure", "met"),
    [
        ([101, 500.5, 80], [100, 499, 50], "0.99% ± 19.97%", False),
        ([101] * 9, [100] * 9, "0.99% ± 0.00%", True),
        ([103, 103], [100, 100], "2.91% ± 0.00%", False),
        ([99], [100], "-1.01% ± 0.00%", True),
    ],
)
def test_the_cost_is_that_of_the_median_pair(
    watched: list[float], unwatched: list[float], figure: str, met: bool
) -> None:
    found = bar("throughput", watched, unwatched)
    assert (found.figure, found.met) == (figure, met)


@pytest.mark.nightly
def test_a_short_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "eval", "watch", "--epochs", "4", "--turn", "2", "--cache", str(tmp_path)]
    done = subprocess.run([*command, "--out", str(tmp_path / "out.jsonl")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "throughput that watching costs" in done.stdout
    assert "processor time that watching costs" in done.stdout
    assert "processor time of the events alone" in done.stdout
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 5
