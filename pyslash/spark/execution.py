"""What Spark knows about the running micro-batch: its plan, its watermarks, its offsets, its checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Protocol
from uuid import UUID, uuid5

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.errors import CheckpointError, WatermarkError
from pyslash.plan.catalyst import JavaObject, answer
from pyslash.plan.cut import EventTimes, OperatorCut
from pyslash.plan.operator import OperatorPlan, cut_of
from pyslash.spark.failure import thrown_by_jvm
from pyslash.spark.scan_figures import ScanFigures
from pyslash.state.files.checkpoint_files import CheckpointFiles, files_of_spark
from pyslash.state.manifest import OPERATOR
from pyslash.units import Epoch

LATE_MS: Final = "_slash_late_ms"
WATERMARK: Final = "_slash_watermark"
"""Behind the columns of late rows: by how many milliseconds a row was late, and the watermark by which it was."""


@dataclass(frozen=True)
class LoggedOffsets:
    """An entry of Spark's offset log: `sources` digests the sources' offsets, `timestamp_ms` is the batch's time, and
    `watermark_ms` what evicts in it, of a query with one stateful operator.
    """

    sources: str
    timestamp_ms: int
    watermark_ms: int = field(default=0, compare=False)

    @classmethod
    def parse(cls, entry: bytes) -> LoggedOffsets:
        """The entry as it is in its file: a version, metadata, then the sources' offsets, a line each."""
        _, metadata, *sources = entry.decode().splitlines()
        digest = hashlib.sha256("\n".join(sources).encode()).hexdigest()
        told = json.loads(metadata)
        return cls(digest, int(told["batchTimestampMs"]), int(told["batchWatermarkMs"]))


@dataclass(frozen=True)
class InputWatermark:
    """Of one `withWatermark`: the sources below it, and milliseconds since 1970, -1 before the first event time."""

    source: str
    millis: int


@dataclass(frozen=True)
class BacklogStep:
    """What a micro-batch has read of Kafka topics, or of files, that are not read as Spark reads them.

    `size`: how many offsets, or bytes, and `rate`: the share of them that was taken. `is_ahead`: others before them are
    still to be read. `debt`: how many offsets or files those are behind it; `read`: how many have been read since there
    has been debt; `shed`: how many it has let go.
    """

    size: int
    rate: float
    is_ahead: bool
    debt: int
    read: int
    shed: int


class SparkBatch(Protocol):
    """A micro-batch and its query, as an epoch of one stateful operator needs them: `BatchExecution`, or the Spark of
    `tests/model`.
    """

    @property
    def session(self) -> SparkSession:
        """The session that the micro-batch runs in."""

    @property
    def query_id(self) -> UUID:
        """The operator's: the same over restarts; of the first one the query's own."""

    @property
    def run_id(self) -> str:
        """The query's: another one after each restart."""

    @property
    def checkpoint(self) -> str:
        """Where the operator's state is kept, as a Hadoop path: of the first one the query's checkpoint location."""

    @property
    def is_active(self) -> bool:
        """Whether the query has not been stopped."""

    def records_behind(self) -> int:
        """How many records of Kafka topics it has left for those behind it; -1 if it reads none."""

    def is_stopped_by(self, error: BaseException) -> bool:
        """Whether this error of the micro-batch is how the stop of its query shows."""

    def input_watermarks(self) -> list[InputWatermark]:
        """Those out of which Spark has made the query's watermark, each of a `withWatermark`."""

    @property
    def backlog(self) -> BacklogStep | None:
        """What it reads, of a query that reads its source in its own way; None if it has no rows."""

    def took(self, milliseconds: float) -> None:
        """So long has it taken, of a query that reads its source in its own way: the next ones go by it."""

    @property
    def cut(self) -> OperatorCut:
        """The operator in this micro-batch's plan.

        Raises:
            Uncovered: Spark has planned this micro-batch otherwise.
        """

    def forget_counts(self) -> None:
        """An attempt has failed, and Spark is to read the rows itself: what was counted of them is forgotten."""

    def late_rows(self) -> list[DataFrame]:
        """The rows of each input that come too late, as it gives them, and by what: `LATE_MS` and `WATERMARK`. Whoever
        reads them has the micro-batch read once more.
        """

    def over(self, merged: DataFrame) -> JavaObject:
        """The micro-batch's plan with the operator's rows in its place."""

    def result(self, plan: JavaObject) -> DataFrame:
        """The rows of the query, by the plan in which all operators have been replaced by their rows."""

    def of(self, index: int) -> SparkBatch:
        """The same, for another operator: its id and its checkpoint alone."""

    def above(self, plan: JavaObject) -> SparkBatch:
        """The same as the next operator sees it: by the plan with this one's rows in its place."""

    def offsets(self, epoch: Epoch) -> LoggedOffsets:
        """What Spark has logged of a micro-batch before it ran.

        Raises:
            CheckpointError: the entry is not there, or cannot be read.
        """

    def has_offsets(self, epoch: Epoch) -> bool:
        """Whether Spark's offset log still has this micro-batch.

        Raises:
            CheckpointError: the log cannot be read.
        """

    def has_gone_on(self, epoch: Epoch) -> bool:
        """Whether Spark's logs say that this micro-batch is done, or that the next one has begun.

        Raises:
            CheckpointError: a log cannot be read.
        """


