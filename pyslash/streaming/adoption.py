"""Takes over a query from plain Spark with its state (`spark.slash.adopt`).

    Spark's state store as of the last committed batch (format `statestore`)
      ──> block files, written by tasks       no manifest names them yet
      ──> the manifest of that batch          created exclusively: from here on the state is pyslash's

Until the manifest is there, nothing of the checkpoint has changed for plain Spark.
"""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pyslash.checkpoint.directory import BlockFile
from pyslash.checkpoint.spark_buffers import Field, fields_of
from pyslash.plan.identity import Output
from pyslash.plan.operators import Aggregation, Deduplication, SessionAggregation, StreamJoin
from pyslash.plan.reasons import Uncovered
from pyslash.plan.types import native_type
from pyslash.streaming.execution import SparkBatch
from pyslash.streaming.manifest import BLOCKS, Manifest, ManifestLog
from pyslash.tasks.adopt_state import FILE, AdoptState
from pyslash.tasks.job import collect

logger = logging.getLogger("pyslash")
_MOST_FILES = 8  # of a checkpoint that is as large as most are; each is of one task


def check_adoptable(operators: list[Aggregation]) -> None:
    """Pass if the state of these operators is one that Spark's state stores tell.

    Raises:
        Uncovered: the message names what it is that cannot be moved, and why.
    """
    if len(operators) > 1:
        raise Uncovered(
            "spark.slash.adopt=true moves the state of one operator, in one step, and this query has several with state"
        )
    _check(operators[0])


def adopt(operator: Aggregation, execution: SparkBatch, manifests: ManifestLog, epoch: int) -> Manifest:
    """The manifest of the batch before `epoch`, with the state that plain Spark has as of then.

    Raises:
        Uncovered: the state cannot be moved; the checkpoint is as it was.
        CheckpointError: a file cannot be written; the checkpoint is as it was for plain Spark.
        FencedError: another driver was first.
    """
    _check(operator)
    last = epoch - 1
    logged = execution.offsets(last)
    # What evicted groups in the last batch is what makes rows late in this one.
    evicted_us = execution.cut.late_us
    task = AdoptState(operator.identity, f"{execution.checkpoint}/{BLOCKS}", last, manifests.run)
    rows = _rows(operator, execution, last)
    found = collect(rows.coalesce(_MOST_FILES).mapInArrow(task, FILE))
    files = [BlockFile(one.name, one.bytes, one.crc, one.last_pane, "", True) for one in found]
    manifest = Manifest(
        epoch=last,
        run=manifests.run,
        plan=operator.text,
        columns=list(operator.identity.columns),
        time=operator.identity.time,
        offsets=logged.sources,
        timestamp_ms=logged.timestamp_ms,
        input=operator.fingerprint,
        emitted_us=evicted_us,
        watermark_us=evicted_us,
        rows=0,
        late_rows=0,
        times=[],
        blocks=[],
        agents=[],
        files=files,
        before=f"adopted by run {manifests.run}",
    )
    manifests.create(manifest)
    logger.warning(
        "query %s: the state of plain Spark as of batch %d is pyslash's from here on: %d files, %d bytes",
        execution.query_id,
        last,
        len(files),
        sum(file.bytes for file in files),
    )
    return manifest


def _check(operator: Aggregation) -> None:
    if isinstance(operator, StreamJoin):
        raise Uncovered(
            "the state of a join cannot be moved from plain Spark: pyslash also keeps in which micro-batch a row came, "
            "which Spark does not"
        )
    if isinstance(operator, SessionAggregation):
        raise Uncovered(
            "the state of a session window cannot be moved from plain Spark: pyslash keeps the parts of a session, of "
            "which Spark keeps one sum"
        )
    if operator.window.overlap > 1:
        raise Uncovered(
            "the state of sliding windows cannot be moved from plain Spark: pyslash keeps the slices that windows are "
            "made of, and Spark's buffers are of whole windows"
        )
    if not isinstance(operator, Deduplication):
        for aggregate in operator.identity.aggregates:
            if fields_of(aggregate) is None:
                raise Uncovered(f"the state of {aggregate.sql} cannot be moved from plain Spark: {_why(aggregate)}")


