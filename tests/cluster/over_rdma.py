"""Spark over RDMA in the lab: a standalone cluster over its two hosts, a small YSB stream merged by verbs alone.

    python -m tests.cluster.over_rdma prepare FOLDER     on the machine: the events, where both hosts see them
    python -m tests.cluster.over_rdma run FOLDER         on the lab's first host

Master, driver and an executor on host 1, an executor on host 2. Merges are done by tasks, so each executor READs what
the other one's agent holds. The last line is JSON; the exit status is 0 if rows and counters are what they have to be.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from eval.cluster.standalone import wait_for_workers
from eval.workloads.base import WATERMARK_MS
from eval.workloads.ysb import Ysb
from tests.streaming.stream import differences, run

ROOT = Path(__file__).resolve().parents[2]
ON = ROOT / "scripts" / "rxe_lab" / "on"
MASTER, OTHER = "10.77.0.1", "10.77.0.2"
STREAM = Ysb(rows=20_000, batches=3, span_s=45.0, campaigns=200)
START_SECONDS = 480
# Emulated hosts: compile less, wait longer.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and a worker here, a worker on the other host."""
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_JAVA_OPTS": JAVA, "SPARK_DAEMON_MEMORY": "256m"}
    url = f"spark://{MASTER}:7077"
    spark_class = str(home / "bin" / "spark-class")
    worker = f'SPARK_LOCAL_IP=$PYSLASH_LAB_ADDRESS exec "{spark_class}" org.apache.spark.deploy.worker.Worker '
    worker += f"--host $PYSLASH_LAB_ADDRESS --cores 1 --memory 1g --work-dir /tmp/spark-work {url}"
    commands = {
        "master": [spark_class, "org.apache.spark.deploy.master.Master", "--host", MASTER, "--port", "7077"],
        "worker-1": ["bash", "-c", worker],
        "worker-2": [str(ON), "host2", "bash", "-c", worker],
    }
    processes = []
    try:
        for name, command in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        wait_for_workers(f"http://{MASTER}:8080/json/", 2, START_SECONDS)
        yield url
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def session(master: str) -> SparkSession:
    """Patient with slow hosts."""
    settings = {
        "spark.driver.host": MASTER,
        "spark.driver.bindAddress": MASTER,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": JAVA,
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "240s",
        "spark.network.timeout": "600s",
        "spark.executor.heartbeatInterval": "60s",
        "spark.locality.wait": "0s",
        "spark.sql.files.maxPartitionBytes": "256k",
        "spark.sql.codegen.wholeStage": "false",
        "spark.slash.arena.size": "64m",
        "spark.slash.agent.startTimeout": "180",
        "spark.slash.agent.callTimeout": "120",
    }
    builder = SparkSession.builder.master(master).appName("pyslash over RDMA")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def findings(spark: SparkSession, folder: Path, scratch: Path) -> dict[str, object]:
    """The stream's rows against those of Spark batch, and what moved them."""
    rows = str(folder / "rows")
    schema = spark.read.parquet(rows).schema
    batch = spark.read.parquet(rows)
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", STREAM.files_per_batch).parquet(rows)
    outcome = run(STREAM.query(spark, source, folder), scratch, transport="verbs", **{"merge.driverBytes": "0"})
    latest = batch.where("event_type = 'view'").agg(F.max("event_time")).collect()[0][0].astimezone(UTC)
    closed_us = int(latest.timestamp() * 1000) * 1000 - WATERMARK_MS * 1000
    expected = (
        STREAM.query(spark, batch, folder).where(F.col("window.end") <= F.timestamp_micros(F.lit(closed_us))).collect()
    )
    moved: dict[str, int] = {}
    for figures in outcome.progress:
        for name, size in figures["bytes_read"].items():
            moved[name] = moved.get(name, 0) + size
    return {
        "rows": len(outcome.rows),
        "expected": len(expected),
        "differences": list(differences(outcome.rows, expected, 1))[:5],
        "agents": max(figures["agents"] for figures in outcome.progress),
        "merged_by": sorted({figures["merged_by"] for figures in outcome.progress}),
        "bytes_read": moved,
    }


def main(action: str, folder: Path) -> int:
    """0 if the rows are equal and all bytes moved by verbs."""
    if action == "prepare":
        print(STREAM.generate(folder))
        return 0
    os.environ["SPARK_LOCAL_IP"] = MASTER
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-memory 700m --driver-java-options "{JAVA}" pyspark-shell'
    # /lab is seen, and kept, outside of the host.
    scratch = Path(tempfile.mkdtemp(dir="/lab" if Path("/lab").is_dir() else None))
    started = time.monotonic()
    with cluster(scratch) as master:
        print(f"cluster: {time.monotonic() - started:.0f} s", flush=True)
        spark = session(master)
        print(f"session: {time.monotonic() - started:.0f} s", flush=True)
        found = findings(spark, STREAM.generate(folder), scratch)
        print(json.dumps({**found, "seconds": round(time.monotonic() - started)}), flush=True)
        spark.stop()
    good = found["differences"] == [] and found["rows"] == found["expected"] and found["rows"] and found["agents"] == 2
    return 0 if good and set(found["bytes_read"]) == {"verbs"} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]).resolve()))
