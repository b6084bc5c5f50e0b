"""Runs a `Case` on one engine, plain Spark (`spark.slash.mode=off`) or pyslash (`require`), or on the one at first, and
on the other from its second start on.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import uuid
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from pyslash.connect import is_clients
from pyslash.migrate.export import export
from tests.driver.connect_client import started as started_by_client
from tests.streaming.streams.case import Case, Run
from tests.streaming.streams.figures import Figures
from tests.streaming.streams.job_function import FunctionOfClient, SinkFailedError, plain
from tests.streaming.streams.sources import Feed, feed

SPARK, SLASH = "off", "require"
INTO_SLASH = "off, then require"
INTO_SPARK = "require, then off"
SECONDS = 240
_MEMORY = Path("/dev/shm")


@dataclass
class Outcome:
    """What a stream gave: each call of the job's function, as (batch id, schema, rows), and how its runs ended.

    `figures`: of Spark's progress, by the batch. `parts`: of a batch without rows, how many partitions or files it had.
    Where the sink is Spark's own, `batches` has what it wrote.
    """

    batches: list[tuple[int, str, list[tuple[Any, ...]]]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    figures: dict[int, Figures] = field(default_factory=dict)
    parts: dict[int, int] = field(default_factory=dict)

    @property
    def dropped(self) -> int:
        """Rows, or groups, that came too late."""
        return sum(figures.dropped for figures in self.figures.values())

    @property
    def rows(self) -> int:
        """Rows that the sink was given."""
        return sum(len(rows) for _, _, rows in self.batches)

    @property
    def ids(self) -> set[int]:
        """Of the batches that ran."""
        return {batch for batch, *_ in self.batches}


def folder() -> tempfile.TemporaryDirectory[str]:
    """Memory where the machine has it: a micro-batch makes a dozen small files."""
    return tempfile.TemporaryDirectory(
        dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None, prefix="pyslash-streams-", ignore_cleanup_errors=True
    )


def run(case: Case, spark: SparkSession, engine: str, written: Path, work: Path, servers: str = "") -> Outcome:
    """Run the case's query to the end of its batches, in as many starts as it has.

    Args:
        case: what to run.
        spark: a session that nobody else uses meanwhile; its configuration is changed.
        engine: `SPARK` or `SLASH`, or `INTO_SLASH`, or `INTO_SPARK`.
        written: what `sources.write` made.
        work: an empty folder for sources and checkpoint.
        servers: of Kafka, for the sources that need one.
    """
    for name, value in DEFAULTS.items():
        spark.conf.set(name, value)
    try:
        return _Running(case, spark, engine.split(", then "), written, work, servers).outcome()
    finally:
        for name, _ in chain(case.conf, *(part.conf for part in case.runs)):
            spark.conf.unset(name)


DEFAULTS = {
    "spark.sql.streaming.pollingDelay": "1ms",
    "spark.sql.streaming.numRecentProgressUpdates": "100",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.slash.adopt": "true",
    # It fails plain Spark's queries whose optimizer has dropped an operator from a repeated micro-batch without rows.
    "spark.sql.streaming.stateStore.commitValidation.enabled": "false",
}


class _Running:
    def __init__(
        self, case: Case, spark: SparkSession, modes: list[str], written: Path, work: Path, servers: str
    ) -> None:
        """`modes`: of the first start, the next one, and so on; the last one is that of all others."""
        self._case, self._spark, self._work = case, spark, work
        self._modes = modes
        self._feeds: list[Feed] = []
        for number in range(len(case.sources)):
            place = work / f"in{number}"
            place.mkdir()
            self._feeds.append(feed(case, number, written, place, servers))
        self._crash = case.crash
        self._next = 0
        self._result = Outcome()

    def outcome(self) -> Outcome:
        for part in self._case.runs:
            end = self._next + part.batches
            while not self._start(part, end):
                if len(self._result.errors) > 1 or SinkFailedError.__name__ not in self._result.errors[-1]:
                    return self._result
        return self._result

    def _start(self, part: Run, end: int) -> bool:
        """Start the query and let it read until batch `end`; whether it got there."""
        for name, value in (*self._case.conf, *part.conf, ("spark.slash.mode", self._modes[0])):
            self._spark.conf.set(name, value)
        if self._modes[0] == SPARK and (self._work / "checkpoint" / "slash").exists():
            export(self._spark, str(self._work / "checkpoint"))
        self._modes = self._modes[1:] or self._modes
        rows = self._case.query(self._spark, [one.read(self._spark) for one in self._feeds])
        writer = rows.writeStream.outputMode(self._case.mode)
        writer = writer.option("checkpointLocation", str(self._work / "checkpoint"))
        if part.how == "available":
            self._add(end)
            writer = writer.trigger(availableNow=True)
        query = self._started(writer)
        try:
            if part.how == "available":
                assert query.awaitTermination(SECONDS), f"{query.status}"
            else:
                self._step(query, end)
        except StreamingQueryException as error:
            self._result.errors.append(_conditions(str(error)))
            return False
        finally:
            query.stop()
            self._result.figures |= Figures.of(query)
            self._look_at_sink(query, rows.schema.simpleString())
        return True

    def _started(self, writer: DataStreamWriter) -> StreamingQuery:
        if is_clients(self._spark) and self._case.sink == "foreachBatch":
            return started_by_client(writer.foreachBatch(FunctionOfClient(str(self._work), self._case.crash)))
        if self._case.sink == "memory":
            return writer.format("memory").queryName(f"stream_{uuid.uuid4().hex}").start()
        if self._case.sink == "files":
            return writer.format("parquet").start(str(self._work / "out"))
        return writer.foreachBatch(self._sink).start()

    def _look_at_sink(self, query: StreamingQuery, schema: str) -> None:
        """What is in a sink of Spark's."""
        if self._case.sink == "memory":
            table = str(query.name)
            self._result.batches = [(-1, schema, [plain(row) for row in self._spark.table(table).collect()])]
            self._spark.catalog.dropTempView(table)
        elif self._case.sink == "files":
            self._result.batches, self._result.parts = [], {}
            for batch, files in sorted(_files(self._work / "out").items()):
                found = [row for path in files for row in pq.read_table(path).to_pylist()]
                self._result.batches.append((batch, schema, [plain(row) for row in found]))
                if not found:
                    self._result.parts[batch] = len(files)
        elif is_clients(self._spark):
            self._result.batches = FunctionOfClient.calls(self._work)

    def _step(self, query: StreamingQuery, end: int) -> None:
        query.processAllAvailable()
        while self._next < end:
            self._add(self._next + 1)
            query.processAllAvailable()

    def _add(self, end: int) -> None:
        """Let the query see the next batches."""
        for index in range(self._next, end):
            for one in self._feeds:
                one.add(index)
        self._next = max(self._next, end)

    def _sink(self, rows: DataFrame, batch: int) -> None:
        found = [plain(row) for row in rows.collect()]
        self._result.batches.append((batch, rows.schema.simpleString(), found))
        if not found:
            self._result.parts[batch] = rows._jdf.queryExecution().toRdd().getNumPartitions()
        if batch == self._crash:
            self._crash = None
            raise SinkFailedError(f"the sink of batch {batch}")