class BatchExecution:
    """The `IncrementalExecution` of a micro-batch, reached from inside the sink.

    The streaming thread's local property names the query; its last execution is the batch that called us. Spark has
    planned it, and nothing of the plan has been executed.
    """

    def __init__(
        self,
        batch: DataFrame,
        stream: Any,
        plan: JavaObject,
        operators: Sequence[OperatorPlan],
        bridge: JavaObject,
        index: int,
        reads_its_way: bool = False,
    ) -> None:
        """`stream`: the JVM's `StreamExecution`; `operators`: all that the query has, of which those below `index` have
        been replaced in `plan` by their rows; `bridge`: the JVM's `io.pyslash.Bridge`; `reads_its_way`: the query
        does not read its source as Spark does.
        """
        self.session: SparkSession = batch.sparkSession
        self._batch = batch
        self.stream = stream
        self._plan = plan
        self._operators = operators
        self._bridge = bridge
        self._index = index
        self._reads_its_way = reads_its_way

    @classmethod
    def called_with(
        cls,
        batch: DataFrame,
        owner: SparkSession,
        operators: Sequence[OperatorPlan],
        bridge: JavaObject,
        reads_its_way: bool,
    ) -> BatchExecution:
        """The batch of a query that `owner` started. The batch itself belongs to a clone of that session."""
        stream: Any = bridge.runningQuery(owner._jsparkSession)
        return cls(batch, stream, bridge.runningPlan(stream), operators, bridge, 0, reads_its_way)

    @cached_property
    def query_id(self) -> UUID:
        """The operator's: the same over restarts; of the first one the query's own."""
        query_id = UUID(str(self.stream.id()))
        return uuid5(query_id, str(self._index)) if self._index else query_id

    @property
    def run_id(self) -> str:
        """The query's: another one after each restart."""
        return str(self.stream.runId())

    @property
    def checkpoint(self) -> str:
        """Where the operator's state is kept, as a Hadoop path: of the first one the query's checkpoint location."""
        return f"{self._root}/{OPERATOR.format(self._index)}" if self._index else self._root

    @property
    def _root(self) -> str:
        return str(self.stream.resolvedCheckpointRoot())

    def of(self, index: int) -> BatchExecution:
        """The same, for another operator: its id and its checkpoint alone."""
        return BatchExecution(self._batch, self.stream, self._plan, self._operators, self._bridge, index)

    def above(self, plan: JavaObject) -> BatchExecution:
        """The same as the next operator sees it: by the plan with this one's rows in its place."""
        return BatchExecution(self._batch, self.stream, plan, self._operators, self._bridge, self._index + 1)

    @property
    def is_active(self) -> bool:
        """Whether the query has not been stopped."""
        return bool(self.stream.isActive())

    def input_watermarks(self) -> list[InputWatermark]:
        """Those out of which Spark has made the query's watermark, each of a `withWatermark`."""
        found = self._bridge.inputWatermarks(self.stream)
        return [InputWatermark(str(one.input()), int(one.millis())) for one in found]

    def records_behind(self) -> int:
        """How many records of Kafka topics it has left for those behind it; -1 if it reads none."""
        return int(self._bridge.recordsBehind(self._plan))

    @cached_property
    def backlog(self) -> BacklogStep | None:
        """What it reads, of a query that reads its source in its own way; None if it has no rows."""
        step = self._bridge.backlogStep(self._plan) if self._reads_its_way else None
        return BacklogStep(**answer(step)) if step is not None else None

    def took(self, milliseconds: float) -> None:
        """So long has it taken, of a query that reads its source in its own way: the next ones go by it."""
        if self.backlog is not None:
            taken = round(self.backlog.size * self.backlog.rate)
            self._bridge.backlogTook(self._plan, taken, round(milliseconds))

    def is_stopped_by(self, error: BaseException) -> bool:
        """Whether this error of the micro-batch is how the stop of its query shows: by a cancelled job, say."""
        if self.is_active:
            return False
        thrown = thrown_by_jvm(error)
        return thrown is not None and bool(self.stream.isInterruptionException(thrown, self.session._jsc.sc()))

    @cached_property
    def cut(self) -> OperatorCut:
        """The operator in this micro-batch's plan.

        Raises:
            Uncovered: Spark has planned this micro-batch otherwise.
        """
        return cut_of(self._bridge, self._operators[self._index :], self._plan)

    def forget_counts(self) -> None:
        """An attempt has failed, and Spark is to read the rows itself: what was counted of them is forgotten."""
        if "cut" in self.__dict__:  # else nothing has been read
            self.cut.reset_counts()

    def late_rows(self) -> list[DataFrame]:
        """The rows of each input that come too late, as it gives them, and by what."""
        late_us = self.cut.late_us
        found = []
        for plan in self.cut.closings():
            rows = DataFrame(self._bridge.again(self.session._jsparkSession, plan), self.session)
            late_ms = F.floor((F.lit(late_us) - F.col(LATE_MS)) / 1000)
            names = distinct(rows.columns[:-1], (LATE_MS, WATERMARK))
            late = rows.toDF(*names, LATE_MS).where(F.col(LATE_MS) <= late_us)
            found.append(late.withColumns({LATE_MS: late_ms, WATERMARK: F.timestamp_micros(F.lit(late_us))}))
        return found

    def over(self, merged: DataFrame) -> JavaObject:
        """The micro-batch's plan with the operator's rows in its place."""
        return self.cut.over(merged._jdf)

    def result(self, plan: JavaObject) -> DataFrame:
        """The rows of the query, by the plan in which all operators have been replaced by their rows."""
        return DataFrame(self._bridge.rows(self.session._jsparkSession, plan, self._batch._jdf), self.session)

    def offsets(self, epoch: Epoch) -> LoggedOffsets:
        """What Spark has logged of a micro-batch before it ran.

        Raises:
            CheckpointError: the entry is not there, or cannot be read.
        """
        return logged_offsets(self._offset_log, epoch)

    def has_offsets(self, epoch: Epoch) -> bool:
        """Whether Spark's offset log still has this micro-batch.

        Raises:
            CheckpointError: the log cannot be read.
        """
        return entry_of(self._offset_log, epoch) is not None

    def has_gone_on(self, epoch: Epoch) -> bool:
        """Whether Spark's logs say that this micro-batch is done, or that the next one has begun.

        Raises:
            CheckpointError: a log cannot be read.
        """
        commits = files_of_spark(self.session, self._root, "commits")
        return self.has_offsets(Epoch(epoch + 1)) or entry_of(commits, epoch) is not None

    @cached_property
    def _offset_log(self) -> CheckpointFiles:
        return files_of_spark(self.session, self._root, "offsets")


