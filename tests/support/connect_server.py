"""A Spark Connect server with the plugin, as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyspark

from eval.cluster.standalone import free_port
from tests.support.plugin import PLUGIN

BIN = Path(pyspark.__file__).parent / "bin"
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
# A client's function may be one of these tests', which a worker beside the server imports.
_ROOT = str(Path(__file__).parents[2])
_ENVIRONMENT = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": _ROOT}


@dataclass(frozen=True)
class Server:
    """One that runs, the folder in which it does, and its process."""

    LOG: ClassVar[str] = "log"

    url: str
    folder: Path
    pid: int

    @property
    def log(self) -> Path:
        return self.folder / self.LOG

    def run(self, *command: str | Path, folder: Path, seconds: float = 900, **environment: str) -> str:
        """A client's command, which has to succeed; what it prints."""
        done = subprocess.run(
            command,
            cwd=folder,
            env=_ENVIRONMENT | environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-3000:] + self.log.read_text()[-3000:]
        return done.stdout


@contextmanager
def connect_server(folder: Path, settings: Mapping[str, str], plugin: Mapping[str, str] = PLUGIN) -> Iterator[Server]:
    """The server while it runs, with these settings of Spark, and of Java those of its environment. `plugin`: nothing,
    for one without pyslash.
    """
    host = "127.0.0.1"
    port = str(free_port(host))
    own = {
        "spark.connect.grpc.binding.address": host,
        "spark.connect.grpc.binding.port": port,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    submit = [str(BIN / "spark-submit"), "--class", _SERVER]
    for name, value in {**settings, **plugin, **own}.items():
        submit += ["--conf", f"{name}={value}"]
    with (folder / Server.LOG).open("w") as log:
        process = subprocess.Popen([*submit, "spark-internal"], cwd=folder, env=_ENVIRONMENT, stdout=log, stderr=log)
        try:
            yield Server(f"sc://{host}:{port}", folder, process.pid)  # spark-submit becomes the JVM
        finally:
            process.terminate()
            process.wait(120)
