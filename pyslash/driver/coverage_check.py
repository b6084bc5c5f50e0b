"""Whether pyslash runs a query: all that can be known when it starts."""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyslash.cluster.find_agents import has_hosts
from pyslash.conf import Conf
from pyslash.errors import CheckpointError, RowBridgeUnavailableError
from pyslash.file_systems import obstacle_of
from pyslash.migrate.adoption import check_adoptable
from pyslash.operators.match import match
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.spark.execution import entry_of
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.session import active
from pyslash.spark.spark_settings import check_options, check_settings, is_true
from pyslash.spark.writer import WriterSettings
from pyslash.state.files.checkpoint_files import files_of_spark
from pyslash.state.files.directory import numbers
from pyslash.state.files.hadoop_files import HadoopFiles
from pyslash.state.manifest import FILES_SKIPPED, MANIFESTS
from pyslash.units import Epoch

_ENCRYPTED_NETWORK = (
    "spark.network.crypto.enabled",
    "spark.authenticate.enableSaslEncryption",
    "spark.ssl.rpc.enabled",
)


def covered_operators(df: DataFrame, settings: WriterSettings, conf: Conf) -> tuple[list[OperatorPlan], JvmBridge]:
    """What `operators_of` finds of a query that is about to start, if pyslash runs it.

    Raises:
        RefusedBySpark: Spark's own start will raise.
        Uncovered: pyslash does not run it; the message is the reason.
    """
    settings.check()
    found = operators_of(df, settings.output_mode, conf, settings.checkpoint(df.sparkSession))
    check_options(settings)
    check_checkpoint(df.sparkSession, settings, conf, found[0])
    return found


def operators_of(
    df: DataFrame, mode: OutputMode, conf: Conf, checkpoint: str | None = None
) -> tuple[list[OperatorPlan], JvmBridge]:
    """The stateful operators of a query, each behind those below it, and what finds them in each micro-batch's plan.

    `checkpoint`: where it will be, if it is known. Spark goes on with a query by settings that it keeps there.

    Raises:
        Uncovered: pyslash does not run it; the message is the reason.
    """
    bridge = _bridge_of(df)
    try:
        rows = df if checkpoint is None else _begun(bridge, df, checkpoint)
        with active(rows.sparkSession):
            operators = match(bridge.java, rows, mode, conf)
    except Py4JJavaError as error:
        raise Uncovered(f"its plan is not understood: {error.java_exception}") from error
    if conf.strategy == "repartition" and any(operator.identity.is_late_by_task for operator in operators):
        raise Uncovered(
            "spark.slash.strategy=repartition brings rows of several tasks together, and with "
            "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition=true a row is late or not by the rows "
            "of its own task; set one of them otherwise"
        )
    check_settings(df.sparkSession.conf.get)
    check_encryption(df.sparkSession, conf)
    return operators, bridge


def begun(df: DataFrame, location: str) -> DataFrame:
    """The same rows as Spark plans them for a query that has a checkpoint: by settings that it keeps there.

    Raises:
        Uncovered: the checkpoint cannot be reached, or the plan not be read.
    """
    return _begun(_bridge_of(df), df, location)


def _bridge_of(df: DataFrame) -> JvmBridge:
    try:
        return JvmBridge(df.sparkSession)
    except RowBridgeUnavailableError as error:
        raise Uncovered(f"its plan cannot be read: {error}") from error


def _begun(bridge: JvmBridge, df: DataFrame, location: str) -> DataFrame:
    """The rows as Spark will plan them: in a session with the settings that the query began with, if it has begun."""
    try:
        settings = Checkpoint(df.sparkSession, location).settings
    except (PySparkException, Py4JJavaError, OSError, CheckpointError) as error:
        raise Uncovered(f"its checkpoint {location} cannot be reached: {error}") from error
    if settings is None:
        return df
    java: Any = bridge.java.begun(df._jdf, settings)
    return DataFrame(java, SparkSession(df.sparkSession.sparkContext, java.sparkSession()))


