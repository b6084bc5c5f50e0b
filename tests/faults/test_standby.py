"""Agents and executors killed while their state is in standbys' memory: rows stay Spark's, and no file is read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# One agent of two is lost, the last time with its executor.
ONE_LOST = ["replica:agent:after replica", "replica:executor:before release"]
# At the other points of an epoch's life, and beside a checkpoint.
MORE_LOST = ["replica:agent:after update", "replica:agent:after manifest", "both:agent:after commit"]
# Each loss as soon as the one before it is made good: while the epoch goes on, and while no rows come.
ONE_AFTER_ANOTHER = ["replica:executor+agent:after update"]
MORE_AFTER_ANOTHER = [
    "replica:agent+agent:after replica",
    "replica:agent+executor+agent:after manifest",
    "replica:executor+executor:after commit",
    "both:executor+agent:after replica",
]
ALL_LOST = ["both:agents:after commit", "replica:agents:after commit"]
Finding = dict[str, Any]


def run(cases: list[str], folder: Path) -> dict[str, Finding]:
    """What came of each case, in one application of two executors."""
    command = [sys.executable, "-m", "tests.faults.standby_job", "local-cluster[2,1,1024]", str(folder), *cases]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return dict(zip(cases, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finding]:
    return run([*ONE_LOST, *ONE_AFTER_ANOTHER], tmp_path_factory.mktemp("standby"))


@pytest.fixture(scope="module")
def all_lost(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finding]:
    return run(ALL_LOST, tmp_path_factory.mktemp("all-lost"))


@pytest.mark.parametrize("case", ONE_LOST)
def test_a_lost_agent_comes_back_from_memory(findings: dict[str, Finding], case: str) -> None:
    comes_back_from_memory(case, findings[case])


@pytest.mark.nightly
def test_lost_agents_come_back_from_memory_at_any_point(tmp_path: Path) -> None:
    for case, found in run(MORE_LOST, tmp_path).items():
        comes_back_from_memory(case, found)


@pytest.mark.parametrize("case", ONE_AFTER_ANOTHER)
def test_agents_may_be_lost_one_after_another(findings: dict[str, Finding], case: str) -> None:
    are_lost_one_after_another(case, findings[case])


@pytest.mark.nightly
def test_agents_may_be_lost_one_after_another_at_any_point(tmp_path: Path) -> None:
    for case, found in run(MORE_AFTER_ANOTHER, tmp_path).items():
        are_lost_one_after_another(case, found)


def are_lost_one_after_another(case: str, found: Finding) -> None:
    losses = case.count("+") + 1
    assert (found["errors"], found["differences"]) == ([], [])
    assert found["promotions"] == losses
    assert len(found["exposed_ms"]) >= losses - 1
    assert found["restored_files"] == 0


def comes_back_from_memory(case: str, found: Finding) -> None:
    assert found["error"] == ""
    assert found["differences"] == []
    assert found["rows"] > 1000
    assert (found["agents"], found["recoveries"], found["promotions"]) == (2, 1, 1)
    assert found["restored_files"] == 0
    assert found["replica_bytes"] > 0
    assert (found["checkpoint_bytes"] > 0) == case.startswith("both")


def test_all_lost_at_once_come_back_from_the_checkpoint(all_lost: dict[str, Finding]) -> None:
    found = all_lost["both:agents:after commit"]
    assert (found["error"], found["differences"]) == ("", [])
    assert found["promotions"] == 0
    assert found["restored_files"] > 0


def test_all_lost_at_once_without_a_checkpoint_end_the_query(all_lost: dict[str, Finding]) -> None:
    found = all_lost["replica:agents:after commit"]
    assert len(found["errors"]) == 2  # at the loss, and when the query is started again
    for error in found["errors"]:
        assert "cannot be recovered from memory" in error
        assert re.search(r"the share of agent \w{8} \(pid .*\d+ bytes, is lost: it does not answer, and its", error)
        assert "checkpointLocation" in error
        assert "spark.slash.durability=both" in error
