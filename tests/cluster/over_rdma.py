"""Spark over RDMA in the lab: a standalone cluster over its hosts, a small YSB stream whose merges READ all others.

    python -m tests.cluster.over_rdma prepare FOLDER HOSTS    on the machine itself
    python -m tests.cluster.over_rdma run FOLDER              on the lab's first host

Each host has an executor, the first one master and driver, too. Each executor makes a share of each batch's blocks, and
merges a share of the keys: its agent brings what all others hold. The transport is `auto`, which takes TCP where verbs
fail. The last line is JSON; the exit status is 0 if the rows are plain Spark's, and the counters of driver and agents
say that every agent has read every other one, by verbs alone.

`prepare` writes the events and Spark's answer where all hosts see them, and runs the same stream in one JVM of this
machine, which leaves an archive of the classes that it has loaded (CDS): to load them anew is most of what JVMs on
emulated hosts would do. It also asks Spark's launcher, a JVM too, how daemons are started.
"""

from __future__ import annotations

import json
import os
import pickle
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from eval.cluster.standalone import wait_for_workers
from eval.workloads.base import WATERMARK_MS
from eval.workloads.ysb import Ysb
from pyslash.cluster.find_agents import find_agents
from pyslash.driver.start import hook
from pyslash.protocol.client import AgentClient
from pyslash.protocol.token import query_token
from tests.support.jvm import JAVA_OPTIONS, end
from tests.support.stream import differences, run

ROOT = Path(__file__).resolve().parents[2]
ON = ROOT / "scripts" / "rxe_lab" / "on"
HOSTS = int(os.environ.get("PYSLASH_LAB_HOSTS", "1"))
BATCHES = 3
START_SECONDS = 1800
AGENT_SECONDS = 300
ARENA_BYTES = 64 << 20
NO_QUERY = bytes(16)
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
    """A master and a worker here, a worker on each other host."""
    environment = {**os.environ, **SPARK, "SPARK_LOCAL_IP": FIRST}
    url = f"spark://{FIRST}:7077"
    worker = f"SPARK_LOCAL_IP=$PYSLASH_LAB_ADDRESS exec {shlex.join(daemons['Worker'])} "
    worker += f"--host $PYSLASH_LAB_ADDRESS --cores 1 --memory 1g --work-dir /tmp/spark-work {url}"
    commands = {
        "master": [*daemons["Master"], "--host", FIRST, "--port", "7077"],
        "worker-1": ["bash", "-c", worker],
        **{f"worker-{host}": [str(ON), f"host{host}", "bash", "-c", worker] for host in range(2, HOSTS + 1)},
    }
    processes = []
    try:
        for name, command in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        wait_for_workers(f"http://{FIRST}:8080/json/", HOSTS, START_SECONDS)
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
        "spark.cores.max": str(HOSTS),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{START_SECONDS}s",
        "spark.network.timeout": "1200s",
        "spark.executor.heartbeatInterval": "60s",
        "spark.locality.wait": "0s",
        "spark.sql.files.maxPartitionBytes": "4m",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.slash.arena.size": f"{ARENA_BYTES >> 20}m",
        "spark.slash.agent.startTimeout": str(AGENT_SECONDS),
        "spark.slash.agent.callTimeout": str(AGENT_SECONDS),
    }
    made = SparkSession.builder.master(master).appName("pyslash over RDMA").config(map=settings).getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def stream(hosts: int) -> Ysb:
    """A file for each host and micro-batch: a task each, so that every executor has some."""
    return Ysb(rows=18_000, batches=BATCHES * hosts, span_s=45.0, campaigns=200)


@dataclass
class Answer:
    """What plain Spark makes of the events in `folder`, as a batch."""

    folder: Path
    hosts: int
    schema: StructType
    rows: list[Row]


def by_spark(spark: SparkSession, folder: Path, hosts: int) -> Answer:
    """All windows that the stream has closed at its end."""
    events = stream(hosts)
    folder = events.generate(folder)
    batch = spark.read.parquet(str(folder / "rows"))
    latest = batch.where("event_type = 'view'").agg(F.max("event_time")).collect()[0][0].astimezone(UTC)
    closed = F.timestamp_micros(F.lit(int(latest.timestamp() * 1000) * 1000 - WATERMARK_MS * 1000))
    return Answer(
        folder, hosts, batch.schema, events.query(spark, batch, folder).where(F.col("window.end") <= closed).collect()
    )


