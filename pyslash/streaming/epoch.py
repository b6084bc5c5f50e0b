"""The life of an epoch: what happens in `foreachBatch` of a query whose stateful operator pyslash executes.

    update -> replica, checkpoint -> manifest -> commit -> merge -> sink;  release when the next epoch starts

The query is the job's own, with Spark's stateful operator in the plan of each micro-batch. Spark tells the watermarks
for late rows and for eviction; what the operator would have given is merged from blocks, and the rest of Spark's plan
stands on top of it.

A failure before the manifest leaves nothing behind: the epoch's rows are read again. A failure after it leaves the
manifest: the replayed epoch merges the same blocks and yields the same rows. When an agent is lost, the epoch begins
again by itself, as another driver would: as a new run, from standbys' memory or the checkpoint. `phase` has the rules.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.sql import DataFrame

from pyslash.agent.store.share import EVERY_PANE
from pyslash.block_head import head_crc
from pyslash.checkpoint.directory import BlockFile
from pyslash.conf import Conf
from pyslash.errors import (
    AgentTimeoutError,
    AgentUnavailableError,
    FencedError,
    LateManifestError,
    PlanMismatchError,
    RewoundCheckpointError,
    SlashError,
    StaleIncarnationError,
    UnsupportedQueryError,
)
from pyslash.plan.operators import Aggregation, SessionAggregation, StreamJoin
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.reasons import Uncovered
from pyslash.plan.window import NO_WATERMARK_US
from pyslash.streaming.coordinator import LiveBlock
from pyslash.streaming.execution import SparkBatch, event_times, next_watermark_us, tell_times
from pyslash.streaming.ingest import Ingest
from pyslash.streaming.joining import Joining
from pyslash.streaming.manifest import Manifest
from pyslash.streaming.merging import Merging
from pyslash.streaming.phase import Event, Phase, advance
from pyslash.streaming.progress import EpochProgress, ProgressLog
from pyslash.streaming.recovery import Recovery, RunState
from pyslash.streaming.repartition import ingest_of
from pyslash.streaming.sessions import SessionPanes
from pyslash.streaming.sinks import Sink
from pyslash.tasks.merge import Kept
from pyslash.tasks.receipt import Receipt

logger = logging.getLogger("pyslash")
_MOST_RECOVERIES = 3
_OUT_OF_REACH = (AgentTimeoutError, AgentUnavailableError, StaleIncarnationError)
_FINAL = (FencedError, PlanMismatchError, RewoundCheckpointError, Uncovered)
# Before this phase nothing of an epoch counts.
_BEFORE_LOG = frozenset({Phase.BEGUN, Phase.UPDATED, Phase.STORED})


class EpochRunner:
    """The `foreachBatch` function of one started query."""

    def __init__(
        self,
        operator: Aggregation,
        sink: Sink,
        conf: Conf,
        secret: bytes,
        spark_batch: Callable[[DataFrame], SparkBatch],
    ) -> None:
        """`spark_batch` gives what Spark knows of the micro-batch that it calls this function with."""
        self.operator = operator
        self.progress: ProgressLog | None = None
        self._sink = sink
        self._conf = conf
        self._secret = secret
        self._spark_batch = spark_batch
        self._ingest: Ingest | None = None
        self._merging: Merging | Joining | None = None
        self._recovery = Recovery(operator, conf, secret)
        self._sessions = SessionPanes(operator, conf) if isinstance(operator, SessionAggregation) else None
        self._state: RunState | None = None
        self.phase = Phase.EMITTED
        self.is_left_to_spark = False  # once and for all: its state is in Spark's own store
        self._has_standby = True  # until it turns out otherwise, which is said once

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """Run one epoch; again, from what is kept of the state, while agents are lost.

        Raises:
            SlashError: typed, with what to do; Spark ends the query with it, and may restart it.
            Exception: whatever the job's own function raises.
        """
        if self.is_left_to_spark:
            self._sink.write(batch, epoch)
            return
        execution = self._spark_batch(batch)
        self.phase = Phase.BEGUN
        try:
            self._execute(execution, epoch)
        except Exception as error:
            if not self._is_left_to_spark(execution, epoch, error):
                raise
            self._leave_to_spark(execution, epoch, error)
            self._sink.write(batch, epoch)

    def _is_left_to_spark(self, execution: SparkBatch, epoch: int, error: Exception) -> bool:
        """Whether Spark executes its operator itself from here on: it has its state, or nobody has any yet.

        Raises:
            UnsupportedQueryError, PlanMismatchError: it cannot, or is not to.
        """
        has_state = self._state is not None and self._state.last is not None
        if isinstance(error, Uncovered) and self._conf.mode == "require":
            raise UnsupportedQueryError(
                f"spark.slash.mode=require, but pyslash does not cover this query: {error}"
            ) from error
        if isinstance(error, Uncovered) and has_state:
            raise PlanMismatchError(f"epoch {epoch} is not of the query that began: {error}") from error
        if self._conf.mode == "require" or isinstance(error, FencedError | RewoundCheckpointError):
            return False
        is_first = epoch == 0 and not has_state and self.phase in _BEFORE_LOG
        is_left = isinstance(error, Uncovered) or (is_first and execution.is_active)
        if is_left and self.operator.thinned:
            raise UnsupportedQueryError(
                f"{error}. Plain Spark cannot go on with this query, planned without most of a row's windows; set "
                "spark.slash.mode=off to run it on plain Spark from its start"
            ) from error
        return is_left

    def _leave_to_spark(self, execution: SparkBatch, epoch: int, error: Exception) -> None:
        """Take back what the failed attempt has left, so that nobody finds state of ours beside Spark's.

        Raises:
            CheckpointError: a manifest may be in the checkpoint, and cannot be deleted.
        """
        logger.warning("query %s runs on plain Spark: %s", execution.query_id, error)
        self._recovery.leave(execution, epoch)
        execution.forget_counts()
        self.end(resumable=not self._conf.recovers)  # only a later run may come back to agents that dropped it
        self.is_left_to_spark = True

    def _execute(self, execution: SparkBatch, epoch: int) -> None:
        progress = EpochProgress(epoch)
        while True:
            try:
                manifest, result = self._prepare(execution, epoch, progress)
            except Exception as error:
                self._begin_again(epoch, progress, error)
                continue
            try:
                with progress.timed("sink"):
                    self._sink.write(result, epoch)
                break
            except Exception as error:
                if not self._sink.repeats:
                    raise
                self._begin_again(epoch, progress, error)
        execution.expect_no_state_store()
        self._emitted(execution, manifest, progress)

    def _begin_again(self, epoch: int, progress: EpochProgress, error: Exception) -> None:
        """Forget the run that has failed, if another may do better; else raise its error."""
        if progress.recoveries == _MOST_RECOVERIES or isinstance(error, _FINAL) or not self._can_begin_again(error):
            raise error
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

    def _prepare(self, execution: SparkBatch, epoch: int, progress: EpochProgress) -> tuple[Manifest, DataFrame]:
        """Everything of an epoch but the sink: its manifest, and the rows that the sink is to have."""
        state = self._state or self._begin(execution, epoch, progress)
        if state.last is not None and state.last.epoch < epoch:
            # Spark has logged the last epoch as done: nobody will ask for its windows again.
            state.coordinator.release(self.operator.emission.first_live_pane(state.last.watermark_us, state.last.pane))
            state.manifests.purge(epoch)
            if state.durable is not None:
                state.durable.clean()
            self._recovery.join_standby(execution.session, state.coordinator)
        manifest = state.manifests.read(epoch, self.operator.identity)
        progress.replayed = manifest is not None
        if manifest is not None and self._conf.recovers and state.as_of < epoch:
            raise LateManifestError(f"epoch {epoch} was written by run {manifest.run}, which this one has replaced")
        if manifest is None:
            manifest = self._update(execution, epoch, state, progress)
        else:
            self.phase = advance(self.phase, Event.REPLAYED)
            tell_times(execution.cut, manifest.times)
        with progress.timed("commit"):
            state.coordinator.commit(manifest)
        self.phase = advance(self.phase, Event.COMMITTED)
        state.last = manifest
        return manifest, self._merge(execution, manifest, state, progress)

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
        if self._merging is not None:
            self._merging.forget()
        self._close()

    def _close(self) -> None:
        if self._ingest is not None:
            self._ingest.close()
            self._ingest = None
        if self._state is not None:
            self._state.coordinator.close()
            self._state = None

    def _begin(self, execution: SparkBatch, epoch: int, progress: EpochProgress) -> RunState:
        query_id = execution.query_id
        self.progress = self.progress or ProgressLog(str(query_id), self._conf.progress_retained)
        state = self._recovery.begin(execution, epoch, progress)
        run, meet = state.manifests.run, state.coordinator.meet
        self._ingest = ingest_of(execution.session, self.operator, self._conf, query_id.bytes, self._secret, run, meet)
        if isinstance(self.operator, StreamJoin):
            self._merging = Joining(execution.session, self.operator, self._conf, state.coordinator)
        else:
            self._merging = Merging(self.operator, self._conf, state.coordinator)
        self._state = state
        return state

    def _update(self, execution: SparkBatch, epoch: int, state: RunState, progress: EpochProgress) -> Manifest:
        assert self._ingest is not None
        cut, operator = execution.cut, self.operator
        late_us, closing_us = cut.late_us, cut.eviction_us
        mode = operator.emission.mode
        emitted_us = late_us if mode is not OutputMode.COMPLETE else NO_WATERMARK_US
        held_in = 0
        if state.last is not None:
            emitted_us, held_in = state.last.watermark_us, state.last.pane
        is_early = self._conf.early and operator.emission.as_windows_close
        if is_early:
            late_us = max(late_us, emitted_us)
        if mode is OutputMode.UPDATE:
            emitted_us = max(late_us, emitted_us)
        logged = execution.offsets(epoch)
        coordinator, ingest, sessions = state.coordinator, self._ingest, self._sessions
        pane, place = held_in, ""
        if sessions is not None:
            pane = sessions.next_pane(coordinator.live_blocks(), held_in, epoch)
            place = sessions.place(pane, emitted_us)

        cut.begin(epoch, emitted_us)

        def update() -> tuple[list[Receipt], list[Receipt]]:
            """Of what is written anew, and of the epoch's rows."""
            with coordinator.discard_on_failure(epoch):
                rewritten: list[Receipt] = []
                if sessions is not None and pane != held_in:
                    blocks = coordinator.live_blocks()
                    rewritten = sessions.rewrite(execution, ingest, blocks, (held_in, pane), epoch, emitted_us)
                return rewritten, ingest.update(execution, epoch, late_us, place)

        with progress.timed("update"):
            coordinator.make_room_ahead(epoch)
            rewritten, receipts = coordinator.with_room(epoch, update)
        self.phase = advance(self.phase, Event.UPDATED)
        if is_early:
            closing_us = next_watermark_us(cut, closing_us)
        progress.ingest, progress.bytes_shuffled = ingest.path, ingest.shuffled
        progress.json_by_spark = ingest.json_by_spark
        progress.groups = sum(receipt.head.groups for receipt in receipts)
        written = [receipt for receipt in [*rewritten, *receipts] if receipt.head.length > 0]
        agents = {agent.incarnation: agent for agent in coordinator.agents}
        agents.update({receipt.agent.incarnation: receipt.agent for receipt in written})
        files: list[BlockFile] = []
        if state.durable is not None:
            with progress.timed("checkpoint"):
                added = coordinator.store(epoch, written, state.durable)
            progress.checkpoint_bytes = sum(file.bytes for file in added)
            files = state.durable.with_epoch(added, operator.emission.first_live_pane(emitted_us, pane))
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
            plan=operator.text,
            columns=list(operator.identity.columns),
            time=operator.identity.time,
            offsets=logged.sources,
            timestamp_ms=logged.timestamp_ms,
            input=operator.fingerprint,
            emitted_us=emitted_us,
            watermark_us=max(emitted_us, closing_us),
            rows=sum(receipt.head.rows for receipt in receipts) + cut.late_rows,
            late_rows=sum(receipt.head.late_rows for receipt in receipts) + cut.late_rows,
            times=event_times(cut),
            blocks=[
                (receipt.agent.incarnation, receipt.head.arena_offset, head_crc(receipt.raw_head))
                for receipt in written
            ],
            agents=list(agents.values()),
            files=files,
            in_checkpoint=state.durable is not None,
            standbys=standbys,
            before=state.last.state if state.last is not None else "",
            pane=pane,
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

    def _merge(self, execution: SparkBatch, manifest: Manifest, state: RunState, progress: EpochProgress) -> DataFrame:
        assert self._merging is not None
        blocks = state.coordinator.live_blocks()
        changed = _panes([block for block in blocks if block.head.epoch == manifest.epoch])
        windows = self.operator.emission.windows(
            _panes(blocks), changed, manifest.emitted_us, manifest.watermark_us, manifest.pane
        )
        progress.count_rows(manifest.rows, manifest.late_rows)
        progress.blocks, progress.windows = len(blocks), len(windows)
        progress.agents = len(state.coordinator.agents)
        progress.pinned_bytes = state.coordinator.used_bytes
        progress.spilled_bytes = state.coordinator.spilled_bytes
        progress.watermark_us = manifest.watermark_us
        with progress.timed("merge"):
            if self._sessions is not None:
                kept = self._sessions.kept(manifest)
            elif isinstance(self.operator, StreamJoin):
                versions = manifest.versions
                kept = Kept(*versions, manifest.epoch, manifest.emitted_us, closing_us=manifest.watermark_us)
            else:
                kept = Kept(manifest.before, manifest.state, manifest.epoch, manifest.emitted_us)
            return self._merging.result(execution, blocks, windows, kept, progress)

    def _emitted(self, execution: SparkBatch, manifest: Manifest, progress: EpochProgress) -> None:
        """The sink has its rows: tell Spark and the user what the epoch did."""
        assert self._merging is not None
        assert self.progress is not None
        assert self._state is not None
        self.phase = advance(self.phase, Event.EMITTED)
        self._merging.collect_counts(progress)
        # Blocks may keep panes that were dead before.
        emission = self.operator.emission
        dead_from, dead_before = (
            emission.first_live_pane(time, manifest.pane) for time in (manifest.emitted_us, manifest.watermark_us)
        )
        held, dead = 0, 0
        for block in self._state.coordinator.live_blocks():
            for pane, groups, _ in block.head.panes:
                held += groups if pane >= dead_before else 0
                dead += groups if dead_from <= pane < dead_before else 0
        updated = {"numUpdatedStateRows": progress.groups}
        if emission.new_only:
            taken = manifest.rows - manifest.late_rows
            new = min(progress.merged_rows, taken)  # the sink may have run its result twice
            updated = {"numUpdatedStateRows": new, "numDroppedDuplicateRows": taken - new}
        execution.cut.count(
            numTotalStateRows=held,
            **updated,
            numRemovedStateRows=dead,
            numRowsDroppedByWatermark=manifest.late_rows,
            stateMemory=progress.pinned_bytes,
            allUpdatesTimeMs=round(progress.update_ms),
            allRemovalsTimeMs=round(progress.merge_ms),
            commitTimeMs=round(progress.commit_ms + progress.checkpoint_ms + progress.replica_ms),
        )
        self.progress.add(progress)


def _panes(blocks: list[LiveBlock]) -> set[int]:
    return {pane for block in blocks for pane, _, _ in block.head.panes}
