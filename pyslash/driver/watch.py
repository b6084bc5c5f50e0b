"""What users see of queries: events on Spark's listener bus, out of which the jar makes the tab "Slash" of Spark's UI,
the same tab in the History Server, and the source `pyslash` of Spark's metrics system.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from pyslash.conf import Conf
from pyslash.driver.state_answers import StateAnswers
from pyslash.epoch_progress import EpochProgress
from pyslash.errors import RowBridgeUnavailableError
from pyslash.ingest.data_paths import data_paths
from pyslash.plan.operator import OperatorPlan
from pyslash.plan.reasons import Fallback
from pyslash.spark.jvm_bridge import JvmBridge
from pyslash.spark.running_queries import folder_of
from pyslash.spark.writer import WriterSettings

logger = logging.getLogger("pyslash")


class QueryWatch:
    """Reports one query to the UI and the metrics. A failure is logged and ends the reports, never the query."""

    def __init__(self, java: Any, settings: WriterSettings, conf: Conf) -> None:
        """`java`: the JVM's `io.pyslash.ui.Watch`."""
        self._java = java
        self._settings = settings
        self._conf = conf
        self._who: dict[str, str] = {}

    @classmethod
    def of(cls, spark: SparkSession, settings: WriterSettings, conf: Conf) -> QueryWatch | None:
        """None where nobody would see it: the application has no UI, writes no event log and has no metrics sink."""
        if not conf.watch:
            return None
        try:
            java = JvmBridge(spark).java.watch(spark.sparkContext._jsc.sc())
            if java is not None:
                java.answerBy(StateAnswers(folder_of(spark)))
        except (RowBridgeUnavailableError, Py4JError) as error:
            logger.warning("the Spark UI shows nothing of pyslash: %s", error)
            return None
        return cls(java, settings, conf) if java is not None else None

    def started(self, query: StreamingQuery, df: DataFrame, operators: Sequence[OperatorPlan]) -> None:
        """It runs on pyslash."""
        try:
            told = [
                _told(operator, [*operator.explain_lines, *data_paths(df, operator, self._conf)])
                for operator in operators
            ]
        except (Py4JError, PySparkException) as error:  # it looks at a plan: some of Spark's errors are PySpark's
            logger.warning("the Spark UI does not tell how this query is executed: %s", error)
            told = []
        settings = {name: getattr(self._conf, name) for name in ("strategy", "durability", "transport")}
        settings["watch.keys"] = self._conf.watch_keys
        self._tell_start(query, operators=told, settings=settings)

    def stays(self, query: StreamingQuery, fallback: Fallback) -> None:
        """The query runs on plain Spark."""
        self._tell_start(query, **_of(fallback))

    def began(self, query_id: str, run_id: str) -> None:
        """Its first epoch has begun, which may be before `started`."""
        self._who = {"run": run_id, "id": query_id, "name": self._name}

    def left(self, fallback: Fallback) -> None:
        """The query continues on plain Spark."""
        self._post("left", **self._who, **_of(fallback))

    def epoch(self, wall_ms: float, progress: Sequence[EpochProgress]) -> None:
        """An epoch is done: the figures of each operator. The only call of an epoch."""
        self._post(
            "epoch",
            **self._who,
            epoch=progress[0].epoch,
            millis=round(time.time() * 1000),
            wall_ms=round(wall_ms, 3),
            retained=self._conf.progress_retained,
            operators=[vars(figures) for figures in progress],
        )

    @property
    def _name(self) -> str:
        return self._settings.query_name or ""

    def _tell_start(self, query: StreamingQuery, **figures: Any) -> None:
        self._post(
            "query",
            run=str(query.runId),
            id=str(query.id),
            name=self._name,
            mode=self._settings.output_mode.value,
            sink=self._settings.sink,
            millis=round(time.time() * 1000),
            **figures,
        )

    def _post(self, kind: str, **figures: Any) -> None:
        if self._java is None:
            return
        try:
            self._java.post(kind, json.dumps(figures))
        except Py4JError as error:
            logger.warning("the Spark UI shows no more of this query: %s", error)
            self._java = None


def _told(operator: OperatorPlan, lines: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "name": operator.node.removesuffix("Exec"),
        "grouping": operator.grouping,
        "told": [{"name": name, "text": text} for name, text in lines],
    }


def _of(fallback: Fallback) -> dict[str, Any]:
    return {
        "reason": fallback.reason,
        "operator": fallback.operator,
        "help": fallback.help,
        "fallback": fallback.has_state,
    }