def _why(aggregate: Output) -> str:
    if aggregate.function in ("first", "last", "max_by", "min_by"):
        return "pyslash also keeps in which micro-batch a row came, which Spark does not"
    if aggregate.function == "collect":
        return "the functions that Spark's own code computes keep one buffer there, and pyslash one for each task"
    return "Spark keeps other sums for this function than pyslash does"


def _rows(operator: Aggregation, execution: SparkBatch, batch: int) -> DataFrame:
    """The event time, the keys and Spark's buffers, as of the end of a batch."""
    source = execution.session.read.format("statestore").option("batchId", batch)
    try:
        state = source.load(execution.checkpoint)
    except (PySparkException, Py4JJavaError) as error:
        raise Uncovered(f"Spark does not read its own state in {execution.checkpoint}: {error}") from error
    key, value = _struct(state, "key"), _struct(state, "value")
    at = _window_at(operator, key)
    places = [place for place in range(len(key.fields)) if place != at]
    expected = [one.type for one in operator.keys]
    if [_native(key.fields[place].dataType) for place in places] != expected:
        raise _other(f"keys {key.simpleString()}", ", ".join(expected))
    columns = [_time(operator, key, places, at), *(_field(key, "key", place) for place in places)]
    if not isinstance(operator, Deduplication):
        columns += _values(operator, value)
    return state.select(*(column.alias(f"c{index}") for index, column in enumerate(columns)))


def _window_at(operator: Aggregation, key: StructType) -> int:
    """Which field of the key is the window; -1: none."""
    if operator.window.is_all_time or isinstance(operator, Deduplication):
        return -1
    structs = [place for place, field in enumerate(key.fields) if isinstance(field.dataType, StructType)]
    if len(structs) != 1:
        raise _other(f"keys {key.simpleString()}", "one window, and keys that native code reads")
    return structs[0]


def _time(operator: Aggregation, key: StructType, places: list[int], at: int) -> Column:
    """A time of the group's pane."""
    if operator.window.is_all_time:
        return F.lit(0).cast("timestamp")
    if at >= 0:
        return _field(key, "key", at).getField("start")
    (timed,) = {place for place, one in zip(places, operator.keys, strict=True) if one.sql == operator.time.sql}
    return _field(key, "key", timed)


def _values(operator: Aggregation, value: StructType) -> list[Column]:
    """Spark's buffers."""
    if not value.fields and [one.sql for one in operator.aggregates] == ["count(1)"]:
        return [F.lit(1).cast("bigint")]  # groups without aggregates, which have seen a row
    buffers = _buffers(operator)
    if [(field.name, _native(field.dataType)) for field in value.fields] != [(one.name, one.type) for one in buffers]:
        raise _other(f"values {value.simpleString()}", ", ".join(f"{one.name} {one.type}" for one in buffers))
    return [_field(value, "value", place) for place in range(len(buffers))]


def _buffers(operator: Aggregation) -> list[Field]:
    return [field for aggregate in operator.identity.aggregates for field in fields_of(aggregate) or []]


def _struct(state: DataFrame, name: str) -> StructType:
    kind: Any = state.schema[name].dataType
    return kind if isinstance(kind, StructType) else StructType()


def _field(kind: StructType, struct: str, place: int) -> Column:
    """A field by its place: several have the same name."""
    names = ",".join(f"f{index}:{field.dataType.simpleString()}" for index, field in enumerate(kind.fields))
    return F.col(struct).cast(f"struct<{names}>").getField(f"f{place}")


def _native(kind: Any) -> str:
    try:
        return native_type(kind.simpleString(), "")
    except Uncovered:
        return str(kind.simpleString())


def _other(found: str, expected: str) -> Uncovered:
    return Uncovered(f"the state that plain Spark has is of another query, or in another form: {found}, not {expected}")
