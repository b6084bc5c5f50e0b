"""One run of the demo's job by spark-submit, watched through the stream's own checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyslash.demo.flights import Input

POLL_SECONDS = 0.2


class DemoRunError(Exception):
    """The job failed; the message ends with the last lines of its log."""


@dataclass(frozen=True)
class Run:
    """What a finished run took: rows read and seconds between the stream's start and its last commit."""

    name: str
    rows: int
    seconds: float
    batches: int
    output: Path

    @property
    def rate(self) -> float:
        """Rows per second in the stream, the JVM's start excluded."""
        return self.rows / self.seconds


@dataclass(frozen=True)
class Progress:
    """Where a stream is, from the files that Spark itself writes into the checkpoint for every micro-batch."""

    batches: int
    seconds: float


def progress_of(checkpoint: Path) -> Progress:
    """Committed micro-batches, and the seconds from the stream's start to the last of their commits.

    `metadata` is written when the query starts, `commits/N` when micro-batch N is done.
    """
    try:
        started = (checkpoint / "metadata").stat().st_mtime
        # Spark keeps the last hundred.
        newest = max((int(name) for name in os.listdir(checkpoint / "commits") if name.isdigit()), default=None)
        if newest is None:
            return Progress(0, 0.0)
        return Progress(newest + 1, (checkpoint / "commits" / str(newest)).stat().st_mtime - started)
    except FileNotFoundError:
        return Progress(0, 0.0)


def run_job(
    name: str,
    job: Path,
    data: Input,
    home: Path,
    files_per_trigger: int,
    submit_options: Sequence[str],
    arguments: Sequence[str],
    report: Callable[[str], None],
) -> Run:
    """Run `job` over `data` in the new folder `home`; `report` gets a line now and then while it runs.

    Args:
        name: of the engine, for people.
        job: a script that takes `--input`, `--output` and `--checkpoint`.
        data: what it reads.
        home: where its output, checkpoint and log go.
        files_per_trigger: of its micro-batches, to know how many rows those are.
        submit_options: of spark-submit.
        arguments: further ones of the job.
        report: is called with the state of the stream.

    Raises:
        DemoRunError: spark-submit left with a status other than 0.
    """
    home.mkdir()
    checkpoint, output, log = home / "checkpoint", home / "output", home / "spark.log"
    command = [
        str(spark_submit()),
        *submit_options,
        str(job),
        *("--input", str(data.folder), "--output", str(output), "--checkpoint", str(checkpoint)),
        *arguments,
    ]
    with log.open("w") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, env=_environment(), cwd=home)
        try:
            while process.poll() is None:
                report(_line(name, progress_of(checkpoint), data, files_per_trigger))
                time.sleep(POLL_SECONDS)
        finally:
            process.terminate()
            process.wait()
    if process.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
        raise DemoRunError(f"{name}: spark-submit left with status {process.returncode}; log {log} ends with:\n{tail}")
    done = progress_of(checkpoint)
    report(_line(name, done, data, files_per_trigger))
    return Run(name, data.rows_of(len(data.rows)), done.seconds, done.batches, output)


def spark_submit() -> Path:
    """That of SPARK_HOME, or PySpark's own: pip may have put the script of that name anywhere.

    Raises:
        DemoRunError: there is no PySpark.
    """
    try:
        from pyspark.find_spark_home import _find_spark_home
    except ImportError:
        raise DemoRunError("the demo needs PySpark in its environment: pip install 'pyspark>=4.0,<4.4'") from None
    return Path(_find_spark_home()) / "bin" / "spark-submit"


def _line(name: str, now: Progress, data: Input, files_per_trigger: int) -> str:
    rows = data.rows_of(now.batches * files_per_trigger)
    total = data.rows_of(len(data.rows))
    if not now.batches:
        return f"{name:12} starting"
    return (
        f"{name:12} {rows:>10,} of {total:,} rows  {rows / now.seconds:>10,.0f} rows/s  {now.batches:>4} micro-batches"
    )


def _environment() -> dict[str, str]:
    """This environment's commands first on the PATH; one host, this one."""
    here = str(Path(sys.executable).parent)
    environment = dict(os.environ)
    environment["PATH"] = here + os.pathsep + environment.get("PATH", "")
    environment["PYSPARK_PYTHON"] = sys.executable
    environment.pop("PYSPARK_DRIVER_PYTHON", None)
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return environment