def check_encryption(spark: SparkSession, conf: Conf) -> None:
    """Pass if what pyslash sends and spills is as safe as this application wants Spark's own data to be.

    Agents prove themselves and seal what they send, but do not encrypt it, and they spill in the clear.

    Raises:
        Uncovered: the application's settings ask for more.
    """
    application = spark.sparkContext.getConf()

    def is_on(name: str) -> bool:
        return is_true(application.get(name, "false") or "")

    if has_hosts(spark):
        for name in _ENCRYPTED_NETWORK:
            if is_on(name):
                raise Uncovered(
                    f"{name}=true, and pyslash does not encrypt partial state on its way between hosts: on networks "
                    "that need it, let the hosts encrypt what they send each other (IPsec, WireGuard) and turn it off"
                )
    if is_on("spark.io.encryption.enabled") and conf.spill_bytes > 0:
        raise Uncovered(
            "spark.io.encryption.enabled=true, and pyslash does not encrypt partial state that it spills to disk; with "
            "spark.slash.spill.maxBytes=0 it spills nothing"
        )


def check_checkpoint(spark: SparkSession, settings: WriterSettings, conf: Conf, operators: list[OperatorPlan]) -> None:
    """Pass if pyslash can keep a query's state where its checkpoint is, or can move it there from plain Spark.

    Raises:
        Uncovered: plain Spark has its state there, or it is on a file system that pyslash cannot write to.
    """
    location = settings.checkpoint(spark)
    if location is None:
        return
    try:
        checkpoint = Checkpoint(spark, location)
        if checkpoint.has_begun and not checkpoint.is_ours:
            if not conf.adopt:
                raise Uncovered(
                    f"its checkpoint {location} holds state of plain Spark; spark.slash.adopt=true moves it to pyslash"
                )
            if not conf.keeps_files:
                raise Uncovered(
                    "spark.slash.adopt=true moves state into the checkpoint, and "
                    f"spark.slash.durability={conf.durability} keeps none there"
                )
            check_adoptable(operators)
    except (PySparkException, Py4JJavaError) as error:
        raise Uncovered(f"its checkpoint {location} cannot be reached: {error}") from error
    if conf.keeps_files and (obstacle := obstacle_of(checkpoint.qualified)) is not None:
        raise Uncovered(f"its checkpoint cannot hold state of pyslash: {obstacle}")


class Checkpoint:
    """What a checkpoint holds before a query starts on it."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark, self._location = spark, location
        self._files = HadoopFiles(spark, location)

    @property
    def qualified(self) -> str:
        """The location with its scheme."""
        return self._files.qualified

    @property
    def is_ours(self) -> bool:
        """Whether pyslash has state there."""
        return bool(self._numbers(MANIFESTS))

    @property
    def has_begun(self) -> bool:
        """Whether a query has finished a micro-batch there; a first one that is not finished binds nobody."""
        return bool(self._numbers("commits")) or (self.newest or 0) > 0

    @property
    def newest(self) -> Epoch | None:
        """The micro-batch of the newest entry in Spark's offset log; None if it has none."""
        logged = self._numbers("offsets")
        return Epoch(max(logged)) if logged else None

    @property
    def starts_from(self) -> list[Epoch]:
        """The micro-batches whose entries in that log a start reads: one that is not committed begins where the one
        before it has ended.
        """
        newest = self.newest
        if newest is None:
            return []
        is_committed = newest == 0 or newest in self._numbers("commits")
        return [newest] if is_committed else [newest, Epoch(newest - 1)]

    @property
    def settings(self) -> str | None:
        """Those of Spark's that the query was planned by, as JSON; None if its offset log has no entry that tells.

        Raises:
            CheckpointError, OSError: the log cannot be read.
        """
        newest = self.newest
        entry = None if newest is None else entry_of(files_of_spark(self._spark, self._location, "offsets"), newest)
        try:
            _, metadata, *_ = (entry or b"").decode().splitlines()
            return json.dumps(json.loads(metadata)["conf"])
        except (ValueError, KeyError):
            return None  # whether it is an entry at all is for Spark to say

    @property
    def has_skipped_files(self) -> bool:
        """Whether its source of files has ever read newer ones before others."""
        return self._files.exists(FILES_SKIPPED)

    @property
    def newest_files(self) -> int:
        """The newest entry of the log of its first source, of files, which says what that reads; -1: it has none."""
        return max(numbers(name.removesuffix(".compact") for name in self._files.names("sources/0")), default=-1)

    def _numbers(self, folder: str) -> list[int]:
        """The files that are named by a micro-batch."""
        return numbers(self._files.names(folder))
