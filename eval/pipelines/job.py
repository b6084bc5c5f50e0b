"""The examples, and how a job is started on pyslash by spark-submit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyspark

from eval.broker import connector, delta
from eval.pipelines.replay import Expected, Row
from eval.pipelines.verdict import Verdict
from pyslash.spark.jvm_bridge import jar_path

ROOT = Path(__file__).resolve().parents[2]
# A job here lives for a minute or two: not long enough for what a better compiler would make of its code.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # 50 tasks for each look at a table's log, on a small machine
}
KEEP_LOGS = {"spark.sql.streaming.minBatchesToRetain": "1000000"}  # `replay` reads the whole offset log
TABLE, TOPIC = "Delta table", "topic"


class JobError(Exception):
    """The job has ended by itself, or with an error; the message has the end of its log."""


@dataclass(frozen=True)
class Example:
    """A script of `examples/`, what it writes in a few words, and whether that are changes of open windows."""

    name: str
    what: str
    sink: str
    updates: bool = True

    @property
    def path(self) -> Path:
        """The script."""
        return ROOT / "examples" / f"{self.name}.py"

    @property
    def to_kafka(self) -> bool:
        """Whether its rows go to a topic; else to a Delta table."""
        return self.sink == TOPIC

    def arguments(self, address: str, orders: str, revenue: str, folder: Path) -> list[str]:
        """Those of the script: two topics, and a folder for `checkpoint` and, where there is one, `table`."""
        to = ["--to", revenue] if self.to_kafka else ["--table", str(folder / "table")]
        return ["--servers", address, "--topic", orders, "--checkpoint", str(folder / "checkpoint"), *to]

    def verdict(self, found: Iterable[Row], expected: Expected) -> Verdict:
        """The rows of its sink, of a topic all messages, against what they have to be."""
        if not self.updates:
            return Verdict.of(Counter(found), expected.appended)
        return Verdict.of(Counter(found), expected.updated if self.to_kafka else expected.latest)


EXAMPLES = {
    "append": Example("kafka_to_delta", "closed windows, appended", TABLE, updates=False),
    "merge": Example("kafka_merge_delta", "open windows, by MERGE", TABLE),
    "kafka": Example("kafka_to_kafka", "open windows, as messages", TOPIC),
}


class Job:
    """A job in a process of its own; it can be started again after it was killed."""

    def __init__(self, script: Path, arguments: list[str], folder: Path, **settings: str) -> None:
        """It works in `folder`, where its log is too; `settings` of Spark's come after ours."""
        self._script, self._arguments, self._folder, self._settings = script, arguments, folder, settings
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> None:
        """Start it, with further arguments for the script."""
        home = Path(pyspark.__file__).parent
        settings = {
            "spark.slash.mode": "require",  # it fails if it is not covered
            "spark.jars": f"{connector()},{delta()},{jar_path()}",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            "spark.log.level": "WARN",
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            **DELTA_SETTINGS,
            **KEEP_LOGS,
            **self._settings,
        }
        command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
        command += ["--properties-file", str(ROOT / "spark-conf" / "slash.conf")]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        here = str(Path(sys.executable).parent)
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            # Beside PySpark is Delta's Python package. A relative path would not be found from `folder`.
            "PYTHONPATH": str(home.parent),
            "PATH": os.pathsep.join([here, os.environ["PATH"]]),
            "PYSPARK_PYTHON": sys.executable,
        }
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._script), *self._arguments, *arguments],
                env=environment,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def is_started(self) -> bool:
        """Whether it was, and has not been killed since."""
        return self._process is not None

    def is_running(self) -> bool:
        """Whether it has not ended.

        Raises:
            JobError: it has ended with an error.
        """
        assert self._process is not None
        status = self._process.poll()
        if status:
            raise JobError(f"{self._script.name} ended with status {status}; its log ends with:\n{self.log}")
        return status is None

    @property
    def log(self) -> str:
        """The end of what it has printed."""
        return (self._folder / "log").read_text(errors="replace")[-4000:]

    @property
    def pid(self) -> int:
        """Of its JVM: Spark's scripts become it."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL to all of its processes, as when a machine is lost."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
