"""Agents and executors killed while their state is in standbys' memory: rows stay Spark's, and no file is read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Two executors, one agent lost at each point of an epoch's life, the last time with its executor.
ONE_LOST = [
    "replica:agent:after update",
    "replica:agent:after replica",
    "replica:agent:after manifest",
    "both:agent:after commit",
    "replica:executor:before release",
]


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of each case, in one application."""
    cases = [*ONE_LOST, "both:agents:after commit", "replica:agents:after commit"]
    folder = tmp_path_factory.mktemp("standby")
    command = [sys.executable, "-m", "tests.faults.standby_job", "local-cluster[2,1,1024]", str(folder), *cases]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return dict(zip(cases, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.timeout(660)
@pytest.mark.parametrize("case", ONE_LOST)
def test_a_lost_agent_comes_back_from_memory(findings: dict[str, dict[str, Any]], case: str) -> None:
    found = findings[case]
    assert found["error"] == ""
    assert found["differences"] == []
    assert found["rows"] > 1000
    assert (found["agents"], found["recoveries"], found["promotions"]) == (2, 1, 1)
    assert found["restored_files"] == 0
    assert found["replica_bytes"] > 0
    assert (found["checkpoint_bytes"] > 0) == case.startswith("both")


def test_all_lost_at_once_come_back_from_the_checkpoint(findings: dict[str, dict[str, Any]]) -> None:
    found = findings["both:agents:after commit"]
    assert (found["error"], found["differences"]) == ("", [])
    assert found["promotions"] == 0
    assert found["restored_files"] > 0


def test_all_lost_at_once_without_a_checkpoint_end_the_query(findings: dict[str, dict[str, Any]]) -> None:
    found = findings["replica:agents:after commit"]
    assert "cannot be recovered from memory" in found["error"]
    assert "checkpointLocation" in found["error"]
