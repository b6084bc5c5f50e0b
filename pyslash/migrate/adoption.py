"""Takes over a query from plain Spark with its state (`spark.slash.adopt`).

    Spark's state store as of the last committed batch (format `statestore`)
      ──> block files, written by tasks       no manifest names them yet
      ──> the manifest of that batch          created exclusively: from here on the state is pyslash's

Until the manifest is there, nothing of the checkpoint has changed for plain Spark.
"""

from __future__ import annotations

import logging
from typing import cast

from pyspark.sql.types import StructType

from pyslash.errors import UnsupportedQueryError
from pyslash.migrate.adopt_processor import adopt_processor
from pyslash.migrate.adopt_state import FILE, AdoptedFile, AdoptState
from pyslash.migrate.spark_layout import SparkLayout, check_movable
from pyslash.migrate.state_source import StateSource
from pyslash.operators.transform.plan import TransformPlan
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.reasons import Uncovered
from pyslash.spark.execution import SparkBatch
from pyslash.spark.job import collect
from pyslash.state.files.directory import BlockFile
from pyslash.state.manifest import ADOPTED, BLOCKS, Manifest, ManifestLog
from pyslash.units import Epoch, Micros, Run

logger = logging.getLogger("pyslash")
_SEVERAL = "spark.sql.streaming.statefulOperator.allowMultiple"
_MOST_FILES = 8  # of a checkpoint that is as large as most are; each is of one task


def check_adoptable(operators: list[OperatorPlan]) -> None:
    """Pass if the state of these operators is one that Spark's state stores tell.

    Raises:
        Uncovered: the message names what it is that cannot be moved, and why.
    """
    if len(operators) > 1:
        raise Uncovered(
            "spark.slash.adopt=true moves the state of one operator, in one step, and this query has several with state"
        )
    if operators[0].identity.processor is None:
        check_movable(operators[0].identity)


def adopt(operator: OperatorPlan, execution: SparkBatch, manifests: ManifestLog, epoch: Epoch) -> Manifest:
    """The manifest of the batch before `epoch`, with the state that plain Spark has as of then.

    Raises:
        Uncovered: the state cannot be moved; the checkpoint is as it was.
        CheckpointError: a file cannot be written; the checkpoint is as it was for plain Spark.
        FencedError: another driver was first.
    """
    last = Epoch(epoch - 1)
    logged = execution.offsets(last)
    # What evicted groups in the last batch is what makes rows late in this one.
    evicted_us = execution.cut.late_us
    if execution.session.conf.get(_SEVERAL, "true").lower() == "false":
        evicted_us = min(evicted_us, Micros(logged.watermark_ms * 1000))  # rows are late by this batch's own watermark
    found = _written(operator, StateSource(execution.session, execution.checkpoint, last), manifests.run)
    files = [BlockFile(*one, "", True) for one in found]
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
        before=f"{ADOPTED}{manifests.run}",
        is_adopted=True,
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


def _written(operator: OperatorPlan, source: StateSource, run: Run) -> list[AdoptedFile]:
    """The files that tasks have made of the state, as of the end of a batch."""
    source.operator()  # refuses several
    location = f"{source.checkpoint}/{BLOCKS}"
    if operator.identity.processor is not None:
        return adopt_processor(cast(TransformPlan, operator), source, location, run, _MOST_FILES)
    state = source.read()
    key, value = state.schema["key"].dataType, state.schema["value"].dataType
    assert isinstance(key, StructType)
    assert isinstance(value, StructType)
    rows = state.select(*SparkLayout(operator.identity, key, value).columns()).coalesce(_MOST_FILES)
    task = AdoptState(operator.identity, location, source.epoch, run)
    try:
        return [AdoptedFile(*one) for one in collect(rows.mapInArrow(task, FILE))]
    except UnsupportedQueryError as reason:  # told by the values; no manifest names what tasks have written
        raise Uncovered(f"values of its state cannot be moved from plain Spark to pyslash: {reason}") from reason
