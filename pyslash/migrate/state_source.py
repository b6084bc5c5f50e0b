"""Spark's own state in a checkpoint, as Spark's reader tells it (format `statestore`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from pyslash.plan.reasons import Uncovered
from pyslash.state.files.directory import BlockDirectory, numbers
from pyslash.units import Epoch

_METADATA = "state/0/_metadata/v2"
_OF_SPARK = "$"  # begins the names of what Spark keeps beside a processor's variables


@dataclass(frozen=True)
class ProcessorStart:
    """The names of a processor's variables, and of what Spark keeps beside them; its time mode, as Spark writes it."""

    names: frozenset[str]
    time_mode: str

    @property
    def variables(self) -> set[str]:
        """Those of the user's."""
        return {name for name in self.names if not name.startswith(_OF_SPARK)}

    @property
    def has_timers(self) -> bool:
        """Whether there may be some."""
        return any(name.endswith("_keyToTimestamp") for name in self.names)


@dataclass(frozen=True)
class SparkOperator:
    """What Spark's metadata says of the operator with state: its name, and the partitions of its store."""

    name: str
    partitions: int


@dataclass(frozen=True)
class StateSource:
    """Spark's own state in a checkpoint, as of the end of a batch."""

    session: SparkSession
    checkpoint: str
    epoch: Epoch

    def operator(self) -> SparkOperator:
        """The operator with state.

        Raises:
            Uncovered: Spark does not read them, or there are several: a limit, which Spark runs, is one, too.
        """
        described = self._described(self.session.read.format("state-metadata"))
        try:
            rows = described.collect()
        except (PySparkException, Py4JJavaError) as error:
            raise self._unread(error) from error
        found = {(str(row.operatorName), int(row.numPartitions)) for row in rows}
        if not found:
            raise self._unread("it tells of no operator")
        if len(found) > 1:
            names = " and ".join(sorted(name for name, _ in found))
            raise Uncovered(f"plain Spark has the state of {names}, and that of one operator moves, in one step")
        return SparkOperator(*found.pop())

    def starts(self) -> list[ProcessorStart]:
        """What Spark has written of a processor when the query started, each time; the last one at the end.

        Raises:
            CheckpointError: Spark's metadata cannot be read.
            Uncovered: there is none.
        """
        starts = BlockDirectory(f"{self.checkpoint}/{_METADATA}")
        found = []
        for start in sorted(number for number in numbers(starts.names()) if number <= self.epoch):
            _, text = starts.content(str(start)).to_pybytes().decode().split("\n", 1)
            told = json.loads(json.loads(text)["operatorPropertiesJson"])
            names = frozenset(str(one["stateName"]) for one in told["stateVariables"])
            found.append(ProcessorStart(names, str(told["timeMode"])))
        if not found:
            raise self._unread(f"it has no {_METADATA}")
        return found

    def read(self, **options: Any) -> DataFrame:
        """The rows of a state store.

        Raises:
            Uncovered: Spark does not read them.
        """
        return self._described(self.session.read.format("statestore").option("batchId", self.epoch).options(**options))

    def _described(self, source: DataFrameReader) -> DataFrame:
        try:
            return source.load(self.checkpoint)
        except (PySparkException, Py4JJavaError) as error:
            raise self._unread(error) from error

    def _unread(self, why: object) -> Uncovered:
        return Uncovered(f"Spark does not read its own state in {self.checkpoint}: {why}")
