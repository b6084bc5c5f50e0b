"""Steps of a scaling run, their lines, and a whole run on two workers of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cluster.hosts import Host
from eval.cluster.scaling import collect, node_counts, steps
from eval.records import Results
from eval.report.sweeps import scaling
from eval.workloads import Ysb

ROOT = Path(__file__).resolve().parents[3]


def test_steps_double_up_to_all() -> None:
    assert [node_counts(hosts) for hosts in (1, 2, 5, 8)] == [[1], [1, 2], [1, 2, 4, 5], [1, 2, 4, 8]]


def test_rows_grow_in_weak_scaling_alone() -> None:
    one, strong = Ysb(rows=100, span_s=60.0), Ysb(rows=700, span_s=60.0)
    made = [(step.title, step.workload.rows) for step in steps(["weak", "strong"], [1, 2], one, strong)]
    assert made == [
        ("weak scaling, 1 node", 100),
        ("weak scaling, 2 nodes", 200),
        ("strong scaling, 1 node", 700),
        ("strong scaling, 2 nodes", 700),
    ]
    assert {step.workload.span_s for step in steps(["weak"], [1, 8], one, strong)} == {60.0}


def test_lines_are_collected_with_their_step(tmp_path: Path) -> None:
    part, out = tmp_path / "a.part", tmp_path / "out.jsonl"
    line = {"session": "s", "engine": "slash", "rows_per_second": 1.0, "cpu_seconds": 3.0, "machine": {"cores": 2}}
    (step,) = steps(["weak"], [2], Ysb(rows=100), Ysb(rows=100))
    for _ in range(2):
        part.write_text(json.dumps(line) + "\n")
        collect(part, out, step, [Host("a", 2), Host("b", 2, "mlx5_0")])
    collect(part, out, step, [])
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(records) == 2
    assert (records[0]["nodes"], records[0]["scaling"]) == (2, "weak")
    assert records[0]["machine"] == {"cores": 2, "cluster": "a (2 slots), b (2 slots, mlx5_0)"}
    assert "cpu_seconds" not in records[0]


@pytest.mark.nightly
def test_two_workers_of_this_machine(tmp_path: Path) -> None:
    hosts, out, report = (tmp_path / name for name in ("hosts", "out.jsonl", "report.html"))
    hosts.write_text("127.0.0.1 slots=1\n127.0.0.2 slots=1\n")
    words = [sys.executable, "-m", "eval", "cluster", "--hosts", str(hosts), "--launcher", "local"]
    words += ["--data", str(tmp_path / "data"), "--work", str(tmp_path / "work"), "--out", str(out)]
    words += ["--report", str(report), "--engines", "slash", "--scaling", "weak", "--repeats", "1"]
    words += ["--rows-per-node", "40000", "--set", "campaigns=100", "--set", "batches=4"]
    words += ["--executor-memory", "512m", "--driver-memory", "1", "--conf", "spark.slash.arena.size=128m"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    results = Results.load([out])
    (sweep,) = scaling(results.comparisons)
    assert sweep.values == [1, 2]
    assert [runs.correct for _, runs in sweep.curves["slash"]] == [True, True]
    assert "weak scaling, 2 nodes" in report.read_text()
