"""Spark over RDMA in the lab: a standalone cluster over its two hosts, a small YSB stream merged by verbs alone.

    python -m tests.cluster.over_rdma prepare FOLDER     on the machine itself
    python -m tests.cluster.over_rdma run FOLDER         on the lab's first host

Master, driver and an executor on host 1, an executor on host 2. Merges are done by tasks, so each executor READs what
the other one's agent holds. The last line is JSON; the exit status is 0 if rows and counters are what they have to be.

`prepare` writes the events where both hosts see them, and runs the whole once on this machine, where each kind of JVM
leaves an archive of the classes that it has loaded (CDS): to load them anew is most of what an emulated host would do.
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
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from eval.cluster.standalone import free_port, wait_for_workers
from eval.workloads.base import WATERMARK_MS
from eval.workloads.ysb import Ysb
from tests.streaming.stream import differences, run

ROOT = Path(__file__).resolve().parents[2]
ON = ROOT / "scripts" / "rxe_lab" / "on"
STREAM = Ysb(rows=18_000, batches=6, span_s=45.0, campaigns=200)
FILES_A_BATCH = 2  # a task each, so that both executors have some
START_SECONDS = 480


@dataclass(frozen=True)
class Place:
    """Where the cluster runs: addresses of its two hosts, what starts a command on the second one, flags of JVMs."""

    hosts: tuple[str, str]
    on_second: tuple[str, ...]
    transport: str
    archives: str

    def java(self, kind: str) -> str:
        """Emulated hosts: compile less."""
        return f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto {self.archives}/{kind}.jsa"


def machine(folder: Path) -> Place:
    """This machine, which looks like two hosts."""
    return Place(("127.0.0.1", "127.0.0.2"), (), "auto", f"-XX:ArchiveClassesAtExit={folder}")


def lab(folder: Path) -> Place:
    """The lab."""
    return Place(("10.77.0.1", "10.77.0.2"), (str(ON), "host2"), "verbs", f"-XX:SharedArchiveFile={folder}")


@contextmanager
def cluster(place: Place, folder: Path) -> Iterator[str]:
    """A master and a worker on the first host, a worker on the second."""
    home = Path(pyspark.__file__).parent
    first, second = place.hosts
    port, web = free_port(first), free_port(first)
    url = f"spark://{first}:{port}"

    def daemon(host: str, kind: str, arguments: str) -> list[str]:
        settings = f'SPARK_LOCAL_IP={host} SPARK_HOME="{home}" SPARK_DAEMON_MEMORY=256m '
        settings += f'SPARK_DAEMON_JAVA_OPTS="{place.java(kind)}" SPARK_LAUNCHER_OPTS="-XX:TieredStopAtLevel=1"'
        name = kind.rstrip("12")
        main = f"org.apache.spark.deploy.{name}.{name.capitalize()}"
        return ["bash", "-c", f'{settings} exec "{home}/bin/spark-class" {main} --host {host} {arguments}']

    def worker(host: str, kind: str) -> list[str]:
        return daemon(host, kind, f'--cores 1 --memory 1g --work-dir "$(mktemp -d)" {url}')

    commands = {
        "master": daemon(first, "master", f"--port {port} --webui-port {web}"),
        "worker1": worker(first, "worker1"),
        "worker2": [*place.on_second, *worker(second, "worker2")],
    }
    processes = []
    try:
        for name, command in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        wait_for_workers(f"http://{first}:{web}/json/", 2, START_SECONDS)
        yield url
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def session(place: Place, master: str) -> SparkSession:
    """Patient with slow hosts."""
    settings = {
        "spark.driver.host": place.hosts[0],
        "spark.driver.bindAddress": place.hosts[0],
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": place.java("executor{{EXECUTOR_ID}}"),
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


def end(spark: SparkSession) -> None:
    """Ends the driver's JVM too, and waits until it has left its archive."""
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(120)


def findings(spark: SparkSession, place: Place, folder: Path, scratch: Path) -> dict[str, object]:
    """The stream's rows against those of Spark batch, and what moved them."""
    rows = str(folder / "rows")
    batch = spark.read.parquet(rows)
    source = spark.readStream.schema(batch.schema).option("maxFilesPerTrigger", FILES_A_BATCH).parquet(rows)
    # Nothing is shared between the hosts that a checkpoint could be written to: each agent is the other's standby.
    conf = {"transport": place.transport, "merge.driverBytes": "0", "durability": "replica"}
    outcome = run(STREAM.query(spark, source, folder), scratch, **conf)
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


@contextmanager
def scratch_folder(action: str) -> Iterator[Path]:
    """For logs and the driver's checkpoint. /lab is seen, and kept, outside of the host."""
    if action == "run":
        yield Path(tempfile.mkdtemp(dir="/lab"))
    else:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            os.environ["TMPDIR"] = folder
            yield Path(folder)


def told(what: str) -> None:
    """When it was done."""
    print(f"{what}: {time.monotonic() - STARTED:.0f} s", flush=True)


def main(action: str, folder: Path) -> int:
    """0 if the rows are equal and, in the lab, all bytes moved by verbs."""
    archives = folder / "classes"
    archives.mkdir(parents=True, exist_ok=True)
    place = {"prepare": machine, "run": lab}[action](archives)
    os.environ["SPARK_LOCAL_IP"] = place.hosts[0]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    java = place.java("driver")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-memory 700m --driver-java-options "{java}" pyspark-shell'
    with scratch_folder(action) as scratch, cluster(place, scratch) as master:
        told("cluster")
        spark = session(place, master)
        told("session")
        found = findings(spark, place, STREAM.generate(folder), scratch)
        end(spark)
        told("stopped")
        print(json.dumps(found), flush=True)
    good = found["differences"] == [] and found["rows"] == found["expected"] and found["rows"] and found["agents"] == 2
    return 0 if good and (action == "prepare" or set(found["bytes_read"]) == {"verbs"}) else 1


STARTED = time.monotonic()

if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]).resolve()))