def findings(spark: SparkSession, answer: Answer, scratch: Path, **conf: str) -> dict[str, Any]:
    """The stream's rows against those of plain Spark, and what moved them."""
    source = spark.readStream.schema(answer.schema).option("maxFilesPerTrigger", answer.hosts)
    rows = stream(answer.hosts).query(spark, source.parquet(str(answer.folder / "rows")), answer.folder)
    outcome = run(rows, scratch, **{"merge.driverBytes": "0", **conf})
    told("stream")
    moved: Counter[str] = Counter()
    for figures in outcome.progress:
        moved.update(figures["bytes_read"])
    return {
        "rows": len(outcome.rows),
        "expected": len(answer.rows),
        "differences": list(differences(outcome.rows, answer.rows, 1))[:5],
        "agents": max(figures["agents"] for figures in outcome.progress),
        "merged_by": sorted({figures["merged_by"] for figures in outcome.progress}),
        "bytes_read": dict(moved),
    }


def of_peers(spark: SparkSession) -> dict[str, dict[str, dict[str, int]]]:
    """The bytes that each host's agent has brought from each other host's, by transport, as the agents count them."""
    agents = find_agents(spark, hook._secret, ARENA_BYTES, AGENT_SECONDS)
    hosts = {agent.incarnation: agent.host for agent in agents}
    found = {}
    for agent in agents:
        with AgentClient(agent, NO_QUERY, query_token(hook._secret, NO_QUERY), timeout_seconds=AGENT_SECONDS) as client:
            brought = client.stats()["bytes_of_peers"]
        found[agent.host] = {hosts[peer]: by_transport for peer, by_transport in brought.items()}
    return found


def told(what: str) -> None:
    """When it was done."""
    print(f"{what}: {time.monotonic() - STARTED:.0f} s", flush=True)


def prepare(folder: Path, hosts: int) -> int:
    """0 if the rows are equal."""
    archive = folder / "classes.jsa"
    spark = session("local[2]", "127.0.0.1", f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={archive}")
    with tempfile.TemporaryDirectory() as scratch:
        answer = by_spark(spark, folder, hosts)
        found = findings(spark, answer, Path(scratch), durability="off")
        end(spark)
    (folder / "answer.pickle").write_bytes(pickle.dumps(answer))
    java = f"{JAVA_OPTIONS} -XX:SharedArchiveFile={archive}"
    daemons = {name: daemon_command(name, java) for name in ("Master", "Worker")}
    (folder / "daemons.json").write_text(json.dumps(daemons))
    told(f"{archive.stat().st_size >> 20} MiB of classes")
    return 0 if equal(found) else 1


def run_in_lab(folder: Path) -> int:
    """0 if the rows are equal and every host has read every other one by verbs."""
    java = f"{JAVA_OPTIONS} -XX:SharedArchiveFile={folder / 'classes.jsa'}"
    answer = pickle.loads((folder / "answer.pickle").read_bytes())
    # /lab is seen, and kept, outside of the host.
    scratch = Path(tempfile.mkdtemp(dir="/lab"))
    with cluster(json.loads((folder / "daemons.json").read_text()), scratch) as master:
        told("cluster")
        spark = session(master, FIRST, java)
        told("session")
        # Nothing is shared between the hosts that a checkpoint could be in: each agent is another one's standby.
        found = findings(spark, answer, scratch, durability="replica")
        found["of_peers"] = of_peers(spark)
        end(spark)
        told("stopped")
    print(json.dumps(found), flush=True)
    return 0 if equal(found) and found["agents"] == HOSTS and by_verbs(found, HOSTS) else 1


def equal(found: dict[str, Any]) -> bool:
    """Whether there are rows, those of plain Spark."""
    return found["differences"] == [] and found["rows"] == found["expected"] > 0


def by_verbs(found: dict[str, Any], count: int) -> bool:
    """Whether each of so many hosts has read each other one, and by verbs alone: a host's own memory is mapped.

    What the agents have brought has to be what the driver has counted of its tasks.
    """
    hosts = {f"10.77.0.{host}" for host in range(1, count + 1)}
    brought = [by_transport for peers in found["of_peers"].values() for by_transport in peers.values()]
    return (
        {host: set(peers) for host, peers in found["of_peers"].items()} == {host: hosts - {host} for host in hosts}
        and all(set(by_transport) == {"verbs"} and by_transport["verbs"] > 0 for by_transport in brought)
        and set(found["bytes_read"]) == {"shm", "verbs"}
        and sum(by_transport["verbs"] for by_transport in brought) == found["bytes_read"]["verbs"]
    )


STARTED = time.monotonic()

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["prepare", into, hosts]:
            sys.exit(prepare(Path(into).resolve(), int(hosts)))
        case ["run", into]:
            sys.exit(run_in_lab(Path(into).resolve()))
        case _:
            sys.exit("usage: over_rdma prepare FOLDER HOSTS | run FOLDER")
