"""The wheel for ARM64, cross-built, under an emulated processor."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What an emulated processor does in a minute.
SOME = ["tests/native/test_crc32c.py", "tests/native/test_arena.py", "tests/native/test_accumulator.py"]
CANNOT = 125


@pytest.mark.nightly
@pytest.mark.timeout(3600)  # a first run compiles
def test_the_wheel_runs_on_arm64() -> None:
    done = subprocess.run(["scripts/arm64.sh", *SOME], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == CANNOT:
        pytest.skip(done.stderr.strip().removeprefix("arm64: "))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "aarch64: InvalidPlanError: a plan ends with a line feed" in done.stdout
    assert re.search(r"\d+ passed in ", done.stdout)
    assert not re.search(r"skipped|deselected", done.stdout.splitlines()[-1])
