"""What the bench of watching makes of figures; and one short run of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eval.watch import bar


@pytest.mark.parametrize(
    ("watched", "figure", "met"),
    [([[100, 102], [101, 101], [900]], "0.99%", True), ([[103], [103]], "2.91%", False), ([[99]], "-1.01%", True)],
)
def test_the_cost_is_that_of_the_median_turn(watched: list[list[int]], figure: str, met: bool) -> None:
    found = bar(watched, [[90, 110], [100], [500]])
    assert (found.figure, found.met) == (figure, met)


@pytest.mark.nightly
def test_a_short_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "eval", "watch", "--epochs", "4", "--turn", "2", "--cache", str(tmp_path)]
    done = subprocess.run([*command, "--out", str(tmp_path / "out.jsonl")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "throughput that watching costs" in done.stdout
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 4
