"""A Spark standalone cluster on loopback: one master, two workers of one core each unless more is asked for.

Each worker has an address of its own, and so is a host of its own to Spark: speculation never uses the same host twice.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

DEADLINE_SECONDS = 60


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """The master's URL while the cluster runs; every process is ended afterwards."""
    home = Path(pyspark.__file__).parent
    port, web = _free_port(), _free_port()
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1"}
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


def wait_for_workers(url: str, workers: int, seconds: float) -> None:
    """Return once the master, asked at `url` for its state as JSON, knows so many."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if json.load(answer)["aliveworkers"] == workers:
                    return
        except OSError:
            pass
        time.sleep(0.2)  # polling another process's state, up to the deadline
    raise TimeoutError(f"the standalone cluster had not {workers} workers within {seconds} s")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
