"""Runs a `Case` on one engine, plain Spark (`spark.slash.mode=off`) or pyslash (`require`), or on the one at first, and
on the other from its second start on.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from pyslash.state.export import export
from tests.streaming.streams.case import Case, Run

SPARK, SLASH = "off", "require"
INTO_SLASH = "off, then require"
INTO_SPARK = "require, then off"
SECONDS = 120
_MEMORY = Path("/dev/shm")


class SinkFailedError(Exception):
    """What the job's function raises where a case has it fail."""


@dataclass
class Outcome:
    """What a stream gave: each call of the job's function, as (batch id, schema, rows), and how its runs ended."""

    batches: list[tuple[int, str, list[tuple[Any, ...]]]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    dropped: int = 0

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


def write(case: Case, target: Path) -> None:
    """The files of all batches, outside of what the query reads: `<source>/<batch>/<file>.parquet`."""
    date = 1_000_000_000
    for number, source in enumerate(case.sources):
        for index, batch in enumerate(source.batches):
            place = target / f"{number}" / f"{index:04d}"
            place.mkdir(parents=True)
            for position, rows in enumerate(batch):
                path = place / f"{position}.parquet"
                pq.write_table(case.table(rows), path)
                # The file source reads in the order of modification times.
                date += 1
                os.utime(path, (date, date))


def run(case: Case, spark: SparkSession, engine: str, written: Path, work: Path) -> Outcome:
    """Run the case's query to the end of its batches, in as many starts as it has.

    Args:
        case: what to run.
        spark: a session that nobody else uses meanwhile; its configuration is changed.
        engine: `SPARK` or `SLASH`, or `INTO_SLASH`, or `INTO_SPARK`.
        written: what `write` made.
        work: an empty folder for sources and checkpoint.
    """
    for name, value in (*DEFAULTS.items(), *case.conf):
        spark.conf.set(name, value)
    try:
        return _Running(case, spark, engine.split(", then "), written, work).outcome()
    finally:
        for name, _ in case.conf:
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
    def __init__(self, case: Case, spark: SparkSession, modes: list[str], written: Path, work: Path) -> None:
        """`modes`: of the first start, the next one, and so on; the last one is that of all others."""
        self._case, self._spark, self._written, self._work = case, spark, written, work
        self._modes = modes
        self._folders = [work / f"in{number}" for number in range(len(case.sources))]
        for place in self._folders:
            place.mkdir()
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
        self._spark.conf.set("spark.slash.mode", self._modes[0])
        if self._modes[0] == SPARK and (self._work / "checkpoint" / "slash").exists():
            export(self._spark, str(self._work / "checkpoint"))
        self._modes = self._modes[1:] or self._modes
        writer = self._case.query(self._spark, self._folders).writeStream.foreachBatch(self._sink)
        writer = writer.outputMode(self._case.mode)
        writer = writer.option("checkpointLocation", str(self._work / "checkpoint"))
        if part.how == "available":
            self._add(end)
            writer = writer.trigger(availableNow=True)
        query = writer.start()
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
            self._result.dropped += sum(
                int(state["numRowsDroppedByWatermark"])
                for progress in query.recentProgress
                for state in progress["stateOperators"]
            )
        return True

    def _step(self, query: StreamingQuery, end: int) -> None:
        query.processAllAvailable()
        while self._next < end:
            self._add(self._next + 1)
            query.processAllAvailable()

    def _add(self, end: int) -> None:
        """Let the query see the next batches; each comes at once, by a rename."""
        for index in range(self._next, end):
            for number, place in enumerate(self._folders):
                source = self._written / f"{number}" / f"{index:04d}"
                if source.is_dir():
                    hidden = self._work / "hidden"
                    shutil.copytree(source, hidden, copy_function=os.link)
                    hidden.rename(place / f"{index:04d}")
        self._next = max(self._next, end)

    def _sink(self, rows: DataFrame, batch: int) -> None:
        self._result.batches.append((batch, rows.schema.simpleString(), [_plain(row) for row in rows.collect()]))
        if batch == self._crash:
            self._crash = None
            raise SinkFailedError(f"the sink of batch {batch}")


_CONDITION = re.compile(r"\[([A-Z][A-Z_0-9]+(?:\.[A-Z_0-9]+)*)\]")
# The last line of a Python traceback, or what Py4J says below it of a Java exception.
_PYTHON_ERROR = re.compile(r"^(?:: )?(?:[\w$]+\.)+(\w+: .*)$", re.MULTILINE)
# How Spark wraps what failed; what is inside is compared.
_WRAPPERS = {"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "FOREACH_USER_FUNCTION_ERROR"}


def _conditions(message: str) -> str:
    """The error as far as it is compared: what the sink raised, or Spark's innermost error condition."""
    if SinkFailedError.__name__ in message:
        return SinkFailedError.__name__
    found = [name for name in _CONDITION.findall(message) if name not in _WRAPPERS]
    if found:
        return str(found[0].split(".")[0])
    errors = _PYTHON_ERROR.findall(message)
    return str(errors[-1] if errors else message)[:500]


def _plain(value: Any) -> Any:
    """A row as tuples, whose `repr` does not depend on the engine."""
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    return bytes(value) if isinstance(value, bytearray) else value
