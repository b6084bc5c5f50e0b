"""Hadoop's own small clusters on loopback: a YARN whose containers are processes of this machine, and an HDFS."""

from __future__ import annotations

import os
import socket
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.support.hadoop import fetched

JARS = Path(pyspark.__file__).parent / "jars"


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
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n127.0.0.1 {socket.gethostname()}\n")
    java = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djdk.net.hosts.file={hosts}"
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": java, "HADOOP_CONF_DIR": str(folder)}
    with _running("SmallYarn", folder, environment):
        yield Yarn(folder, environment)


@contextmanager
def hdfs(folder: Path) -> Iterator[str]:
    """The address of an HDFS while it runs."""
    with _running("SmallHdfs", folder, os.environ):
        site = ElementTree.parse(folder / "core-site.xml")
        yield str(site.findtext("property/value"))


@contextmanager
def _running(program: str, folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """A program of this folder, which says READY and runs as long as its standard input is open."""
    command = ["java", "-Xmx512m", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", f"{fetched('yarn')}:{JARS}/*"]
    log = folder / f"{program}.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*command, str(Path(__file__).with_name(f"{program}.java")), str(folder)],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        started = any(line == b"READY\n" for line in process.stdout)
        assert started, log.read_text()[-3000:]
        yield
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
