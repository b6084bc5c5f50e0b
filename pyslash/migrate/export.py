"""`pyslash state export`: the state of a stopped query, written into Spark's own state store.

    block files ──> rows, shared among tasks as Spark shares keys
      ──> Spark's own state store provider: the version as of the last committed batch
      ──> the folder `slash` is renamed: from here on the state is Spark's

Until then pyslash continues with the checkpoint as it was. The state has to fit into the memory of this process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pyslash.errors import CheckpointError, InvalidInputError
from pyslash.migrate.export_groups import ExportGroups
from pyslash.migrate.export_processor import ExportGroupStates, ExportProcessor
from pyslash.migrate.spark_layout import SparkLayout, check_movable
from pyslash.migrate.state_source import StateSource
from pyslash.plan.reasons import Uncovered
from pyslash.spark.execution import has_own_offsets
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.release import is_from
from pyslash.state.backfill import Backfills
from pyslash.state.files.directory import BlockDirectory, numbers
from pyslash.state.manifest import MANIFESTS, OPERATOR, RUNS, Manifest
from pyslash.state.savepoint import files_of_taken
from pyslash.state.stored import StoredState
from pyslash.state.tree import Tree
from pyslash.units import Epoch

_PACKAGE = "org.apache.spark.sql.execution.streaming.state."
_PROVIDERS = ("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider")
_OF_PROCESSORS = "transformWithState"  # begins its name, over rows and over frames
_GO_ON = "pyslash goes on with its own state; do not start plain Spark on this checkpoint"


@dataclass(frozen=True)
class Exported:
    """As of the end of which batch, how many groups, or entries and timers of a processor, and where pyslash's state
    is kept.
    """

    epoch: Epoch
    entries: int
    kept: str


def export(spark: SparkSession, checkpoint: str) -> Exported:
    """Move a query back to plain Spark with its state. The query must not run.

    Raises:
        CheckpointError: the checkpoint has no such state, or cannot be read or written, or the query has run meanwhile.
        InvalidInputError: the state cannot be moved; the message names what and why. Nothing has changed.
        CorruptBlockError, StateLostError: as `StoredState.read`.
    """
    state = StoredState.at(checkpoint)
    known = _known(state)
    manifest = state.manifest(_committed(state))
    if numbers(BlockDirectory(f"{state.location}/{OPERATOR.format(1)}/{MANIFESTS}").names()):
        raise InvalidInputError(
            "the query has several operators with state, and `export` moves that of one. Let pyslash go on with it"
        )
    _check_taken(state, manifest)
    if not is_from(4, 2):
        raise InvalidInputError("`export` needs PySpark 4.2 or later. Let pyslash go on with the query")
    session = _session(spark, state, manifest.epoch)
    source = StateSource(session, state.location, manifest.epoch)
    try:
        entries = _written(source, state, manifest)
    except Uncovered as reason:
        raise InvalidInputError(f"{reason}. Let pyslash go on with the query") from None
    if _known(state) != known:
        raise CheckpointError(
            f"the query has run since `export` began, which is as of batch {manifest.epoch}. {_GO_ON}. Export again "
            "once the query has stopped"
        )
    return Exported(manifest.epoch, entries, _switch(session, state, manifest))


def _known(state: StoredState) -> list[list[int]]:
    """Runs, batches and commits of the query, of which each start and each batch has more."""
    return [numbers(BlockDirectory(f"{state.location}/{folder}").names()) for folder in (RUNS, MANIFESTS, "commits")]


def _check_taken(state: StoredState, manifest: Manifest) -> None:
    """Pass if no backfill waits for the query, which it would never get.

    Raises:
        InvalidInputError: one does.
        CheckpointError, StateLostError: they cannot be read.
    """
    known = {one.epoch: one for one in state.every_manifest() if isinstance(one, Manifest)}
    if due := Backfills(state.location).due(manifest, known.get, set()):
        raise InvalidInputError(
            f"the query has yet to take the backfill {due[0].name}, and plain Spark would not know of it. Start the "
            "query on pyslash until a micro-batch is done; `pyslash state list` says what has become of it"
        )


def _committed(state: StoredState) -> Epoch:
    """The last batch that Spark has committed."""
    done = numbers(BlockDirectory(f"{state.location}/commits").names())
    if not done:
        raise CheckpointError(f"{state.location} has no committed batch: there is no state to export yet")
    return Epoch(max(done))


def _session(spark: SparkSession, state: StoredState, epoch: Epoch) -> SparkSession:
    """One with the settings that the query has had in Spark since its first batch."""
    offsets = BlockDirectory(f"{state.location}/offsets")
    entry = offsets.content(str(epoch)).to_pybytes()
    # Plain Spark repeats a batch that is not committed, by an entry of its own.
    later = (offsets.content(str(one)).to_pybytes() for one in numbers(offsets.names()) if one > epoch)
    if any(map(has_own_offsets, [entry, *later])):
        raise InvalidInputError(
            "the query has skipped records of its source (spark.slash.backlog, spark.slash.shed), and plain Spark "
            "would not know of them. Let pyslash go on until none is left to be read"
        )
    conf = {name: str(value) for name, value in json.loads(entry.decode().splitlines()[1])["conf"].items()}
    store = conf.get("spark.sql.streaming.stateStore.providerClass", "")
    if store.removeprefix(_PACKAGE) not in _PROVIDERS:
        raise InvalidInputError(
            f"the query's state store is {store}; `export` writes {' and '.join(_PROVIDERS)}. Let pyslash go on with "
            "the query"
        )
    if conf.get("spark.sql.streaming.stateStore.checkpointFormatVersion", "1") != "1":
        raise InvalidInputError("the query's state store names its versions by unique ids, which `export` cannot give")
    if (encoding := conf.get("spark.sql.streaming.stateStore.encodingFormat", "unsaferow")) != "unsaferow":
        raise InvalidInputError(f"the query's state store encodes rows by {encoding}, which `export` does not write")
    session = spark.newSession()
    of_this_command = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",  # of windows of times without a zone
        "spark.sql.datetime.java8API.enabled": "true",  # whose times are Spark's, of all years
    }
    for name, value in {**conf, **of_this_command}.items():
        session.conf.set(name, value)
    return session


def _written(source: StateSource, state: StoredState, manifest: Manifest) -> int:
    """How many groups, or entries of a processor, are in Spark's store now.

    Raises:
        Uncovered, InvalidInputError: the state cannot be moved, and nothing has changed.
        CheckpointError: it was not written.
    """
    java: Any = JvmBridge(source.session).java
    staging, target = f"{state.location}/slash/export-{uuid4().hex}", f"{state.location}/state"
    stores = java.stateStores(source.session._jsparkSession, staging, target, manifest.epoch + 1)
    operator = source.operator()
    if operator.name.startswith(_OF_PROCESSORS):
        processor = ExportProcessor.of(state, manifest, source)
        writer = java.processorExport(stores, processor.key, processor.start.time_mode)
        for one in processor.variables:
            writer.add(one.name, one.kind, one.value, one.key, one.expires)
        rows = processor.rows(source.session, operator.partitions)
        return _checked(stores, lambda: writer.write(rows._jdf), lambda: processor.read(source))
    key, value = _schemas(source)
    made: ExportGroups | ExportGroupStates
    if manifest.identity.processor is not None:
        made = ExportGroupStates(state, manifest, key, value)
    else:
        check_movable(manifest.identity)
        made = ExportGroups(state, manifest, SparkLayout(manifest.identity, key, value))
    rows = made.rows(source.session, operator.partitions)
    schemas = key.json(), value.json()
    return _checked(stores, lambda: java.exportState(stores, *schemas, rows._jdf), lambda: source.read().count())


def _schemas(source: StateSource) -> tuple[StructType, StructType]:
    """Of Spark's keys and values, which Spark has written when it planned the query."""
    schema = source.read().schema
    key, value = schema["key"].dataType, schema["value"].dataType
    assert isinstance(key, StructType)
    assert isinstance(value, StructType)
    return key, value


