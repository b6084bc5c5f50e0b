"""Spark's settings that concern state, streaming queries and their writers, and what each means for a query on pyslash.

A setting is honoured, has no meaning here, or has values of which Spark alone knows what they mean: with these the
query stays on plain Spark. docs/settings.md is printed from this table (`pyslash coverage --settings`), and a test
holds it against the settings that Spark has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from pyslash.plan.reasons import Uncovered
from pyslash.spark.writer import RefusedBySpark, WriterSettings

_PREFIX = "spark.sql.streaming"
ASYNC_PROGRESS = "asyncProgressTrackingEnabled"


class Meaning(StrEnum):
    """What settings are for a query on pyslash."""

    HONOURED = "honoured"
    NONE = "without meaning"
    LEFT = "left to Spark"


@dataclass(frozen=True)
class Settings:
    """Some of one meaning. Names begin with `spark.sql.streaming` where they begin with a dot.

    `leaves`: whether a value leaves the query to Spark.
    """

    names: tuple[str, ...]
    meaning: Meaning
    why: str
    leaves: Callable[[str], bool] = lambda _: False

    @property
    def full_names(self) -> list[str]:
        """As Spark spells them; one that ends in `*` stands for all that begin so."""
        return [_PREFIX + name if name.startswith(".") else name for name in self.names]


def is_true(value: str) -> bool:
    """As Spark reads a setting."""
    return value.strip().lower() == "true"


_HONOURED, _NONE, _LEFT = Meaning.HONOURED, Meaning.NONE, Meaning.LEFT

TABLE: dict[str, tuple[Settings, ...]] = {
    "State": (
        Settings(
            (".stateStore.checkpointFormatVersion",),
            _LEFT,
            "From `2` on, Spark's log of a batch names a checkpoint of each state store, and pyslash opens none.",
            lambda value: value.strip() != "1",
        ),
        Settings(
            (
                ".stateStore.providerClass",
                ".stateStore.rocksdb.*",
                ".stateStore.encodingFormat",
                ".stateStore.compression.codec",
                ".stateStore.rowChecksum.enabled",
                ".stateStore.rowChecksum.readVerificationRatio",
                ".stateStore.fileChecksumThreadPoolSize",
                ".stateStore.formatValidation.enabled",
                ".stateStore.stateSchemaCheck",
                ".stateStore.valueStateSchemaEvolutionThreshold",
                ".stateStore.maxNumStateSchemaFiles",
                ".aggregation.stateFormatVersion",
                ".join.stateFormatVersion",
                ".join.stateFormatV4.enabled",
                ".sessionWindow.stateFormatVersion",
                ".stateStore.skipNullsForStreamStreamJoins.enabled",
            ),
            _NONE,
            "They are about the form of what Spark's state stores hold. pyslash has a form of its own "
            "([block format](block-format.md)), with checksums, and compares a query with its state by its manifests.",
        ),
        Settings(
            (
                ".stateStore.autoSnapshotRepair.enabled",
                ".stateStore.autoSnapshotRepair.maxChangeFileReplay",
                ".stateStore.autoSnapshotRepair.numFailuresBeforeActivating",
                ".stateStore.coordinatorReportSnapshotUploadLag",
                ".stateStore.forceSnapshotUploadOnLag",
                ".stateStore.maintenanceForceShutdownTimeout",
                ".stateStore.maintenanceInterval",
                ".stateStore.maintenanceProcessingTimeout",
                ".stateStore.maintenanceShutdownTimeout",
                ".stateStore.maxLaggingStoresToReport",
                ".stateStore.maxVersionsToDeletePerMaintenance",
                ".stateStore.minDeltasForSnapshot",
                ".stateStore.multiplierForMinTimeDiffToLog",
                ".stateStore.multiplierForMinVersionDiffToLog",
                ".stateStore.numStateStoreInstanceMetricsToReport",
                ".stateStore.numStateStoreMaintenanceThreads",
                ".stateStore.snapshotLagReportInterval",
                ".stateStore.snapshotToCleanupThreadRatio",
                ".stateStore.unloadOnCommit",
                ".maxBatchesToRetainInMemory",
                ".ratioExtraSpaceAllowedInCheckpoint",
            ),
            _NONE,
            "They are about the life of Spark's state stores: snapshots, maintenance, memory. Agents hold pyslash's.",
        ),
        Settings(
            (".stateStore.commitValidation.enabled",),
            _NONE,
            "pyslash commits the state before the sink runs, whatever the sink's function reads.",
        ),
        Settings(
            (
                "spark.sql.shuffle.partitions",
                ".internal.stateStore.partitions",
                ".statefulOperator.useStrictDistribution",
                "spark.sql.dropDuplicates.deterministicKeyOrder.enabled",
            ),
            _NONE,
            "They are about where a key's state is among Spark's partitions. pyslash shuffles no rows for state. A "
            "shuffle of your own (a join with a static table) has its partitions.",
        ),
        Settings(
            (
                "spark.sql.sessionWindow.buffer.in.memory.threshold",
                "spark.sql.sessionWindow.buffer.spill.threshold",
                "spark.sql.sessionWindow.buffer.spill.size.threshold",
                ".statefulOperator.incrementalCleanupFactor",
            ),
            _NONE,
            "They are about how Spark's operators go through the rows of a batch.",
        ),
    ),
    "Operators": (
        Settings(
            (".multipleWatermarkPolicy", ".noDataMicroBatches.enabled", ".statefulOperator.allowMultiple"),
            _HONOURED,
            "Spark says what the watermark is, which rows are late and when a batch without rows runs.",
        ),
        Settings(
            (".sessionWindow.merge.sessions.in.local.partition",),
            _HONOURED,
            "It decides which rows are late. `true` and `spark.slash.strategy=repartition` leave the query to Spark.",
        ),
        Settings(
            (
                ".unsupportedOperationCheck",
                ".statefulOperator.checkCorrectness.enabled",
                ".validateEventTimeWatermarkColumn",
                ".statefulOperator.alwaysNullableOutput.enabled",
                ".optimizeOneRowPlan.enabled",
                "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan",
            ),
            _HONOURED,
            "Spark checks and plans the query, and pyslash executes the operators of that plan.",
        ),
        Settings(
            (".useStreamlineAggregator",),
            _LEFT,
            "`true` is for tests of Spark, and plans an operator that pyslash does not know.",
            is_true,
        ),
        Settings(
            (
                ".flatMapGroupsWithState.skipEmittingInitialStateKeys",
                ".flatMapGroupsWithState.stateFormatVersion",
                ".transformWithState.stateSchemaVersion",
                "spark.sql.adaptive.streaming.stateless.enabled",
            ),
            _NONE,
            "They are for queries that pyslash leaves to Spark.",
        ),
    ),
    "Checkpoints and logs": (
        Settings(
            (".checkpointLocation", ".forceDeleteTempCheckpointLocation"),
            _HONOURED,
            "The state is in the checkpoint that Spark uses, and goes with a temporary one.",
        ),
        Settings(
            (
                ".minBatchesToRetain",
                ".asyncLogPurge.enabled",
                ".metadataCache.enabled",
                ".checkpoint.escapedPathCheck.enabled",
                ".checkpoint.fileChecksum.enabled",
                ".checkpoint.fileChecksum.skipCreationIfFileMissingChecksum",
                ".checkpoint.renamedFileCheck.enabled",
                ".checkpoint.verifyMetadataExists.enabled",
                ".verifyCheckpointDirectoryEmptyOnStart",
                ".checkUnfinishedRepartitionOnRestart",
            ),
            _HONOURED,
            "Spark writes, checks and purges its own logs. pyslash keeps of its state what the last two batches need.",
        ),
        Settings(
            (".offsetLog.formatVersion", ".queryEvolution.enableSourceEvolution"),
            _LEFT,
            "pyslash compares the offsets of a batch that is run again by the first form of Spark's log.",
            lambda value: value.strip().lower() not in ("1", "false"),
        ),
    ),
    "Sources and sinks": (
        Settings(
            (
                ".schemaInference",
                ".fileSource.cleaner.numThreads",
                ".fileSource.log.cleanupDelay",
                ".fileSource.log.compactInterval",
                ".fileSource.log.deletion",
                ".fileSource.schema.forceNullable",
                ".kafka.useDeprecatedOffsetFetching",
                ".disabledV2MicroBatchReaders",
            ),
            _HONOURED,
            "Spark's sources say what a batch reads, also where native code reads it.",
        ),
        Settings(
            (
                ".commitProtocolClass",
                ".disabledV2Writers",
                ".fileSink.log.cleanupDelay",
                ".fileSink.log.compactInterval",
                ".fileSink.log.deletion",
                ".fileStreamSink.ignoreMetadata",
                "spark.sql.legacy.pathOptionBehavior.enabled",
            ),
            _HONOURED,
            "Spark's own sink writes the rows.",
        ),
        Settings(
            (".queryEvolution.enableSinkEvolution",),
            _LEFT,
            "With `true` Spark's log names the sinks of a query, and that of a query on pyslash is a function.",
            is_true,
        ),
    ),
    "Triggers, progress and listeners": (
        Settings(
            (
                ".noDataProgressEventInterval",
                ".numRecentProgressUpdates",
                ".metricsEnabled",
                ".pollingDelay",
                ".stopActiveRunOnRestart",
                ".stopTimeout",
                ".streamingQueryListeners",
                ".triggerAvailableNowWrapper.enabled",
                ".ui.enabled",
                ".ui.enabledCustomMetricList",
                ".ui.retainedProgressUpdates",
                ".ui.retainedQueries",
            ),
            _HONOURED,
            "Spark runs the query, and reports it.",
        ),
        Settings(
            (
                ".continuous.epochBacklogQueueSize",
                ".continuous.executorPollIntervalMs",
                ".continuous.executorQueueSize",
                ".realTimeMode.allowlistCheck",
                ".realTimeMode.asyncProgressTrackingByDefault.enabled",
                ".realTimeMode.dangerouslyAllowCheckpointV1.enabled",
                ".realTimeMode.minBatchDuration",
                ".realTimeMode.transformWithState.ttlEvictionIntervalMs",
                "spark.sql.connect.streaming.foreachBatch.useClonedSession",
            ),
            _NONE,
            "They are for triggers and clients whose queries pyslash leaves to Spark.",
        ),
    ),
    "Options of a writer": (
        Settings(
            ("checkpointLocation", "queryName", "path"),
            _HONOURED,
            "Spark takes them, in any case of letters.",
        ),
        Settings(
            (ASYNC_PROGRESS, "asyncProgressTrackingCheckpointIntervalMs"),
            _LEFT,
            "Spark refuses asynchronous progress for queries with state, and says so.",
        ),
        Settings(("all others",), _HONOURED, "They go to the sink, spelled as the job spells them."),
    ),
}


def all_settings() -> Iterator[Settings]:
    """Those of every section."""
    for section in TABLE.values():
        yield from section


def check_settings(get: Callable[[str, str | None], str | None]) -> None:
    """Pass if pyslash can run a query under these settings of its session.

    Raises:
        Uncovered: one has a value of which Spark alone knows what it means.
    """
    for settings in all_settings():
        if settings.meaning is not Meaning.LEFT:
            continue
        for name in settings.full_names:
            value = get(name, None) if name.startswith("spark.") else None
            if value is not None and settings.leaves(value):
                raise Uncovered(f"{name} is {value}, which pyslash leaves to Spark: {settings.why}")


def check_options(settings: WriterSettings) -> None:
    """Pass if Spark does not refuse an option of the writer for a query with state.

    Raises:
        RefusedBySpark: Spark's own start must be called.
    """
    # Spark finds this one in its own spelling only.
    if is_true(settings.options.get(ASYNC_PROGRESS, "false")):
        raise RefusedBySpark


_HEAD = """\
# Spark's settings

What Spark's own settings of streaming queries, their state and their writers mean for a query on pyslash, in Spark 4.0
to 4.3; `pyslash coverage --settings` prints this page. Names begin with `spark.sql.streaming` where they begin with a
dot. [Configuration](conf.md) has the settings of pyslash.

- **honoured**: Spark does it for a query on pyslash as for any other, or pyslash does the same.
- **without meaning**: it makes no difference to a query on pyslash.
- **left to Spark**: with such a value the query stays on plain Spark, from its start and before anything is written,
  and the log says why. With `spark.slash.mode=require` that is an error.
"""


def page() -> str:
    """docs/settings.md."""
    lines = [_HEAD]
    for section, rows in TABLE.items():
        lines += [f"## {section}", "", "| settings | meaning | why |", "| --- | --- | --- |"]
        for row in rows:
            names = ", ".join(name if " " in name else f"`{name}`" for name in row.names)
            lines.append(f"| {names} | {row.meaning} | {row.why} |")
        lines.append("")
    return "\n".join(lines)
