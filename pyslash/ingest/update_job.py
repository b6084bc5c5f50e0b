"""The update job of an epoch: it turns the micro-batch's rows into partial state, on one of two paths.

`files`: tasks read the micro-batch's Parquet files themselves; `rows`: Spark reads, and the row bridge hands its rows
over. Both end in the same accumulator and receipt.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark.sql import SparkSession

from pyslash.cluster.find_agents import has_hosts
from pyslash.conf import Conf
from pyslash.ingest.block_publisher import BlockPublisher
from pyslash.ingest.only_spark import OnlySpark
from pyslash.ingest.parquet_scan import ParquetScan
from pyslash.ingest.parquet_update import ParquetUpdate
from pyslash.ingest.static_join import StaticTables
from pyslash.plan.catalyst import JavaObject
from pyslash.plan.spec import PlanSpec, SessionPlace
from pyslash.plan.window import NO_WATERMARK_US
from pyslash.spark.execution import SparkBatch, count_times
from pyslash.spark.job import run_numbered
from pyslash.spark.jvm_bridge import JvmBridge, TaskRead
from pyslash.spark.scan_figures import ScanFigures
from pyslash.spark.update_spec import AgentSpec, UpdateSpec
from pyslash.state.receipt import Receipt
from pyslash.units import Epoch, Micros

logger = logging.getLogger("pyslash")


class Ingest:
    """Runs the update jobs of one query, on the path that its configuration and its input require."""

    def __init__(
        self,
        session: SparkSession,
        plan: PlanSpec,
        conf: Conf,
        query_id: bytes,
        secret: bytes,
    ) -> None:
        """`plan` is the one that rows are grouped by."""
        self._plan = plan
        self._conf = conf
        self._query_id = query_id
        self._secret = secret
        self._bridge = JvmBridge(session)
        self._reads_files = conf.ingest in ("auto", "files")
        self._static_tables = StaticTables()
        self._obstacle = ""
        self._obstacles_of_records: tuple[str, ...] = ()
        self.path = ""
        self.records_by_spark = 0  # records of the last update that native code left to Spark
        self.records_fetched = 0  # of the last update, from topics, past Spark's reader
        self.reads: tuple[TaskRead, ...] = ()  # of the tasks of the last update, where they differ
        self.shuffled: dict[str, int] = {}  # bytes of the last update's rows that crossed to other tasks, by transport
        self.scattering_ns = 0  # of the last update's tasks whose receipts do not count

    def update(
        self, execution: SparkBatch, epoch: Epoch, watermark_us: Micros, place: SessionPlace | None = None
    ) -> list[Receipt]:
        """One job over the micro-batch; the receipts of the tasks whose results reached us, and of no others.

        Args:
            execution: the micro-batch's execution.
            epoch: the batch id.
            watermark_us: rows whose last window ends at or before this are late.
            place: where the sessions of this epoch go, of a plan that has them.
        """
        self.records_by_spark = self.records_fetched = 0
        self.reads = ()
        if execution.cut.is_without_rows:
            self.path = "none"
            return []
        execution.cut.reset_counts()
        rows = execution.cut.input()
        if self._reads_files:
            receipts = self._from_files(execution, rows, epoch, watermark_us, place)
            if receipts is not None:
                return receipts
        return self._from_rows(execution, rows, epoch, watermark_us, place)

    def publish(self, session: SparkSession, rows: JavaObject, plan: PlanSpec, epoch: Epoch) -> list[Receipt]:
        """Blocks of rows that are not of the micro-batch, none of them late: the receipts.

        Args:
            session: the micro-batch's.
            rows: a physical plan; its columns are the event time and the plan's.
            plan: the one that the rows are grouped by.
            epoch: the batch id.
        """
        agent = AgentSpec.of(session, self._secret, self._conf)
        spec = UpdateSpec(plan=plan, watermark_us=NO_WATERMARK_US, query=self._query_id, epoch=epoch, agent=agent)
        receipts, _ = self._bridge.update(rows, spec)
        return receipts

    def close(self) -> None:
        """The query has ended or starts over: free what was sent to executors."""
        self._static_tables.close()

    def _from_files(
        self, execution: SparkBatch, rows: JavaObject, epoch: Epoch, watermark_us: Micros, place: SessionPlace | None
    ) -> list[Receipt] | None:
        """None if Spark has to read the files, or if they are too small for a Python job."""
        files = self._bridge.scan(rows)
        least_bytes = self._conf.ingest_files_min_bytes if self._conf.ingest != "files" else 0
        try:
            scan = ParquetScan.parse(files.describe(least_bytes))
        except OnlySpark as reason:
            self._leave_to_spark(execution, reason)  # this time: another micro-batch may be planned otherwise
            return None
        try:
            scan = replace(scan, joins=self._static_tables.send(execution.session, files, scan.joins))
            return self._from_scan(scan, files, execution, self.publisher(execution, epoch, watermark_us, place))
        except OnlySpark as reason:
            self._leave_to_spark(execution, reason)
            self._reads_files = False
            self._static_tables.close()
            return None

    def _from_scan(
        self, scan: ParquetScan, files: JavaObject, execution: SparkBatch, publisher: BlockPublisher
    ) -> list[Receipt]:
        self.path = "files"
        update = ParquetUpdate(publisher, scan)
        figures, receipts = ScanFigures(), []
        for found in run_numbered(execution.session, len(scan.partitions), update):
            if isinstance(found, str):
                raise OnlySpark(found)
            receipts.append(Receipt.parse(found.receipt))
            figures.merge(found.figures)
        files.count(figures.rows)
        count_times(execution.cut, figures)
        return receipts

    def _leave_to_spark(self, execution: SparkBatch, reason: OnlySpark) -> None:
        if str(reason) != self._obstacle:
            self._obstacle = str(reason)
            logger.info("query %s: Spark reads the input: %s", execution.query_id, reason)

    def _from_rows(
        self, execution: SparkBatch, rows: JavaObject, epoch: Epoch, watermark_us: Micros, place: SessionPlace | None
    ) -> list[Receipt]:
        self.path = "rows"
        spec = UpdateSpec(
            plan=self._plan,
            place=place,
            watermark_us=watermark_us,
            query=self._query_id,
            epoch=epoch,
            agent=AgentSpec.of(execution.session, self._secret, self._conf),
            reads_json=self._conf.ingest_json == "auto",
            reads_csv=self._conf.ingest_csv == "auto",
            reads_avro=self._conf.ingest_avro == "auto",
            reads_kafka=self._conf.ingest_kafka == "auto",
        )
        receipts, figures = self._bridge.update(rows, spec)
        count_times(execution.cut, figures)
        self.records_by_spark = self._bridge.input.left_to_spark
        self.records_fetched = self._bridge.input.fetched
        self.reads = self._bridge.input.reads
        if self._bridge.input.obstacles != self._obstacles_of_records:
            self._obstacles_of_records = self._bridge.input.obstacles
            for reason in self._obstacles_of_records:
                logger.info("query %s: Spark reads the records: %s", execution.query_id, reason)
        return receipts

    def publisher(
        self, execution: SparkBatch, epoch: Epoch, watermark_us: Micros, place: SessionPlace | None = None
    ) -> BlockPublisher:
        """What tasks in Python publish blocks of this epoch with; `place` as `update` takes it."""
        return BlockPublisher(
            plan=self._plan.placed(place),
            watermark_us=watermark_us,
            query=self._query_id,
            epoch=epoch,
            secret=self._secret,
            arena_bytes=self._conf.arena_bytes,
            driver_host=execution.session.conf.get("spark.driver.host", None),
            start_timeout_seconds=self._conf.agent_start_timeout,
            tcp=has_hosts(execution.session),
        )
