"""The life of an epoch: what happens in `foreachBatch` of a query that pyslash has taken over.

    update -> manifest -> commit -> merge -> sink;  release when the next epoch starts

A failure before the manifest leaves nothing behind: the epoch's rows are read again. A failure after it leaves the
manifest: the replayed epoch merges the same blocks and yields the same rows.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from pyslash.conf import Conf
from pyslash.errors import StateLostError
from pyslash.plan import AggregationPlan
from pyslash.streaming.checkpoint_files import checkpoint_files
from pyslash.streaming.coordinator import Coordinator, LiveBlock
from pyslash.streaming.execution import BatchExecution
from pyslash.streaming.ingest import Ingest
from pyslash.streaming.manifest import MANIFESTS, Manifest, ManifestLog
from pyslash.streaming.merging import Merging
from pyslash.streaming.progress import EpochProgress, ProgressLog
from pyslash.streaming.sinks import Sink
from pyslash.streaming.windows import closed_windows, first_live_pane

logger = logging.getLogger("pyslash")


@dataclass
class _State:
    """What lives from epoch to epoch, made when the first batch tells the query's id and checkpoint."""

    coordinator: Coordinator
    manifests: ManifestLog
    last: Manifest | None


class EpochRunner:
    """The `foreachBatch` function of one started query."""

    def __init__(self, plan: AggregationPlan, sink: Sink, conf: Conf, secret: bytes) -> None:
        self.plan = plan
        self.progress: ProgressLog | None = None
        self._sink = sink
        self._conf = conf
        self._secret = secret
        self._ingest: Ingest | None = None
        self._merging: Merging | None = None
        self._state: _State | None = None

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Run one epoch.

        Raises:
            SlashError: typed, with what to do; Spark ends the query with it, and may restart it.
        """
        execution = BatchExecution(batch, self.plan.session)
        state = self._state or self._begin(execution, epoch)
        progress = EpochProgress(epoch)
        window = self.plan.window
        if state.last is not None and state.last.epoch < epoch:
            # Spark has logged the last epoch as done: nobody will ask for its windows again.
            state.coordinator.release(first_live_pane(window, state.last.watermark_us))
            state.manifests.purge(epoch)
        manifest = state.manifests.read(epoch, self.plan.text)
        progress.replayed = manifest is not None
        if manifest is None:
            manifest = self._update(execution, batch, epoch, state, progress)
        with progress.timed("commit"):
            state.coordinator.commit(manifest)
        state.last = manifest
        self._emit(batch, manifest, state, progress)

    def close(self, drop: bool) -> None:
        """Let go of the agents; `drop` also frees the query's state in them."""
        if self._state is not None:
            if drop:
                self._state.coordinator.drop()
            self._state.coordinator.close()
            self._state = None

    def _begin(self, execution: BatchExecution, epoch: int) -> _State:
        session: SparkSession = execution.session
        query_id = execution.query_id
        self.progress = ProgressLog(str(query_id), self._conf.progress_retained)
        coordinator = Coordinator(query_id.bytes, self.plan.text, self._secret, self._conf.agent_call_timeout)
        manifests = ManifestLog(checkpoint_files(session, execution.checkpoint, MANIFESTS))
        last = self._recover(manifests, coordinator, epoch)
        self._ingest = Ingest(session, self.plan, self._conf, query_id.bytes, self._secret)
        self._merging = Merging(self.plan, self._conf, coordinator)
        self._state = _State(coordinator, manifests, last)
        return self._state

    def _recover(self, manifests: ManifestLog, coordinator: Coordinator, epoch: int) -> Manifest | None:
        """Find the state of the epochs before this one, where the query has run before."""
        done = [known for known in manifests.epochs() if known < epoch]
        if not done:
            if epoch > 0:
                raise StateLostError(
                    f"the checkpoint has {epoch} finished batches but no manifest of pyslash: it was written by plain "
                    "Spark. Set spark.slash.mode=off for this query, or give it a new checkpointLocation."
                )
            return None
        last = manifests.read(done[-1], self.plan.text)
        if last is None or last.epoch != epoch - 1:
            raise StateLostError(
                f"the last manifest is of epoch {done[-1]}, but Spark continues with {epoch}: the checkpoint has been "
                "used without pyslash in between. Give the query a new checkpointLocation."
            )
        coordinator.reconnect(last.agents)
        logger.info("query continues after epoch %d with %d live blocks", last.epoch, len(coordinator.live_blocks()))
        return last

    def _update(
        self, execution: BatchExecution, batch: DataFrame, epoch: int, state: _State, progress: EpochProgress
    ) -> Manifest:
        assert self._ingest is not None
        emitted_us = max(execution.watermark_us, state.last.watermark_us if state.last else 0)
        with progress.timed("update"), state.coordinator.discard_on_failure(epoch):
            receipts = self._ingest.update(execution, batch, epoch, emitted_us)
        watermark_us = execution.next_watermark_us(emitted_us)
        progress.ingest = self._ingest.path
        written = [receipt for receipt in receipts if receipt.head.length > 0]
        progress.groups = sum(receipt.head.groups for receipt in written)
        agents = {agent.incarnation: agent for agent in state.coordinator.agents}
        agents.update({receipt.agent.incarnation: receipt.agent for receipt in written})
        manifest = Manifest(
            epoch=epoch,
            plan=self.plan.text,
            emitted_us=emitted_us,
            watermark_us=watermark_us,
            rows=sum(receipt.head.rows for receipt in receipts),
            late_rows=sum(receipt.head.late_rows for receipt in receipts),
            blocks=[(receipt.agent.incarnation, receipt.head.arena_offset) for receipt in written],
            agents=list(agents.values()),
        )
        with progress.timed("commit"):
            state.manifests.create(manifest)
        return manifest

    def _emit(self, batch: DataFrame, manifest: Manifest, state: _State, progress: EpochProgress) -> None:
        assert self._merging is not None
        assert self.progress is not None
        blocks = state.coordinator.live_blocks()
        windows = closed_windows(self.plan.window, _panes(blocks), manifest.emitted_us, manifest.watermark_us)
        progress.rows, progress.late_rows = manifest.rows, manifest.late_rows
        progress.blocks, progress.windows = len(blocks), len(windows)
        progress.agents = len(state.coordinator.agents)
        progress.pinned_bytes = state.coordinator.used_bytes
        progress.watermark_us = manifest.watermark_us
        with progress.timed("merge"):
            merged = self._merging.merge(batch.sparkSession, blocks, windows, progress)
            finished = self.plan.finish(batch.sparkSession._jsparkSession, merged._jdf)
        with progress.timed("sink"):
            self._sink.write(DataFrame(finished, batch.sparkSession), manifest.epoch)
        self._merging.collect_counts(progress)
        self.progress.add(progress)


def _panes(blocks: list[LiveBlock]) -> set[int]:
    return {pane for block in blocks for pane, _, _ in block.head.panes}
