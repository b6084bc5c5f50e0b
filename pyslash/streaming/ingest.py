"""The update job of an epoch: the micro-batch's rows into partial state, by the row bridge or by `mapInArrow`."""

from __future__ import annotations

import logging

from pyspark.sql import DataFrame, SparkSession

from pyslash.conf import Conf
from pyslash.errors import RowBridgeUnavailableError
from pyslash.plan import AggregationPlan
from pyslash.streaming.execution import BatchExecution
from pyslash.tasks.arrow_update import ArrowUpdate
from pyslash.tasks.receipt import Receipt
from pyslash.tasks.row_bridge import RowBridge

logger = logging.getLogger("pyslash")


class Ingest:
    """Runs update jobs for one query, on the path that its configuration asks for."""

    def __init__(
        self, session: SparkSession, plan: AggregationPlan, conf: Conf, query_id: bytes, secret: bytes
    ) -> None:
        self._plan = plan
        self._conf = conf
        self._query_id = query_id
        self._secret = secret
        self._bridge = self._row_bridge(session) if conf.ingest != "arrow" else None
        self.path = "rows" if self._bridge is not None else "arrow"

    def update(self, execution: BatchExecution, batch: DataFrame, epoch: int, watermark_us: int) -> list[Receipt]:
        """One job over the micro-batch; the receipts of the tasks whose results reached us, and of no others.

        Args:
            execution: the micro-batch's execution.
            batch: the same micro-batch as a DataFrame.
            epoch: the batch id.
            watermark_us: rows whose last window ends at or before this are late.
        """
        if self._bridge is not None:
            return self._bridge.update(
                execution.execution,
                self._plan.text,
                watermark_us,
                self._query_id,
                epoch,
                self._secret,
                self._conf.arena_bytes,
                execution.session.sparkContext.pythonExec,
                start_timeout_seconds=self._conf.agent_start_timeout,
            )
        task = ArrowUpdate(
            plan=self._plan.text,
            watermark_us=watermark_us,
            query=self._query_id,
            epoch=epoch,
            secret=self._secret,
            arena_bytes=self._conf.arena_bytes,
            driver_host=execution.session.conf.get("spark.driver.host", None),
            start_timeout_seconds=self._conf.agent_start_timeout,
        )
        rows = batch.mapInArrow(task, "receipt binary").collect()
        return [Receipt.parse(bytes(row.receipt)) for row in rows]

    def _row_bridge(self, session: SparkSession) -> RowBridge | None:
        try:
            return RowBridge(session)
        except RowBridgeUnavailableError as error:
            if self._conf.ingest == "rows":
                raise
            logger.warning("rows reach native code by mapInArrow, which is slower: %s", error)
            return None
