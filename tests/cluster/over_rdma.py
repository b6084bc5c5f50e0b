"""Spark over RDMA in the lab: a standalone cluster over its two hosts, a small YSB stream merged by verbs alone.

    python -m tests.cluster.over_rdma prepare FOLDER     on the machine itself
    python -m tests.cluster.over_rdma run FOLDER         on the lab's first host

Master, driver and an executor on host 1, an executor on host 2. Merges are done by tasks, so each executor READs what
the other one's agent holds. The last line is JSON; the exit status is 0 if rows and counters are what they have to be.

`prepare` writes the events where both hosts see them, and runs the same stream in one JVM of this machine, which leaves
an archive of the classes that it has loaded (CDS): to load them anew is most of what JVMs on emulated hosts would do.
It also asks Spark's launcher, a JVM too, how daemons are started.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from eval.cluster.standalone import wait_for_workers
from eval.workloads.base import WATERMARK_MS
from eval.workloads.ysb import Ysb
from tests.support.jvm import JAVA_OPTIONS, end
from tests.support.stream import differences, run

ROOT = Path(__file__).resolve().parents[2]
ON = ROOT / "scripts" / "rxe_lab" / "on"
STREAM = Ysb(rows=18_000, batches=6, span_s=45.0, campaigns=200)
FILES_A_BATCH = 2  # a task each, so that both executors have some
START_SECONDS = 900
FIRST = "10.77.0.1"


HOME = Path(pyspark.__file__).parent
# What bin/load-spark-env.sh sets for all versions that pyslash works with.
SPARK = {"SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13"}


def daemon_command(name: str, java: str) -> list[str]:
    """How Spark starts a Master or Worker."""
    main = f"org.apache.spark.deploy.{name.lower()}.{name}"
    launcher = [java_program(), "-cp", f"{HOME}/jars/*", "org.apache.spark.launcher.Main", main]
    settings = {**SPARK, "SPARK_DAEMON_JAVA_OPTS": java, "SPARK_DAEMON_MEMORY": "256m"}
    told = subprocess.run(launcher, env={**os.environ, **settings}, stdout=subprocess.PIPE, check=True).stdout
    # As bin/spark-class reads it: an empty line begins the command, each word of it ends with a zero.
    return [word.decode() for word in told.partition(b"\0\n")[2].split(b"\0")[:-1]]


def java_program() -> str:
    """The one that Spark takes."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


@contextmanager
def cluster(daemons: dict[str, list[str]], folder: Path) -> Iterator[str]:
    """A master and a worker here, a worker on the other host."""
    environment = {**os.environ, **SPARK, "SPARK_LOCAL_IP": FIRST}
    url = f"spark://{FIRST}:7077"
    worker = f"SPARK_LOCAL_IP=$PYSLASH_LAB_ADDRESS exec {shlex.join(daemons['Worker'])} "
    worker += f"--host $PYSLASH_LAB_ADDRESS --cores 1 --memory 1g --work-dir /tmp/spark-work {url}"
    commands = {
        "master": [*daemons["Master"], "--host", FIRST, "--port", "7077"],
        "worker-1": ["bash", "-c", worker],
        "worker-2": [str(ON), "host2", "bash", "-c", worker],
    }
    processes = []
    try:
        for name, command in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        wait_for_workers(f"http://{FIRST}:8080/json/", 2, START_SECONDS)
        yield url
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def session(master: str, host: str, java: str) -> SparkSession:
    """Patient with slow hosts."""
    os.environ["SPARK_LOCAL_IP"] = host
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-memory 700m --driver-java-options "{java}" pyspark-shell'
    settings = {
        "spark.driver.host": host,
        "spark.driver.bindAddress": host,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": java,
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "480s",
        "spark.network.timeout": "600s",
        "spark.executor.heartbeatInterval": "60s",
        "spark.locality.wait": "0s",
        "spark.sql.files.maxPartitionBytes": "4m",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
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


def findings(spark: SparkSession, folder: Path, scratch: Path, **conf: str) -> dict[str, Any]:
    """The stream's rows against those of Spark batch, and what moved them."""
    rows = str(folder / "rows")
    batch = spark.read.parquet(rows)
    source = spark.readStream.schema(batch.schema).option("maxFilesPerTrigger", FILES_A_BATCH).parquet(rows)
    outcome = run(STREAM.query(spark, source, folder), scratch, **{"merge.driverBytes": "0", **conf})
    told("stream")
    latest = batch.where("event_type = 'view'").agg(F.max("event_time")).collect()[0][0].astimezone(UTC)
    closed_us = int(latest.timestamp() * 1000) * 1000 - WATERMARK_MS * 1000
    expected = (
        STREAM.query(spark, batch, folder).where(F.col("window.end") <= F.timestamp_micros(F.lit(closed_us))).collect()
    )
    told("batch")
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


def told(what: str) -> None:
    """When it was done."""
    print(f"{what}: {time.monotonic() - STARTED:.0f} s", flush=True)


def prepare(folder: Path) -> int:
    """0 if the rows are equal."""
    archive = folder / "classes.jsa"
    spark = session("local[2]", "127.0.0.1", f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={archive}")
    with tempfile.TemporaryDirectory() as scratch:
        found = findings(spark, STREAM.generate(folder), Path(scratch), durability="off")
        end(spark)
    java = f"{JAVA_OPTIONS} -XX:SharedArchiveFile={archive}"
    daemons = {name: daemon_command(name, java) for name in ("Master", "Worker")}
    (folder / "daemons.json").write_text(json.dumps(daemons))
    told(f"{archive.stat().st_size >> 20} MiB of classes")
    return 0 if equal(found) else 1


def run_in_lab(folder: Path) -> int:
    """0 if the rows are equal and all bytes moved by verbs."""
    java = f"{JAVA_OPTIONS} -XX:SharedArchiveFile={folder / 'classes.jsa'}"
    # /lab is seen, and kept, outside of the host.
    scratch = Path(tempfile.mkdtemp(dir="/lab"))
    with cluster(json.loads((folder / "daemons.json").read_text()), scratch) as master:
        told("cluster")
        spark = session(master, FIRST, java)
        told("session")
        # Nothing is shared between the hosts that a checkpoint could be in: each agent is the other one's standby.
        found = findings(spark, STREAM.generate(folder), scratch, transport="verbs", durability="replica")
        end(spark)
        told("stopped")
    print(json.dumps(found), flush=True)
    return 0 if equal(found) and found["agents"] == 2 and set(found["bytes_read"]) == {"verbs"} else 1


def equal(found: dict[str, Any]) -> bool:
    """Whether there are rows, those of Spark batch."""
    return found["differences"] == [] and found["rows"] == found["expected"] > 0


STARTED = time.monotonic()

if __name__ == "__main__":
    sys.exit({"prepare": prepare, "run": run_in_lab}[sys.argv[1]](Path(sys.argv[2]).resolve()))
