"""The life of an epoch: what happens in `foreachBatch` of a query that pyslash has taken over.

    update -> replica, checkpoint -> manifest -> commit -> merge -> sink;  release when the next epoch starts

A failure before the manifest leaves nothing behind: the epoch's rows are read again. A failure after it leaves the
manifest: the replayed epoch merges the same blocks and yields the same rows. When an agent is lost, the epoch begins
again by itself, as another driver would: as a new run, from standbys' memory or the checkpoint. `phase` has the rules.
"""

from __future__ import annotations

import logging

from pyspark.sql import DataFrame

from pyslash.agent.share import EVERY_PANE
from pyslash.block_head import head_crc
from pyslash.checkpoint.directory import BlockFile
from pyslash.conf import Conf
from pyslash.errors import (
    AgentTimeoutError,
    AgentUnavailableError,
    FencedError,
    LateManifestError,
    PlanMismatchError,
    SlashError,
    StaleIncarnationError,
)
from pyslash.plan import AggregationPlan
from pyslash.streaming.coordinator import LiveBlock
from pyslash.streaming.execution import BatchExecution
from pyslash.streaming.ingest import Ingest
from pyslash.streaming.manifest import Manifest
from pyslash.streaming.merging import Merging
from pyslash.streaming.phase import Event, Phase, advance
from pyslash.streaming.progress import EpochProgress, ProgressLog
from pyslash.streaming.recovery import Recovery, RunState
from pyslash.streaming.repartition import ingest_of
from pyslash.streaming.sinks import Sink
from pyslash.streaming.windows import closed_windows, first_live_pane
from pyslash.tasks.receipt import Receipt

