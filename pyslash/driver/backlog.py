"""Queries that do not read their topics or files as Spark does when they are behind.

`spark.slash.shed`: they take a sample of the records, and estimate. `spark.slash.backlog`: they read the newest first.
The JVM's `io.pyslash.backlog` decides which records or files a micro-batch has: then the newest, or some of those that
were skipped, the oldest first. A record is late, and a window complete, by the records before it, all of which have
been read: so Spark's watermark follows the records that have none before them still to be read, and the others when
those are.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyslash.conf import Conf
from pyslash.driver.coverage_check import Checkpoint
from pyslash.errors import ConfigError, RowBridgeUnavailableError
from pyslash.plan.catalyst import JavaObject, answer, frame_of
from pyslash.plan.cut import EventTimes, OperatorCut
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.output_mode import OutputMode
from pyslash.spark.execution import BacklogStep, entry_of, has_own_offsets
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.writer import WriterSettings
from pyslash.state.files.checkpoint_files import files_of_spark
from pyslash.state.manifest import Manifest

logger = logging.getLogger("pyslash")

FRACTION = "_slash_fraction"
TENTATIVE = "_slash_tentative"
_NEVER_MS = 1 << 50
_LOG_OFFSET = re.compile(rb'logOffset\\*":(\d+)')  # of Spark's source of files; quoted in the second format of the log


def _is_one(sources: Sequence[str]) -> bool:
    return list(sources) in (["kafka"], ["files"])


def obstacle(sources: Sequence[str], operators: Sequence[OperatorPlan]) -> str:
    """Why a query with these sources and operators reads its records in order; empty if it need not."""
    if not _is_one(sources):
        return f"it reads {', '.join(sources) or 'nothing'}, and not one source of Kafka or of files"
    if len(operators) > 1:
        return "it has several stateful operators, one above the other"
    if ordered := operators[0].ordered_by_arrival:
        return f"its rows depend on the order in which records come: {ordered}"
    return ""


def reordered(
    bridge: JavaObject, rows: DataFrame, operators: Sequence[OperatorPlan], settings: WriterSettings, conf: Conf
) -> DataFrame | None:
    """The rows of a query that is about to start, read the newest first; None: it reads them in order.

    A checkpoint with records that were skipped has them read, whatever the query is set to now.
    """
    is_fresh_first = conf.backlog == "fresh-first"
    analysed: Any = rows._jdf.queryExecution().analyzed()
    sources = answer(bridge.sources(analysed))
    if is_fresh_first and (reason := obstacle(sources, operators)):
        logger.warning("query %s reads its backlog in order: %s", settings.query_name or "without a name", reason)
        is_fresh_first = False
    if not is_fresh_first and not _may_have_debt(sources, rows, settings):
        return None
    order = "FRESH_FIRST" if is_fresh_first else "ORDERED"
    expire_ms = conf.backlog_expire * 1000 if conf.backlog_expire is not None else _NEVER_MS
    latency_ms, sheds = conf.backlog_latency * 1000, conf.backlog_expired == "shed"
    return frame_of(bridge.withOrder(analysed, order, latency_ms, expire_ms, sheds), rows.sparkSession)


def sampled(rows: DataFrame, settings: WriterSettings, conf: Conf) -> DataFrame | None:
    """What a query that is about to start estimates by samples of its records; None: it takes all of them.

    Raises:
        ConfigError: it is to read the newest records first, too.
    """
    if conf.shed == "off":
        return None
    if conf.backlog == "fresh-first":
        raise ConfigError(
            "spark.slash.shed=bounded keeps up with topics by samples, and spark.slash.backlog=fresh-first by reading "
            "later what it skips; choose one of them"
        )
    try:
        bridge = JvmBridge(rows.sparkSession).java
    except RowBridgeUnavailableError:
        return None  # the query does not run on pyslash, and the log will say why
    session: Any = rows.sparkSession._jsparkSession
    analysed: Any = rows._jdf.queryExecution().analyzed()
    if reason := bridge.sampleObstacle(session, analysed):
        logger.warning("query %s takes all records: %s", settings.query_name or "without a name", reason)
        return None
    return frame_of(bridge.sampled(session, analysed, conf.backlog_latency * 1000), rows.sparkSession)


def as_started(rows: DataFrame, settings: WriterSettings, conf: Conf) -> DataFrame:
    """What operators of a query that is about to start are planned over: its rows, or its estimates by samples.

    Raises:
        ConfigError: as `sampled`.
    """
    sample = sampled(rows, settings, conf)
    return rows if sample is None else sample


def _may_have_debt(sources: Sequence[str], rows: DataFrame, settings: WriterSettings) -> bool:
    """Whether a query has skipped records: an entry of Spark's offset log that it starts from says so, or its source of
    files has chosen some without an entry there, because the query was killed in between.
    """
    spark, location = rows.sparkSession, settings.checkpoint(rows.sparkSession)
    if location is None or not _is_one(sources):
        return False
    checkpoint = Checkpoint(spark, location)
    # A look at the log makes its folder, where sinks that know no restart do not start.
    entries = [entry_of(files_of_spark(spark, location, "offsets"), epoch) or b"" for epoch in checkpoint.starts_from]
    if any(has_own_offsets(entry) for entry in entries):
        return True
    if list(sources) != ["files"] or not checkpoint.has_skipped_files:
        return False
    read = _LOG_OFFSET.search(entries[0]) if entries else None
    return checkpoint.newest_files > (int(read[1]) if read else -1)


def told_times(
    cut: OperatorCut, step: BacklogStep | None, last: Manifest | None
) -> tuple[list[EventTimes], list[EventTimes]]:
    """What Spark is told of an epoch's event times, and what it will be told once those of the records before are."""
    collected = cut.event_times()
    owed = last.owed_times if last is not None else []
    if step is not None and step.is_ahead:
        cut.forget_event_times()
        return cut.event_times(), [_together(*both) for both in zip(owed or collected, collected, strict=True)]
    if step is None or step.debt or not owed:
        return collected, owed
    for index, times in enumerate(owed):
        if times[0]:
            cut.add_event_times(index, times)
    return cut.event_times(), []


