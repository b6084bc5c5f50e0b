"""What the fault tests share: a cluster, rows with their oracle, applications to strike, and the table at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pyslash
from tests.cluster.standalone import standalone_cluster
from tests.faults import application, inside
from tests.faults.local import SCHEMA
from tests.faults.operators import OPERATORS
from tests.faults.tally import Row, Tally, tally
from tests.support.jvm import JAVA_OPTIONS
from tests.support.stream import Stream, seconds

Record = Callable[[Tally], Tally]


@pytest.fixture
def record(record_property: Callable[[str, object], None]) -> Record:
    """Keeps a tally for the table at the end, from whichever process the test runs in."""

    def keep(found: Tally) -> Tally:
        record_property("tally", asdict(found))
        return found

    return keep


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    """For `local`: windows stay open over several batches, so that state is worth something."""
    made = Stream(spark, tmp_path, SCHEMA, delay_seconds=15)
    for batch in range(6):
        late = [i * 7 % 45 if i % 6 == 0 else 0 for i in range(60)]
        times = [seconds(1000 + 7 * batch + i % 10 - late[i]) for i in range(60)]
        made.add(pa.table({"ts": times, "k": [i % 5 for i in range(60)], "v": list(range(60))}, SCHEMA))
    made.add(pa.table({"ts": [seconds(5000)], "k": [0], "v": [0]}, SCHEMA))
    pyslash.enable(spark)
    spark.conf.set("spark.slash.mode", "require")
    yield made
    spark.conf.unset("spark.slash.mode")
    pyslash.disable()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The master of a standalone cluster: two workers, six cores, so that applications choose their executors."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), cores=3, memory="4g") as master:
        yield master


@dataclass
class Applications:
    """Starts `tests.faults.application` on a folder of rows, and counts what its rounds have emitted."""

    spark: SparkSession
    master: str
    folder: Path
    stream: Stream
    record: Record
    rounds: list[dict[str, Any]] = field(default_factory=list)
    inside: Path | None = None
    """The jar of the fault points inside executors, if they are to have some."""
    _expected: dict[str, list[Row]] = field(default_factory=dict)

    @property
    def most_strikes(self) -> int:
        """So many epochs of a round are struck; two are left for strikes that had to wait for somebody to strike."""
        return len(self.stream.batches) - 1 - application.FIRST_STRUCK - 2

    def run(self, executors: int, timeout: float = 900, **conf: str) -> int:
        """Run the rounds that are not done yet in an application of so many executors; its exit status."""
        rounds = [{"operator": application.OPERATOR, **given} for given in self.rounds]
        spec: dict[str, Any] = {"master": self.master, "executors": executors, "folder": str(self.folder)}
        if self.inside is not None:
            armed = self.folder / "armed"
            armed.mkdir(exist_ok=True)
            spec["inside"] = str(armed)
            conf = {**inside.conf(self.inside, armed, JAVA_OPTIONS), **conf}
        path = self.folder / "spec.json"
        path.write_text(json.dumps({**spec, "rounds": rounds, "conf": conf}))
        command = [sys.executable, "-m", "tests.faults.application", str(path)]
        with (self.folder / "application.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=application.ROOT, stdout=log, stderr=log, start_new_session=True)
        try:
            return process.wait(timeout)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def results(self) -> list[dict[str, Any]]:
        """The lines that the applications have written."""
        path = self.folder / "results.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def log(self) -> str:
        """The end of what they have printed."""
        return (self.folder / "application.log").read_text(errors="replace")[-6000:]

    def tally(self, given: dict[str, Any], sink: str, struck: int) -> Tally:
        """What a sink of a round holds against the oracle, batch by batch. Rounds with one `label` are summed up."""
        operator = given.get("operator", application.OPERATOR)
        folder = self.folder / given["name"] / sink
        found = application.written(self.spark, folder) if sink == "files" else application.kept(folder)
        if operator not in self._expected:
            self._expected[operator] = application.expected(self.stream, operator)
        rows_in = sum(map(len, self.stream.batches))
        expected, keys = self._expected[operator], 1 + OPERATORS[operator].keys
        label = given.get("label", f"{given['name']} ({sink})")
        return self.record(tally(label, rows_in, found, expected, keys, struck))


@pytest.fixture
def applications(spark: SparkSession, cluster: str, record: Record, tmp_path: Path) -> Applications:
    """Over rows of its own."""
    return Applications(spark, cluster, tmp_path, application.write_input(spark, tmp_path, application.BATCHES), record)


@pytest.fixture(scope="session")
def fault_points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jar of the fault points inside executors."""
    return inside.build(tmp_path_factory.mktemp("inside"))


@pytest.fixture
def struck_inside(
    spark: SparkSession,
    cluster: str,
    record: Record,
    fault_points: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Applications:
    """With fault points inside executors, over 14 batches, or as many as the parameter says."""
    stream = application.write_input(spark, tmp_path, getattr(request, "param", 14))
    return Applications(spark, cluster, tmp_path, stream, record, inside=fault_points)