logger = logging.getLogger("pyslash")
_MOST_RECOVERIES = 3
_OUT_OF_REACH = (AgentTimeoutError, AgentUnavailableError, StaleIncarnationError)


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
        self._recovery = Recovery(plan, conf, secret)
        self._state: RunState | None = None
        self.phase = Phase.EMITTED
        self._has_standby = True  # until it turns out otherwise, which is said once

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Run one epoch; again, from what is kept of the state, while agents are lost.

        Raises:
            SlashError: typed, with what to do; Spark ends the query with it, and may restart it.
        """
        execution = BatchExecution(batch, self.plan.session)
        progress = EpochProgress(epoch)
        self.phase = Phase.BEGUN
        while True:
            try:
                return self._run(execution, batch, epoch, progress)
            except (FencedError, PlanMismatchError):
                raise
            except Exception as error:
                if progress.recoveries == _MOST_RECOVERIES or not self._can_begin_again(error):
                    raise
                logger.warning("epoch %d begins again, %s: %s", epoch, self.phase.value, error)
                self.phase = advance(self.phase, Event.AGENT_LOST)
                self._close()
                progress.recoveries += 1

    def _can_begin_again(self, error: Exception) -> bool:
        if not self._conf.recovers:
            return False
        if isinstance(error, LateManifestError):
            return True
        if isinstance(error.__cause__, _OUT_OF_REACH):
            return True  # even if that agent answers by now: what it has done of the call is not known
        if self._state is not None:
            return bool(self._state.coordinator.lost_agents())
        return self._recovery.may_succeed_after(error)

    def _run(self, execution: BatchExecution, batch: DataFrame, epoch: int, progress: EpochProgress) -> None:
        state = self._state or self._begin(execution, epoch, progress)
        window = self.plan.window
        if state.last is not None and state.last.epoch < epoch:
            # Spark has logged the last epoch as done: nobody will ask for its windows again.
            state.coordinator.release(first_live_pane(window, state.last.watermark_us))
            state.manifests.purge(epoch)
            if state.durable is not None:
                state.durable.clean()
            self._recovery.join_standby(execution.session, state.coordinator)
        manifest = state.manifests.read(epoch, self.plan.identity)
        progress.replayed = manifest is not None
        if manifest is not None and self._conf.recovers and state.as_of < epoch:
            raise LateManifestError(f"epoch {epoch} was written by run {manifest.run}, which this one has replaced")
        if manifest is None:
            manifest = self._update(execution, batch, epoch, state, progress)
        else:
            self.phase = advance(self.phase, Event.REPLAYED)
        with progress.timed("commit"):
            state.coordinator.commit(manifest)
        self.phase = advance(self.phase, Event.COMMITTED)
        state.last = manifest
        self._emit(batch, manifest, state, progress)
        self.phase = advance(self.phase, Event.EMITTED)

    def end(self, resumable: bool) -> None:
        """The query has ended: free what agents hold of it, unless they alone have what a restart needs.

        Args:
            resumable: it has a checkpoint of its own, so that it may be started again.
        """
        if self._state is None:
            return
        try:
            if not resumable:
                self._state.coordinator.drop()
            elif self._state.durable is not None:
                self._state.coordinator.release(EVERY_PANE)
        except SlashError as error:
            logger.warning("an agent keeps what it holds of a query that has ended: %s", error)
        self._close()

    def _close(self) -> None:
        if self._state is not None:
            self._state.coordinator.close()
            self._state = None

    def _begin(self, execution: BatchExecution, epoch: int, progress: EpochProgress) -> RunState:
        query_id = execution.query_id
        self.progress = self.progress or ProgressLog(str(query_id), self._conf.progress_retained)
        state = self._recovery.begin(execution, epoch, progress)
        run, meet = state.manifests.run, state.coordinator.meet
        self._ingest = ingest_of(execution.session, self.plan, self._conf, query_id.bytes, self._secret, run, meet)
        self._merging = Merging(self.plan, self._conf, state.coordinator)
        self._state = state
        return state

    def _update(
        self, execution: BatchExecution, batch: DataFrame, epoch: int, state: RunState, progress: EpochProgress
    ) -> Manifest:
        assert self._ingest is not None
        emitted_us = max(execution.watermark_us, state.last.watermark_us if state.last else 0)
        coordinator, ingest = state.coordinator, self._ingest

        def update() -> list[Receipt]:
            with coordinator.discard_on_failure(epoch):
                return ingest.update(execution, batch, epoch, emitted_us)

        with progress.timed("update"):
            coordinator.make_room_ahead(epoch)
            receipts = coordinator.with_room(epoch, update)
        self.phase = advance(self.phase, Event.UPDATED)
        watermark_us = execution.next_watermark_us(emitted_us)
        progress.ingest, progress.bytes_shuffled = ingest.path, ingest.shuffled
        written = [receipt for receipt in receipts if receipt.head.length > 0]
        progress.groups = sum(receipt.head.groups for receipt in written)
        agents = {agent.incarnation: agent for agent in coordinator.agents}
        agents.update({receipt.agent.incarnation: receipt.agent for receipt in written})
        files: list[BlockFile] = []
        if state.durable is not None:
            with progress.timed("checkpoint"):
                added = coordinator.store(epoch, written, state.durable)
            progress.checkpoint_bytes = sum(file.bytes for file in added)
            files = state.durable.with_epoch(added, first_live_pane(self.plan.window, emitted_us))
        standbys: dict[str, str] = {}
        if self._conf.replicates:
            with progress.timed("replica"):
                standbys, progress.replica_bytes = coordinator.with_room(
                    epoch, lambda: coordinator.replicate(epoch, written, self._conf.transport)
                )
            self._warn_without_standby(standbys)
        self.phase = advance(self.phase, Event.STORED)
        manifest = Manifest(
            epoch=epoch,
            run=state.manifests.run,
            plan=self.plan.text,
            columns=list(self.plan.identity.columns),
            emitted_us=emitted_us,
            watermark_us=watermark_us,
            rows=sum(receipt.head.rows for receipt in receipts),
            late_rows=sum(receipt.head.late_rows for receipt in receipts),
            blocks=[
                (receipt.agent.incarnation, receipt.head.arena_offset, head_crc(receipt.raw_head))
                for receipt in written
            ],
            agents=list(agents.values()),
            files=files,
            in_checkpoint=state.durable is not None,
            standbys=standbys,
        )
        with progress.timed("commit"):
            state.manifests.create(manifest)
        if state.durable is not None:
            state.durable.logged(files)
            if not state.swept:
                previous = state.last.files if state.last is not None else []
                state.durable.sweep({file.name for file in [*files, *previous]}, state.manifests.run)
                state.swept = True
        self.phase = advance(self.phase, Event.LOGGED)
        return manifest

    def _warn_without_standby(self, standbys: dict[str, str]) -> None:
        if not standbys and self._has_standby:
            logger.warning(
                "spark.slash.durability=%s, spark.slash.replication=%d: there is one agent only, so nothing is "
                "replicated until another executor has one",
                self._conf.durability,
                self._conf.replication,
            )
        self._has_standby = bool(standbys)

    def _emit(self, batch: DataFrame, manifest: Manifest, state: RunState, progress: EpochProgress) -> None:
        assert self._merging is not None
        assert self.progress is not None
        blocks = state.coordinator.live_blocks()
        windows = closed_windows(self.plan.window, _panes(blocks), manifest.emitted_us, manifest.watermark_us)
        progress.count_rows(manifest.rows, manifest.late_rows)
        progress.blocks, progress.windows = len(blocks), len(windows)
        progress.agents = len(state.coordinator.agents)
        progress.pinned_bytes = state.coordinator.used_bytes
        progress.spilled_bytes = state.coordinator.spilled_bytes
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
