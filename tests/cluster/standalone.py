"""A Spark standalone cluster on loopback: one master, two workers of one core each unless more is asked for.

Each worker has an address of its own, and so is a host of its own to Spark: speculation never uses the same host twice.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from eval.cluster.standalone import free_port, wait_for_workers
from tests.support.jvm import JAVA_OPTIONS

DEADLINE_SECONDS = 300


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """The master's URL while the cluster runs; every process is ended afterwards."""
    home = Path(pyspark.__file__).parent
    port, web = free_port("127.0.0.1"), free_port("127.0.0.1")
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS}
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, host: str, *arguments: str) -> None:
        log = (folder / f"{name}.log").open("wb")
        command = [str(home / "bin" / "spark-class"), *arguments]
        processes.append(
            subprocess.Popen(
                command,
                env={**environment, "SPARK_LOCAL_IP": host},
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
            )
        )

    deploy = "org.apache.spark.deploy"
    url = f"spark://127.0.0.1:{port}"
    try:
        start(
            "master",
            "127.0.0.1",
            f"{deploy}.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--webui-port",
            str(web),
        )
        for index in range(workers):
            host = f"127.0.0.{index + 1}"
            start(
                f"worker-{index}",
                host,
                f"{deploy}.worker.Worker",
                "--host",
                host,
                "--cores",
                str(cores),
                "--memory",
                memory,
                "--work-dir",
                str(folder / f"work-{index}"),
                url,
            )
        wait_for_workers(f"http://127.0.0.1:{web}/json/", workers, DEADLINE_SECONDS)
        yield url
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
