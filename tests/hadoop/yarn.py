"""A YARN cluster on loopback: Hadoop's own MiniYARNCluster, whose containers are processes of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.support.hadoop import fetched

JARS = Path(pyspark.__file__).parent / "jars"
PROGRAM = Path(__file__).with_name("SmallYarn.java")


@dataclass(frozen=True)
class Yarn:
    """A running cluster: where its containers work, and the environment of who submits to it."""

    folder: Path
    environment: dict[str, str]

    def logs(self, name: str) -> dict[str, str]:
        """What containers have written to their `stdout` or `stderr`."""
        found = sorted(self.folder.glob(f"target/**/container_*/{name}"))
        return {log.parent.name: log.read_text(errors="replace") for log in found}


@contextmanager
def yarn(folder: Path) -> Iterator[Yarn]:
    """The cluster while it runs. Its hosts' names are names of loopback, to whoever has this environment."""
    jars = fetched("yarn")
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n127.0.0.1 {socket.gethostname()}\n")
    java = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djdk.net.hosts.file={hosts}"
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": java, "HADOOP_CONF_DIR": str(folder)}
    command = ["java", "-Xmx512m", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", f"{jars}:{JARS}/*"]
    with (folder / "yarn.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, str(PROGRAM), str(folder)],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        started = any(line == b"READY\n" for line in process.stdout)
        assert started, (folder / "yarn.log").read_text()[-3000:]
        yield Yarn(folder, environment)
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