def _together(one: EventTimes, other: EventTimes) -> EventTimes:
    if not one[0] or not other[0]:
        return one if one[0] else other
    count = one[0] + other[0]
    mean = (one[0] * one[3] + other[0] * other[3]) / count
    return count, min(one[1], other[1]), max(one[2], other[2]), mean


@dataclass(frozen=True)
class BacklogFigures:
    """`debt`: how many records, or files, are skipped; `debt_shed`: how many the epoch has let go; `fraction`: how much
    has been read of what there was to read since there has been debt; `sample_rate`: the share of its records that were
    taken.
    """

    debt: int = 0
    debt_shed: int = 0
    fraction: float = 1.0
    sample_rate: float = 1.0

    @classmethod
    def of(cls, step: BacklogStep) -> BacklogFigures:
        """Of an epoch that has read this."""
        share = step.read / (step.read + step.debt) if step.debt else 1.0
        return cls(step.debt, step.shed, round(share, 6), step.rate)


class Backlog:
    """That of a query which does not read its source as Spark does, from epoch to epoch."""

    def __init__(self, mode: OutputMode, adds_columns: bool) -> None:
        """`adds_columns`: rows have `FRACTION` and `TENTATIVE`."""
        self._mode = mode
        self._adds_columns = adds_columns
        self._figures = BacklogFigures()

    def figures(self, step: BacklogStep | None) -> BacklogFigures:
        """Of an epoch; one without rows leaves all as it is."""
        if step is not None:
            self._figures = BacklogFigures.of(step)
        else:
            self._figures = replace(self._figures, debt_shed=0, sample_rate=1.0)
        return self._figures

    def rows(self, result: DataFrame) -> DataFrame:
        """The rows of the epoch as its sink gets them; windows that are complete are made of all records."""
        if not self._adds_columns:
            return result
        is_final = self._mode is OutputMode.APPEND or not self._figures.debt
        fraction = 1.0 if is_final else self._figures.fraction
        return result.withColumns({FRACTION: F.lit(fraction), TENTATIVE: F.lit(not is_final)})