def _checked(stores: Any, write: Callable[[], int], read: Callable[[], int]) -> int:
    """How many were written, if Spark reads as many."""
    try:
        try:
            written = int(write())
        finally:
            stores.clean()
        found = read()
    except (Py4JError, PySparkException, Uncovered) as error:
        raise CheckpointError(f"Spark's state store was not written, or cannot be read. {_GO_ON}: {error}") from error
    if found != written:
        raise CheckpointError(f"Spark reads {found} of {written} groups or entries that were written. {_GO_ON}")
    return written


def _switch(session: SparkSession, state: StoredState, manifest: Manifest) -> str:
    """Rename what is pyslash's: from here on plain Spark continues. What the state has of backfills stays noted."""
    jvm: Any = session._jvm
    unique = uuid4().hex[:8]
    ours, kept, noted = (
        jvm.org.apache.hadoop.fs.Path(f"{state.location}/slash{suffix}")
        for suffix in ("", f"-exported-{unique}", f"-noted-{unique}")
    )
    files = ours.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    has_notes = _note_backfills(state, manifest, str(noted))
    if not files.rename(ours, kept):
        raise CheckpointError(f"{ours} cannot be renamed to {kept}. {_GO_ON}")
    if has_notes and not files.rename(noted, ours):
        raise CheckpointError(
            f"plain Spark goes on with the query, but {noted} cannot be renamed to {ours}, by which backfills that its "
            "state has are not taken again: rename it"
        )
    return str(kept)


def _note_backfills(state: StoredState, manifest: Manifest, location: str) -> bool:
    """Write there which backfills are part of the state, which plain Spark does not know. Whether there are any."""
    mine, noted = Tree(state.location), Tree(location)
    paths = [*files_of_taken(mine, manifest)]
    for path in paths:
        noted.write(path.removeprefix("slash/"), mine.read(path))
    return bool(paths)