def _files(folder: Path) -> dict[int, list[str]]:
    """What a sink of files has written in each batch, by its own log."""
    log = folder / "_spark_metadata"
    found = {}
    for path in log.iterdir() if log.exists() else ():
        if path.name.isdigit():
            lines = path.read_text().splitlines()[1:]
            found[int(path.name)] = [json.loads(line)["path"].removeprefix("file://") for line in lines]
    return found


_CONDITION = re.compile(r"\[([A-Z][A-Z_0-9]+(?:\.[A-Z_0-9]+)*)\]")
# The last line of a Python traceback, or what Py4J says below it of a Java exception.
_PYTHON_ERROR = re.compile(r"^(?:: )?(?:[\w$]+\.)+(\w+: .*)$", re.MULTILINE)
# How Spark wraps what failed; what is inside is compared.
_WRAPPERS = {"STREAM_FAILED", "PYTHON_EXCEPTION", "FOREACH_BATCH_USER_FUNCTION_ERROR", "FOREACH_USER_FUNCTION_ERROR"}


def _conditions(message: str) -> str:
    """The error as far as it is compared: what the sink raised, or Spark's innermost error condition."""
    if SinkFailedError.__name__ in message:
        return SinkFailedError.__name__
    found = [name for name in _CONDITION.findall(message) if name not in _WRAPPERS]
    if found:
        return str(found[0].split(".")[0])
    errors = _PYTHON_ERROR.findall(message)
    return str(errors[-1] if errors else message)[:500]
