"""When the open sessions of a query are rewritten, which bounds the memory of sessions that never end."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from pyslash.cluster.coordinator import LiveBlock
from pyslash.conf import Conf
from pyslash.emit.merge import Kept
from pyslash.ingest.update_job import Ingest
from pyslash.operators.rewrite_sessions import RewriteSessions
from pyslash.plan.operators import SessionAggregation
from pyslash.spark.execution import SparkBatch
from pyslash.spark.job import run_numbered
from pyslash.state.manifest import Manifest
from pyslash.state.receipt import Receipt

# Sessions are rewritten once they take this many times what they took after the last rewrite: an entry is then
# written about once more for each that is made.
_GROWTH = 4


class SessionPanes:
    """The pane that holds a query's sessions, from epoch to epoch (docs/design/028)."""

    def __init__(self, operator: SessionAggregation, conf: Conf) -> None:
        self._operator = operator
        self._conf = conf
        self._written = 0  # bytes, the last time

    def place(self, pane: int, evicted_us: int) -> str:
        """The line that the plan of an epoch's update has besides: where its parts of sessions go."""
        return self._operator.place(pane, evicted_us)

    def kept(self, manifest: Manifest) -> Kept:
        """What is kept of an epoch's sessions."""
        before, version = manifest.versions
        return Kept(
            before="" if manifest.pane == manifest.epoch else before,  # the epoch's blocks hold all there is
            version=version,
            epoch=manifest.epoch,
            evicted_us=manifest.emitted_us,
            pane=manifest.pane,
            closing_us=self._operator.emission.closing_us(manifest.watermark_us),
        )

    def next_pane(self, blocks: list[LiveBlock], pane: int, epoch: int) -> int:
        """Where the sessions of an epoch go: to the pane that holds them, or to a new one, of the epoch's number.

        Args:
            blocks: the state before the epoch.
            pane: that holds it.
            epoch: the batch id.
        """
        held = sum(size for block in blocks for held_in, _, size in block.head.panes if held_in == pane)
        return epoch if held > max(_GROWTH * self._written, self._conf.session_rewrite_bytes) else pane

    def rewrite(
        self,
        execution: SparkBatch,
        ingest: Ingest,
        blocks: list[LiveBlock],
        panes: tuple[int, int],
        epoch: int,
        evicted_us: int,
    ) -> list[Receipt]:
        """Write what is still open of one pane into another, as blocks of the epoch.

        Args:
            execution: the micro-batch's.
            ingest: the query's.
            blocks: the state before the epoch.
            panes: the one that holds it, and the one that is to.
            epoch: the batch id.
            evicted_us: sessions that ended by then are over.
        """
        session: SparkSession = execution.session
        tasks = session.sparkContext.defaultParallelism
        place = self._operator.place(panes[1], evicted_us)
        rewrite = RewriteSessions(
            update=replace(ingest.arrow_update(execution, epoch, evicted_us), plan=self._operator.text + place),
            blocks=[(block.agent, block.raw) for block in blocks],
            pane=panes[0],
            evicted_us=evicted_us,
            tasks=tasks,
            transport=self._conf.transport,
            timeout_seconds=self._conf.agent_call_timeout,
        )
        receipts = [Receipt.parse(receipt) for receipt in run_numbered(session, tasks, rewrite)]
        self._written = sum(receipt.head.length for receipt in receipts)
        return receipts
