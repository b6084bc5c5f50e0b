"""Processes that a test looks at: the application, a History Server, Prometheus. All listen on loopback alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from pyslash.spark.jvm_bridge import jar_path
from tests.support.jvm import JAVA_OPTIONS

_END_SECONDS = 300


@contextmanager
def process(command: Sequence[str | Path], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block: by the end of its standard input, or else by a signal."""
    with log.open("wb") as output:
        running = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        )
        try:
            yield running
        finally:
            if running.stdin is not None:
                running.stdin.close()
            running.terminate()
            running.wait(_END_SECONDS)


def end(running: subprocess.Popen[bytes]) -> None:
    """End one that reads its standard input, and wait."""
    assert running.stdin is not None
    running.stdin.close()
    assert running.wait(_END_SECONDS) == 0


def wait_for(found: Callable[[], object], running: subprocess.Popen[bytes], log: Path, seconds: float) -> None:
    """Until something is found.

    Raises:
        AssertionError: the process has ended, or it took too long; with what it said.
    """
    deadline = time.monotonic() + seconds
    while not found():
        ended = running.poll()
        assert ended is None, f"exit status {ended}: {log.read_text()[-3000:]}"
        assert time.monotonic() < deadline, f"not found after {seconds:g} s: {log.read_text()[-3000:]}"
        time.sleep(0.1)  # polling another process's state, up to the deadline


def get(url: str) -> str | None:
    """What is at this address; None if nobody answers, or nothing is there."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, ConnectionError):
        return None


def application(folder: Path, port: int, module: str = "tests.watch.application") -> list[str | Path]:
    """The command of an application of this folder."""
    return [sys.executable, "-m", module, folder, str(port)]


def history_server(events: Path, store: Path, port: int) -> list[str | Path]:
    """Spark's own, with pyslash's jar on its class path."""
    jars = Path(pyspark.__file__).parent / "jars"
    return [
        "java",
        *JAVA_OPTIONS.split(),
        "-cp",
        f"{jars}/*:{jar_path()}",
        f"-Dspark.history.fs.logDirectory={events.as_uri()}",
        f"-Dspark.history.ui.port={port}",
        "-Dspark.history.fs.update.interval=1s",
        f"-Dspark.history.store.path={store}",  # what it reads goes through Spark's serializer, to its disk
        "org.apache.spark.deploy.history.HistoryServer",
    ]