def distinct(names: Sequence[str], taken: Collection[str] = ()) -> list[str]:
    """The names; another one in the place of each that is taken, or has been there before, in upper or lower case."""
    given = {name.lower() for name in taken}
    known = given | {name.lower() for name in names}
    found: list[str] = []
    for name in names:
        one, number = name, 0
        while one.lower() in (known if number else given):
            number += 1
            one = f"{name}_{number}"
        given.add(one.lower())
        known.add(one.lower())
        found.append(one)
    return found


def has_own_offsets(entry: bytes) -> bool:
    """Whether an entry of Spark's offset log names records that were skipped, or sampled, as no connector of Spark's
    does.
    """
    return b'"debt":[' in entry


def logged_offsets(log: CheckpointFiles, epoch: Epoch) -> LoggedOffsets:
    """The entry of a micro-batch in Spark's offset log.

    Raises:
        CheckpointError: it is not there, or cannot be read.
    """
    entry = entry_of(log, epoch)
    if entry is None:
        raise CheckpointError(f"{log.path(str(epoch))}, Spark's own offset log, is not there")
    return LoggedOffsets.parse(entry)


def entry_of(log: CheckpointFiles, epoch: Epoch) -> bytes | None:
    """The entry of a micro-batch in a log of Spark's, as it is in its file; None if it is not there.

    Raises:
        CheckpointError: the log cannot be read.
    """
    try:
        return log.read(str(epoch))
    except OSError as error:
        raise CheckpointError(
            f"{log.path(str(epoch))}, Spark's own log, cannot be read: {error}. Once the cause is gone the "
            "query can be started again"
        ) from error


def tell_times(cut: OperatorCut, times: list[EventTimes]) -> None:
    """Give Spark's watermark operators the statistics of an earlier attempt, if they have collected nothing."""
    for index, (told, collected) in enumerate(zip(times, cut.event_times(), strict=True)):
        if told[0] and not collected[0]:
            cut.add_event_times(index, told)


def check_times(cut: OperatorCut, rows: int) -> None:
    """The watermark follows the event times that Spark has collected: of rows there are some.

    Args:
        cut: the operator, after its update.
        rows: that the operator took from the micro-batch, late ones among them.

    Raises:
        WatermarkError: there were rows, and no times.
    """
    if rows and cut.collects_times and not any(count for count, *_ in cut.event_times()):
        raise WatermarkError(
            f"{rows} rows have been read under withWatermark(), and Spark has collected no event time of them, so its "
            "watermark would never move. This is a fault of pyslash; set spark.slash.ingest.json, ingest.csv, "
            "ingest.avro and ingest.kafka to spark, or spark.slash.mode=off, and report the query"
        )


def count_times(cut: OperatorCut, figures: ScanFigures) -> None:
    """Tell Spark the event times that it has not seen itself, so that its watermark follows them."""
    if figures.time_min is None or figures.time_max is None:
        return
    mean_ms = figures.time_sum / figures.times / 1000
    # The upper watermark: rows of a union are not counted by us.
    cut.add_event_times(0, (figures.times, figures.time_min // 1000, figures.time_max // 1000, mean_ms))
