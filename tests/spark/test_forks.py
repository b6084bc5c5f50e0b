"""No process is forked between two micro-batches: counted by `strace`, in an application with the plugin."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.plugin import PLUGIN

BATCHES = 3
# Each query runs two micro-batches, and three more between two processes of our own, which the trace shows.
JOB = """
import subprocess, sys
from pathlib import Path
import pyslash
from pyspark.sql import SparkSession, functions as F

folder, batches = Path(sys.argv[1]), int(sys.argv[2])
settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.slash.arena.size": "64m"}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
(folder / "in").mkdir()
rows = spark.readStream.schema("ts timestamp, k string").json(str(folder / "in"))
rows = rows.withWatermark("ts", "0 seconds")
counts = rows.groupBy(F.window("ts", "10 seconds"), "k").count()
lists = rows.groupBy(F.session_window("ts", "10 seconds"), "k").agg(F.collect_list("k"))
added = 0

def run(query):
    global added
    added += 1
    hidden = folder / "in" / f".{added}"
    hidden.write_text('{"ts": "2026-01-01T00:%02d:00", "k": "a"}' % added)
    hidden.rename(folder / "in" / f"{added}.json")
    query.processAllAvailable()

for name, frame in {"counts": counts, "lists": lists, "copies": rows, "files": counts, "spark": rows}.items():
    spark.conf.set("spark.slash.logs", "spark" if name == "spark" else "auto")
    writer = frame.writeStream.format("parquet" if name == "files" else "noop").option("path", str(folder / "out"))
    query = writer.option("checkpointLocation", str(folder / name)).start()
    for _ in range(2):
        run(query)
    before = query.lastProgress["batchId"]
    subprocess.run(["true", f"begin {name}"], check=True)
    for _ in range(batches):
        run(query)
    subprocess.run(["true", f"end {name}"], check=True)
    assert query.lastProgress["batchId"] >= before + batches
    print("query", name, "on pyslash:", bool(pyslash.progress(query)))
    query.stop()
"""


def test_no_process_is_forked_in_a_micro_batch(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    strace = shutil.which("strace")
    if strace is None or subprocess.run([strace, "-o", trace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace is missing, or may trace nothing here: forks in a micro-batch are not counted")
    (tmp_path / "job.py").write_text(JOB)
    job = [sys.executable, str(tmp_path / "job.py"), str(tmp_path), str(BATCHES)]
    traced = [strace, "-f", "-qq", "-s", "200", "-e", "trace=execve", "-e", "status=successful", "-o", str(trace), *job]
    plugin = " ".join(f"--conf {name}={value}" for name, value in PLUGIN.items())
    settings = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"{plugin} pyspark-shell"}
    done = subprocess.run(traced, env=settings, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert dict(re.findall(r"query (\w+) on pyslash: (\w+)", done.stdout)) == {
        "counts": "True",
        "lists": "False",
        "copies": "False",
        "files": "True",
        "spark": "False",
    }
    started = [line for line in trace.read_text().splitlines() if "execve(" in line]
    # A JVM asks once, at some heartbeat of its executor, for the size of a page.
    once = {line.split()[0] for line in started if '["getconf", "PAGESIZE"]' in line}
    started = [line for line in started if line.split()[0] not in once]
    at = {
        mark: index
        for index, line in enumerate(started)
        for mark in re.findall(r'\["true", "((?:begin|end) \w+)"\]', line)
    }
    forked = {
        name: started[at[f"begin {name}"] + 1 : at[f"end {name}"]]
        for name in ("counts", "lists", "copies", "files", "spark")
    }
    assert len(forked.pop("spark")) > BATCHES, "Hadoop forks nothing here: this test proves nothing"
    commands = [line for line in forked.pop("files") if "jspawnhelper" not in line]
    # Hadoop forks for the files that the sink writes, and nobody for its log.
    assert [line for line in commands if "chmod" not in line or "/out/" not in line or "_spark_metadata" in line] == []
    assert forked == {"counts": [], "lists": [], "copies": []}
