"""The life of one stateful operator that pyslash executes, from epoch to epoch: its blocks, manifests and merges.

    update -> replica, checkpoint -> manifest -> commit -> merge;  release when the next epoch starts

A failure before the manifest leaves nothing behind: the epoch's rows are read again. A failure after it leaves the
manifest: the replayed epoch merges the same blocks and yields the same rows. `phase` has the rules.
"""

from __future__ import annotations

import logging
import threading

from pyslash.cluster.coordinator import LiveBlock
from pyslash.conf import Conf
from pyslash.driver.keeper import Keeper
from pyslash.driver.phase import Event, Phase, advance
from pyslash.driver.recovery import Recovery, RunState
from pyslash.emit.column_merge import Reading
from pyslash.emit.merge import Kept
from pyslash.emit.merging import Merging
from pyslash.emit.repartition import ingest_of
from pyslash.epoch_progress import EpochProgress
from pyslash.errors import (
    AgentTimeoutError,
    AgentUnavailableError,
    LateManifestError,
    SlashError,
    StaleIncarnationError,
)
from pyslash.ingest.update_job import Ingest
from pyslash.operators.joining import Joining
from pyslash.operators.sessions import SessionPanes
from pyslash.operators.settling import Settling
from pyslash.plan.catalyst import JavaObject
from pyslash.plan.operators import Aggregation, DeduplicationWithinWatermark, SessionAggregation, StreamJoin
from pyslash.plan.output_mode import OutputMode
from pyslash.plan.window import NO_WATERMARK_US
from pyslash.spark.execution import SparkBatch, check_times, next_watermark_us, tell_times
from pyslash.state.block_head import head_crc
from pyslash.state.directory import BlockFile
from pyslash.state.manifest import Manifest
from pyslash.state.receipt import Receipt
from pyslash.units import AFTER_ALL_PANES, BEFORE_ALL_PANES

logger = logging.getLogger("pyslash")
_OUT_OF_REACH = (AgentTimeoutError, AgentUnavailableError, StaleIncarnationError)
# Before this phase nothing of an epoch counts.
_BEFORE_LOG = frozenset({Phase.BEGUN, Phase.UPDATED, Phase.STORED})


