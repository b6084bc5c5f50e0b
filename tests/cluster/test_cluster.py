"""Two executors with an agent each: their partial state is merged across agents, by every transport."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.standalone import standalone_cluster

ROOT = Path(__file__).resolve().parents[2]


def run_job(master: str, folder: Path, *variants: dict[str, str]) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.cluster.job", master, str(folder)]
    command += [",".join(f"{name}={value}" for name, value in variant.items()) for variant in variants]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    findings: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    for variant, found in zip(variants, findings, strict=True):
        assert found["differences"] == []
        assert found["rows"] > 1000
        if variant.get("fault") not in (
            "straggle",
            "kill",
        ):  # the host of the straggler may hold nothing, whichever it is
            assert found["agents"] == 2
    return findings


@pytest.mark.timeout(420)
def test_local_cluster(tmp_path: Path) -> None:
    # No merge in the driver: both merge tasks read from both agents.
    ways = [("rows", "shm"), ("arrow", "tcp"), ("rows", "auto")]
    variants = [{"ingest": ingest, "transport": transport, "merge.driverBytes": "0"} for ingest, transport in ways]
    for variant in variants[1:]:
        variant["fault"] = "retry"
    for (_, transport), found in zip(ways, run_job("local-cluster[2,1,1024]", tmp_path, *variants), strict=True):
        used, unused = ("tcp", "shm") if transport == "tcp" else ("shm", "tcp")
        assert found["bytes_read"][used] > 0
        assert found["bytes_read"][unused] == 0


@pytest.mark.timeout(420)
def test_groups_are_kept_by_executors_and_read_again_where_one_is_lost(tmp_path: Path) -> None:
    homes = {"ingest": "rows", "merge.driverBytes": "0", "output": "update"}
    variants = [homes, {**homes, "output": "complete"}, {**homes, "transport": "tcp"}, {**homes, "fault": "kill"}]
    kept, whole, read, killed = run_job("local-cluster[2,1,1024]", tmp_path, *variants)
    assert "2 homes" in kept["merged_by"]
    assert "2 homes" in whole["merged_by"]
    assert read["bytes_read"]["tcp"] > kept["bytes_read"]["shm"]
    assert "2 homes" in killed["merged_by"]


@pytest.mark.timeout(420)
@pytest.mark.parametrize(
    ("query", "conf_of_killed"),
    [("unique", {}), ("sessions", {"session.rewriteBytes": "1"})],
    ids=["unique", "sessions"],
)
def test_what_executors_keep_of_a_query_is_read_again_where_one_is_lost(
    tmp_path: Path, query: str, conf_of_killed: dict[str, str]
) -> None:
    homes = {"ingest": "rows", "merge.driverBytes": "0", "query": query}
    variants = [homes, {**homes, "transport": "tcp"}, {**homes, **conf_of_killed, "fault": "kill"}]
    kept, read, killed = run_job("local-cluster[2,1,1024]", tmp_path, *variants)
    assert "2 homes" in kept["merged_by"]
    assert read["bytes_read"]["tcp"] > kept["bytes_read"]["shm"]
    assert "2 homes" in killed["merged_by"]


@pytest.mark.timeout(420)
def test_rows_are_joined_by_executors_and_read_again_where_one_is_lost(tmp_path: Path) -> None:
    joined = {"query": "joined"}
    for found in run_job("local-cluster[2,1,1024]", tmp_path, joined, {**joined, "fault": "kill"}):
        assert "2 homes" in found["merged_by"]


@pytest.mark.timeout(600)
def test_standalone_cluster(tmp_path: Path) -> None:
    variants = [
        {"transport": "tcp", "merge.driverBytes": "0"},
        {"merge.driverBytes": "64m", "fault": "straggle"},
    ]
    with standalone_cluster(tmp_path) as master:
        by_tasks, by_driver = run_job(master, tmp_path, *variants)
    assert by_tasks["bytes_read"]["tcp"] > 0
    assert "driver" in by_driver["merged_by"]