class OperatorRunner:
    """Runs the epochs of one stateful operator of a started query."""

    def __init__(self, operator: Aggregation, conf: Conf, secret: bytes) -> None:
        self.operator = operator
        self._conf = conf
        self._secret = secret
        self._ingest: Ingest | None = None
        self._merging: Merging | Joining | None = None
        self._recovery = Recovery(operator, conf, secret)
        self._sessions: SessionPanes | None = None
        self._settling: Settling | None = None
        self._state: RunState | None = None
        self._manifest: Manifest | None = None  # of the epoch that is under way
        self._has_standby = True  # until it turns out otherwise, which is said once
        self._keeper: Keeper | None = None
        # Between the query's thread and the keeper's: held while what agents are told changes, not while tasks run.
        self._telling = threading.RLock()
        self.phase = Phase.EMITTED

    @property
    def has_state(self) -> bool:
        """Whether an epoch has left state."""
        return self._state is not None and self._state.last is not None

    @property
    def has_logged(self) -> bool:
        """Whether the manifest of the current epoch exists."""
        return self.phase not in _BEFORE_LOG

    @property
    def runs_no_python(self) -> bool:
        """Whether the tasks of the last update have run no Python of ours: none at all, or the job's own."""
        return self._ingest is not None and self._ingest.path == "rows"

    def begin(self) -> None:
        """An epoch begins."""
        self.phase = Phase.BEGUN

    def can_begin_again(self, error: Exception) -> bool:
        """Whether the epoch that failed with this error may succeed as a new run, from the stored state."""
        if not self._conf.recovers:
            return False
        if isinstance(error, LateManifestError):
            return True
        if isinstance(error.__cause__, _OUT_OF_REACH):
            return True  # even if that agent answers by now: what it has done of the call is not known
        if self._state is not None:
            return bool(self._state.coordinator.lost_agents())
        return self._recovery.may_succeed_after(error)

    def begin_again(self) -> None:
        """Forget the run that has failed."""
        with self._telling:
            self.phase = advance(self.phase, Event.AGENT_LOST)
            if self._state is not None:
                self._recovery.remember(self._state.coordinator)
            self._close()

    def leave(self, execution: SparkBatch, epoch: int) -> None:
        """Remove what a failed attempt left, so that the checkpoint has no state of ours beside Spark's.

        Raises:
            CheckpointError: a manifest may be in the checkpoint, and cannot be deleted.
        """
        self._recovery.leave(execution, epoch)

    def merged(self, execution: SparkBatch, epoch: int, progress: EpochProgress) -> JavaObject:
        """The micro-batch's plan with the operator's rows in its place, once the operator's epoch is committed."""
        with self._telling:
            state = self._state or self._begin(execution, epoch, progress)
            self._let_go(execution, epoch, state)
        self._watch_replicas(execution)
        manifest = state.manifests.read(epoch, self.operator.identity)
        progress.replayed = manifest is not None
        if manifest is not None and self._conf.recovers and state.as_of < epoch:
            raise LateManifestError(f"epoch {epoch} was written by run {manifest.run}, which this one has replaced")
        if manifest is None:
            manifest = self._update(execution, epoch, state, progress)
        else:
            self.phase = advance(self.phase, Event.REPLAYED)
            tell_times(execution.cut, manifest.times)
        with self._telling, progress.timed("commit"):
            state.coordinator.commit(manifest)
            self.phase = advance(self.phase, Event.COMMITTED)
            state.last = self._manifest = manifest
        self._watch_replicas(execution)
        return self._merge(execution, manifest, state, progress)

    def replicate_again(self, execution: SparkBatch) -> bool:
        """Beside the query's own thread: start a standby if there is none, and have incomplete replicas sent again.

        Returns whether it has to be called again.
        """
        state = self._state
        if state is None or not execution.is_active:
            return False
        found = self._recovery.find_standby(execution.session, state.coordinator)
        with self._telling:
            if state is not self._state:
                return False
            state.coordinator.meet(found)
            if not state.coordinator.exposed():
                return self._lacks_replicas(state)
            # No room is made for them: merges may be reading what would be spilled.
            size = state.coordinator.resync(self._conf.transport, may_spill=False)
            logger.info("replicas between epochs: %d bytes", size)
            return not state.coordinator.exposed() and self._lacks_replicas(state)

    def _watch_replicas(self, execution: SparkBatch) -> None:
        if self._state is not None and self._lacks_replicas(self._state):
            if self._keeper is None:
                self._keeper = Keeper(lambda: self.replicate_again(execution), "pyslash replicas")
            self._keeper.wake()

    def _lacks_replicas(self, state: RunState) -> bool:
        if not self._conf.replicates:
            return False
        return len(state.coordinator.agents) < 2 or bool(state.coordinator.exposed())

    def _let_go(self, execution: SparkBatch, epoch: int, state: RunState) -> None:
        """Of what only the epoch before needed, once Spark has logged it as done."""
        if state.last is not None and state.last.epoch < epoch:
            state.coordinator.release(self.operator.emission.first_live_pane(state.last.watermark_us, state.last.pane))
            state.manifests.purge(epoch)
            if state.durable is not None:
                state.durable.clean()
            state.coordinator.meet(self._recovery.find_standby(execution.session, state.coordinator))

    def end(self, resumable: bool) -> None:
        """The query has ended: free its state in the agents, unless a restart needs it and has it from nowhere else.

        Args:
            resumable: it has a checkpoint, so it may be started again.
        """
        if self._state is None:
            return
        try:
            if not resumable:
                self._state.coordinator.drop()
            elif self._state.durable is not None:
                self._state.coordinator.release(AFTER_ALL_PANES)
        except SlashError as error:
            logger.warning("an agent still holds state of a query that has ended: %s", error)
        if self._merging is not None:
            self._merging.forget()
        with self._telling:
            self._close()

    def _close(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None
        if self._ingest is not None:
            self._ingest.close()
            self._ingest = None
        if self._state is not None:
            self._state.coordinator.close()
            self._state = None

    def _begin(self, execution: SparkBatch, epoch: int, progress: EpochProgress) -> RunState:
        query_id = execution.query_id
        state = self._recovery.begin(execution, epoch, progress)
        self.operator = operator = state.operator
        if isinstance(operator, SessionAggregation):
            self._sessions = SessionPanes(operator, self._conf)
        if isinstance(operator, DeduplicationWithinWatermark):
            self._settling = Settling(operator, self._conf)
        run, meet = state.manifests.run, state.coordinator.meet
        taken = self._settling.candidates if self._settling is not None else self.operator
        self._ingest = ingest_of(execution.session, taken, self._conf, query_id.bytes, self._secret, run, meet)
        reading = Reading(
            query_id=query_id.bytes,
            token=state.coordinator.read_token,
            transport=self._conf.transport,
            timeout_seconds=self._conf.agent_call_timeout,
            secret=self._secret,
            arena_bytes=self._conf.arena_bytes,
            python=execution.session.sparkContext.pythonExec,
            start_timeout_seconds=self._conf.agent_start_timeout,
        )
        if isinstance(self.operator, StreamJoin):
            self._merging = Joining(execution.session, self.operator, self._conf, reading)
        else:
            self._merging = Merging(execution.session, self.operator, self._conf, state.coordinator, reading)
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
        coordinator, ingest, sessions, settling = state.coordinator, self._ingest, self._sessions, self._settling
        pane, place = held_in, ""
        if sessions is not None:
            pane = sessions.next_pane(coordinator.live_blocks(), held_in, epoch)
            place = sessions.place(pane, emitted_us)
        cut.begin(epoch, emitted_us, operator.carried)

        def rows_of_epoch(place: str = "") -> list[Receipt]:
            taken = ingest.update(execution, epoch, late_us, place)
            check_times(cut, sum(receipt.head.rows for receipt in taken))
            return taken

        def update() -> tuple[list[Receipt], list[Receipt]]:
            """Of the epoch's state, and of its rows."""
            with coordinator.discard_on_failure(epoch):
                if settling is not None:
                    evicted_us = state.last.watermark_us if state.last is not None else NO_WATERMARK_US
                    taken = rows_of_epoch()
                    return settling.settle(execution, ingest, coordinator, taken, epoch, evicted_us, emitted_us), taken
                rewritten: list[Receipt] = []
                if sessions is not None and pane != held_in:
                    blocks = coordinator.live_blocks()
                    rewritten = sessions.rewrite(execution, ingest, blocks, (held_in, pane), epoch, emitted_us)
                taken = rows_of_epoch(place)
                return [*rewritten, *taken], taken

        with progress.timed("update"):
            coordinator.make_room_ahead(epoch)
            published, receipts = coordinator.with_room(epoch, update)
        by_tasks = {id(receipt): receipt.nanoseconds for receipt in (*published, *receipts)}
        progress.count_time("update_task", sum(by_tasks.values()) + ingest.scattering_ns)
        self.phase = advance(self.phase, Event.UPDATED)
        if is_early:
            closing_us = next_watermark_us(cut, closing_us)
        progress.ingest, progress.bytes_shuffled = ingest.path, ingest.shuffled
        progress.records_by_spark, progress.records_fetched = ingest.records_by_spark, ingest.records_fetched
        progress.groups = sum(receipt.head.groups for receipt in receipts)
        written = [receipt for receipt in published if receipt.head.length > 0]
        with self._telling:
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
                    standbys, size = coordinator.with_room(
                        epoch, lambda: coordinator.replicate(epoch, written, self._conf.transport)
                    )
                progress.replica_bytes += size
                self._warn_without_standby(standbys)
            self.phase = advance(self.phase, Event.STORED)
            manifest = Manifest(
                epoch=epoch,
                run=state.manifests.run,
                plan=operator.text,
                columns=list(operator.identity.columns),
                time=operator.identity.time,
                since=list(operator.since),
                is_adopted=operator.is_adopted,
                offsets=logged.sources,
                timestamp_ms=logged.timestamp_ms,
                input=operator.fingerprint,
                emitted_us=emitted_us,
                watermark_us=max(emitted_us, closing_us),
                rows=sum(receipt.head.rows for receipt in receipts) + cut.late_rows,
                late_rows=sum(receipt.head.late_rows for receipt in receipts) + cut.late_rows,
                times=cut.event_times(),
                blocks=[
                    (receipt.agent.incarnation, receipt.head.arena_offset, head_crc(receipt.raw_head))
                    for receipt in written
                ],
                agents=list(agents.values()),
                files=files,
                in_checkpoint=state.durable is not None,
                standbys=standbys,
                before=state.version,
                pane=pane,
                held=_held(coordinator.live_blocks(), written),
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
                "spark.slash.durability=%s, spark.slash.replication=%d: there is only one agent, so nothing is "
                "replicated until another executor starts one",
                self._conf.durability,
                self._conf.replication,
            )
        self._has_standby = bool(standbys)

    def _merge(self, execution: SparkBatch, manifest: Manifest, state: RunState, progress: EpochProgress) -> JavaObject:
        assert self._merging is not None
        blocks = state.coordinator.live_blocks()
        changes = [block for block in blocks if block.head.epoch == manifest.epoch]
        changed = _panes(changes)
        windows = self.operator.emission.windows(
            _panes(blocks), changed, manifest.emitted_us, manifest.watermark_us, manifest.pane
        )
        progress.count_rows(manifest.rows, manifest.late_rows)
        progress.blocks, progress.windows = len(blocks), len(windows)
        progress.agents = len(state.coordinator.agents)
        progress.pinned_bytes = state.coordinator.used_bytes
        progress.spilled_bytes = state.coordinator.spilled_bytes
        progress.memory = state.coordinator.memory
        progress.watermark_us = manifest.watermark_us
        with progress.timed("merge"):
            if self._sessions is not None:
                kept = self._sessions.kept(manifest)
            elif isinstance(self.operator, StreamJoin):
                versions = manifest.versions
                kept = Kept(*versions, manifest.epoch, manifest.emitted_us, closing_us=manifest.watermark_us)
            else:
                kept = Kept(manifest.before, manifest.state, manifest.epoch, manifest.emitted_us)
            read = changes if self._settling is not None else blocks
            return self._merging.result(execution, read, windows, kept, progress)

    def emitted(self, execution: SparkBatch, progress: EpochProgress) -> None:
        """The sink has its rows: tell Spark what the epoch did."""
        assert self._merging is not None
        assert self._state is not None
        assert self._manifest is not None
        manifest = self._manifest
        self.phase = advance(self.phase, Event.EMITTED)
        self._merging.collect_counts(progress)
        # Blocks may keep panes that were dead before.
        emission = self.operator.emission
        dead_from, dead_before = (
            emission.first_live_pane(time, manifest.pane) for time in (manifest.emitted_us, manifest.watermark_us)
        )
        held, dead, late = 0, 0, manifest.late_rows
        for block in self._state.coordinator.live_blocks():
            for pane, groups, _ in block.head.panes:
                held += groups if pane >= dead_before else 0
                dead += groups if dead_from <= pane < dead_before else 0
                if block.head.epoch == manifest.epoch:
                    late += groups * emission.late_windows(pane, manifest.emitted_us)
        updated = {"numUpdatedStateRows": max(progress.groups, int(emission.is_global))}
        if emission.new_only:
            taken = manifest.rows - manifest.late_rows
            new = min(progress.merged_rows, taken)  # the sink may have run its result twice
            updated = {"numUpdatedStateRows": new, "numDroppedDuplicateRows": taken - new}
        execution.cut.count(
            numTotalStateRows=held,
            **updated,
            numRemovedStateRows=dead,
            numRowsDroppedByWatermark=late,
            stateMemory=progress.pinned_bytes,
            allUpdatesTimeMs=round(progress.update_task_ms),
            allRemovalsTimeMs=round(progress.merge_task_ms),
            commitTimeMs=round(progress.commit_ms + progress.checkpoint_ms + progress.replica_ms),
        )


def _held(blocks: list[LiveBlock], written: list[Receipt]) -> dict[str, tuple[int, int]]:
    """Of each agent that holds something, the last pane and the bytes."""
    held: dict[str, tuple[int, int]] = {}
    heads = [(block.agent, block.head) for block in blocks] + [(one.agent, one.head) for one in written]
    for agent, head in heads:
        last, size = held.get(agent.incarnation, (BEFORE_ALL_PANES, 0))
        last = max(last, *(pane for pane, _, _ in head.panes)) if head.panes else last
        held[agent.incarnation] = (last, size + head.length)
    return held


def _panes(blocks: list[LiveBlock]) -> set[int]:
    return {pane for block in blocks for pane, _, _ in block.head.panes}
